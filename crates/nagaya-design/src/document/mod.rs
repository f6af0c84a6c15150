//! The document that engineers write by hand: tables, keys, indexes, entities, access patterns, made from a design.

mod diagram;
mod html;
mod json;
mod markdown;

pub use html::html;
pub use json::json;
pub use markdown::markdown;
