//! A domain that makes many events at once: the same events as a todo's, ten to a command.

use nagaya_events::{Context, Decide, Evolve};
use nagaya_todo::{Todo, TodoEvent};
use serde::{Deserialize, Serialize};

/// Events of an aggregate.
pub(crate) const EACH: u64 = 10;

/// A todo that goes through much at once.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Busy(Todo);

/// A todo that is made, renamed, completed and reopened.
pub(crate) struct Live {
    pub(crate) title: String,
}

impl Evolve for Busy {
    type Event = TodoEvent;

    fn evolve(&mut self, event: &TodoEvent) {
        self.0.evolve(event);
    }
}

impl Decide<Live> for Busy {
    type Reply = ();
    type Refusal = std::convert::Infallible;

    fn decide(&self, command: &Live, _: &Context) -> Result<Vec<TodoEvent>, Self::Refusal> {
        let made = |at: u64| match at % 3 {
            _ if at == 0 => TodoEvent::TodoCreated { title: command.title.clone() },
            0 => TodoEvent::TodoReopened {},
            1 => TodoEvent::TodoTitleChanged { title: format!("{} {at}", command.title) },
            _ => TodoEvent::TodoCompleted {},
        };
        Ok((0..EACH).map(made).collect())
    }

    fn reply(&self, _: &Live) {}
}
