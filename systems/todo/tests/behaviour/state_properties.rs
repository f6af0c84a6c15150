//! The decisions of a todo agree with the state that its events give.

use nagaya_events::{Decide as _, Evolve as _, testing::context};
use nagaya_todo::{Command, Note, Todo};
use proptest::prelude::*;

fn note() -> impl Strategy<Value = Note> {
    let object = ("notes/[ab]", 1_u64..3).prop_map(|(object, size)| Note::Object { object, size });
    prop_oneof!["[ab]".prop_map(Note::Text), object]
}

fn command() -> impl Strategy<Value = Command> {
    let change = (prop::option::of("[ab]"), any::<Option<bool>>(), prop::option::of(prop::option::of(note())));
    prop_oneof![
        1 => ("[ab]", prop::option::of(note())).prop_map(|(title, note)| Command::Create { title, note }),
        5 => change.prop_map(|(title, completed, note)| Command::Change { title, completed, note }),
        1 => Just(Command::Delete),
    ]
}

proptest! {
    /// Proves the properties part of T22. Proves the least-data part of T4.
    #[test]
    fn a_repeated_command_gives_no_events(commands in prop::collection::vec(command(), 1..40)) {
        let mut todo = Todo::default();
        for command in &commands {
            let before = todo.clone();
            let Ok(events) = todo.decide(command, &context()) else {
                prop_assert_eq!(&todo, &before);
                continue;
            };
            // Each event changes the state, and none is repeated.
            for event in &events {
                let unchanged = todo.clone();
                todo.evolve(event);
                prop_assert_ne!(&todo, &unchanged, "{:?} changes nothing", event);
            }
            let again = todo.decide(command, &context());
            prop_assert!(again.is_err() || again == Ok(vec![]), "{:?} decides {:?} again", command, again);
        }
    }
}
