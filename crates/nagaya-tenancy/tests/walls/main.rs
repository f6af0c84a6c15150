//! The walls, tried through the handles that application code gets.

mod common;
mod items;
