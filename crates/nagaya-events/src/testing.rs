//! Given, when, then: tests of a domain without a store.
//!
//! ```
//! # use nagaya_events::{Context, Decide, Evolve};
//! # use serde::{Deserialize, Serialize};
//! # #[derive(Debug, Clone, Default, Serialize, Deserialize)]
//! # struct Door { open: bool }
//! # #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
//! # #[serde(tag = "eventType", content = "data")]
//! # enum DoorEvent { DoorOpened {}, DoorClosed {} }
//! # impl Evolve for Door {
//! #     type Event = DoorEvent;
//! #     fn evolve(&mut self, event: &DoorEvent) { self.open = matches!(event, DoorEvent::DoorOpened {}); }
//! # }
//! # struct Open;
//! # impl Decide<Open> for Door {
//! #     type Reply = ();
//! #     type Refusal = String;
//! #     fn decide(&self, _: &Open, _: &Context) -> Result<Vec<DoorEvent>, String> {
//! #         Ok(if self.open { vec![] } else { vec![DoorEvent::DoorOpened {}] })
//! #     }
//! #     fn reply(&self, _: &Open) {}
//! # }
//! use nagaya_events::testing::given;
//!
//! given::<Door>([DoorEvent::DoorClosed {}]).when(&Open).then([DoorEvent::DoorOpened {}]);
//! given::<Door>([DoorEvent::DoorOpened {}]).when(&Open).then([]);
//! ```

use std::fmt::Debug;

use nagaya_tenancy::IdGenerator;

use crate::{Context, Decide, Evolve};

/// A context with a fixed time and ids that are counted.
pub fn context() -> Context {
    Context {
        now: 1_756_557_296_000,
        user: "u-1".to_owned(),
        correlation: "c-1".to_owned(),
        causation: "k-1".to_owned(),
        ids: IdGenerator::sequential(),
    }
}

/// The state after these events.
pub fn given<S: Evolve>(events: impl IntoIterator<Item = S::Event>) -> Given<S> {
    let mut state = S::default();
    events.into_iter().for_each(|event| state.evolve(&event));
    Given { state }
}

/// A state to test.
#[derive(Debug)]
pub struct Given<S> {
    /// The state.
    pub state: S,
}

impl<S: Evolve> Given<S> {
    /// Lets it decide on a command.
    pub fn when<C>(self, command: &C) -> Then<S, S::Refusal>
    where
        S: Decide<C>,
    {
        let decided = self.state.decide(command, &context());
        Then { state: self.state, decided }
    }
}

/// The decision on a command.
#[derive(Debug)]
pub struct Then<S: Evolve, R> {
    state: S,
    decided: Result<Vec<S::Event>, R>,
}

impl<S: Evolve, R: Debug> Then<S, R>
where
    S::Event: Debug + PartialEq,
{
    /// Expects these events; the state after them.
    ///
    /// # Panics
    /// If the decision is another one.
    pub fn then(self, expected: impl IntoIterator<Item = S::Event>) -> S {
        let expected: Vec<_> = expected.into_iter().collect();
        let Then { mut state, decided } = self;
        let decided = decided.unwrap_or_else(|refusal| panic!("the command was refused: {refusal:?}"));
        assert_eq!(decided, expected);
        decided.iter().for_each(|event| state.evolve(event));
        state
    }

    /// Expects a refusal.
    ///
    /// # Panics
    /// If the command was not refused.
    pub fn refused(self) -> R {
        match self.decided {
            Ok(events) => panic!("the command was not refused: {events:?}"),
            Err(refusal) => refusal,
        }
    }
}
