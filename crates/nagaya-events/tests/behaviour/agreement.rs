//! Deciding and evolving never disagree.

use nagaya_events::{Decide, Evolve, testing::context};
use proptest::prelude::*;

use crate::todo::{Command, Todo};

/// A command that wants a certain state, and is content once it is there.
pub(crate) fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        "[ab]".prop_map(Command::Create),
        "[ab]".prop_map(Command::Rename),
        any::<bool>().prop_map(Command::Complete),
        Just(Command::Delete),
    ]
}

proptest! {
    /// Proves the properties part of T22.
    #[test]
    fn a_command_that_has_happened_has_nothing_more_to_do(commands in prop::collection::vec(command(), 1..30)) {
        let mut state = Todo::default();
        for command in &commands {
            let before = state.clone();
            let Ok(events) = state.decide(command, &context()) else { continue };
            events.iter().for_each(|event| state.evolve(event));
            // A change is one event, and nothing is written down that changes nothing.
            prop_assert_eq!(state.taken_in, before.taken_in + events.len() as u64);
            prop_assert!(events.len() <= 1);
            let same = Todo { taken_in: before.taken_in, ..state.clone() } == before;
            prop_assert_eq!(same, events.is_empty(), "{:?}", command);
            // Asked again, it is content or refused.
            let again = state.decide(command, &context());
            prop_assert!(again.is_err() || again == Ok(vec![]), "{:?} decides {:?} again", command, again);
        }
    }
}
