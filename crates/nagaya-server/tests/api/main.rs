//! The routes of a design, over HTTP.

mod attack;
mod desk;
mod errors;
mod extension;
mod given;
mod idempotency;
mod items;
mod lists;
mod operators;
mod visitors;
