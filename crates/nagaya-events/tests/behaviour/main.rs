//! The behaviour of the library, on the todo design and a store in memory.

mod agreement;
mod app;
mod chain;
mod crashes;
mod dead_letters;
mod listening;
mod loading;
mod once;
mod order;
mod projecting;
mod races;
mod rebuilding;
mod stream;
mod todo;
mod walls;
