//! The routes of a design, over HTTP.

mod aggregates;
mod attack;
mod desk;
mod errors;
mod extension;
mod extension_owned;
mod extension_restrict;
mod idempotency;
mod items;
mod lists;
mod operators;
mod own_items;
mod request_bodies;
mod visitors;
