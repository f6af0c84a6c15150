//! The documentation of a design: tables, keys, indexes, entities, access patterns.

mod describe;
mod diagram;
mod html;
mod json;
mod markdown;

pub use html::html;
pub use json::json;
pub use markdown::markdown;
