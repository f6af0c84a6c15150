//! One story, told on each design and engine.

use crate::{house::House, story};

/// What is said when the story is told.
pub(crate) fn told(house: &House) -> Vec<String> {
    story::tell(house);
    house.transcript.lock().expect("nobody panics with it").entries().to_vec()
}

/// Two runs were told the same, line by line.
#[track_caller]
pub(crate) fn same(one: &[String], other: &[String]) {
    for (one, other) in one.iter().zip(other) {
        assert_eq!(one, other);
    }
    assert_eq!(one.len(), other.len());
    assert!(one.len() > 250, "a story of {} lines is not the whole one", one.len());
}

/// Proves the embedded part of M2. Proves the API's part of A6. Proves M8, A9 and A15.
#[test]
fn one_table_and_many_tables_give_the_same_answers() {
    same(&told(&House::in_memory("single")), &told(&House::in_memory("multi")));
}
