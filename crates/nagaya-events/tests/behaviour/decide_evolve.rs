//! `decide` and `evolve` agree.

use nagaya_events::{Decide, Evolve, testing::context};
use proptest::prelude::*;

use crate::todo::{Command, Todo};

/// A command that leads to no event once its state is reached.
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
    fn a_repeated_command_leads_to_no_event(commands in prop::collection::vec(command(), 1..30)) {
        let mut state = Todo::default();
        for command in &commands {
            let before = state.clone();
            let Ok(events) = state.decide(command, &context()) else { continue };
            events.iter().for_each(|event| state.evolve(event));
            // A change is one event, and an event without a change does not exist.
            prop_assert_eq!(state.applied, before.applied + events.len() as u64);
            prop_assert!(events.len() <= 1);
            let same = Todo { applied: before.applied, ..state.clone() } == before;
            prop_assert_eq!(same, events.is_empty(), "{:?}", command);
            // Repeated, it leads to no event or is refused.
            let again = state.decide(command, &context());
            prop_assert!(again.is_err() || again == Ok(vec![]), "{:?} decides {:?} again", command, again);
        }
    }
}
