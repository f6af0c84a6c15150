//! Events that the projection does not know: a later program has written them.

use nagaya_events::{Context, Decide, Evolve};
use nagaya_todo::{Command, Refusal, Todo, TodoEvent};
use serde::{Deserialize, Serialize};

/// Unknown events that are written at once, each second.
pub(crate) const UNKNOWN: u64 = 50;

/// A todo of a later program.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct LaterTodo(Todo);

impl Evolve for LaterTodo {
    type Event = TodoEvent;

    fn evolve(&mut self, event: &TodoEvent) {
        self.0.evolve(event);
    }

    fn event_version(_: &str) -> u32 {
        2
    }
}

impl Decide<Command> for LaterTodo {
    type Reply = ();
    type Refusal = Refusal;

    fn decide(&self, command: &Command, context: &Context) -> Result<Vec<TodoEvent>, Refusal> {
        self.0.decide(command, context)
    }

    fn reply(&self, _: &Command) {}
}
