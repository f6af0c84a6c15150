//! The routes of a design, tried over HTTP as a client would.

mod attack;
mod desk;
mod errors;
mod given;
mod idempotency;
mod items;
mod lists;
mod operators;
mod seam;
mod visitors;
