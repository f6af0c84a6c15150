//! The behaviour of the library, on the todo design and a store in memory.

mod app;
mod attempts;
mod chain;
mod crashes;
mod dead_letters;
mod decide_evolve;
mod delivery_order;
mod event_order;
mod feed;
mod idempotency;
mod loading;
mod projecting;
mod races;
mod rebuilding;
mod required_fields;
mod skipping;
mod todo;
mod verifying;
mod walls;
