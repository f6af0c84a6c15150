//! Shared to-do lists of a family, event-sourced: the list is a projection of the events.
//!
//! The design says where events, heads and the list are stored, and who may read them. This crate has what the design cannot
//! say: how a todo changes ([`Todo`]), what the list shows ([`List`](list::List)), and the routes.

mod http;
mod list;
mod notes;
mod seed;
mod todo;

use std::sync::Arc;

use nagaya_design::Design;
use nagaya_events::{Error, Projection};
use nagaya_server::System;

pub use self::{
    notes::LongNoteStorage,
    todo::{Command, Note, Refusal, Todo, TodoEvent, TodoView},
};

/// The aggregate of the design.
pub const AGGREGATE: &str = "todo";

/// The text of its design.
pub const DESIGN: &str = include_str!("../design/todo.toml");

/// The system on its design.
pub fn system(name: &'static str, design: Design, notes: LongNoteStorage) -> Result<System, Error> {
    let routes = http::Todos::new(&design, notes)?;
    let seeder = seed::TodoSeeder::new(&design)?;
    let mut system = System::new(name, design, http::TodoExtension(Arc::new(routes)));
    system.projections = projections();
    system.seeders = vec![Arc::new(seeder)];
    Ok(system)
}

/// The projections of the events.
pub fn projections() -> Vec<Arc<dyn Projection>> {
    vec![Arc::new(list::List)]
}
