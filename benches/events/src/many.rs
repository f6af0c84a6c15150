//! A domain that decides ten events per command, with the events of a todo.

use nagaya_events::{Context, Decide, Evolve};
use nagaya_todo::{Todo, TodoEvent};
use serde::{Deserialize, Serialize};

/// Events per aggregate.
pub(crate) const EACH: u64 = 10;

/// A todo with many events per command.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct ManyEventsTodo(Todo);

/// Creates, renames, completes and reopens a todo.
pub(crate) struct RunThroughStates {
    pub(crate) title: String,
}

impl Evolve for ManyEventsTodo {
    type Event = TodoEvent;

    fn evolve(&mut self, event: &TodoEvent) {
        self.0.evolve(event);
    }
}

impl Decide<RunThroughStates> for ManyEventsTodo {
    type Reply = ();
    type Refusal = std::convert::Infallible;

    fn decide(&self, command: &RunThroughStates, _: &Context) -> Result<Vec<TodoEvent>, Self::Refusal> {
        let made = |at: u64| match at % 3 {
            _ if at == 0 => TodoEvent::TodoCreated { title: command.title.clone() },
            0 => TodoEvent::TodoReopened {},
            1 => TodoEvent::TodoTitleChanged { title: format!("{} {at}", command.title) },
            _ => TodoEvent::TodoCompleted {},
        };
        Ok((0..EACH).map(made).collect())
    }

    fn reply(&self, _: &RunThroughStates) {}
}
