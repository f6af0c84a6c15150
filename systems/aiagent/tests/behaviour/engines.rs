//! The same scenario on each design and engine.

use std::sync::{Arc, Mutex};

use nagaya_testing::{ManualClock, TestServer, TestServerBuilder, memory_store};

use crate::{harness::builder, scenario, transcript::Transcript};

/// The transcript of the scenario on a server.
pub(crate) fn transcript(
    server: TestServerBuilder,
    start: impl FnOnce(TestServerBuilder) -> TestServer,
) -> Vec<String> {
    let transcript = Arc::<Mutex<Transcript>>::default();
    let recorded = Arc::clone(&transcript);
    let server = start(server.observer(move |exchange| recorded.lock().expect("no panic").add(exchange)));
    scenario::run(&server);
    let entries = transcript.lock().expect("no panic").entries().to_vec();
    assert!(entries.len() > 250, "only {} requests were recorded", entries.len());
    entries
}

/// The transcript of the scenario on a store in memory.
pub(crate) fn transcript_in_memory(design: &str) -> Vec<String> {
    let clock = ManualClock::default();
    transcript(builder(design, &clock), |server| server.store(memory_store(&clock), &clock).start())
}

/// Asserts that two transcripts are equal, request by request.
#[track_caller]
pub(crate) fn assert_same(one: &[String], other: &[String]) {
    for (one, other) in one.iter().zip(other) {
        assert_eq!(one, other);
    }
    assert_eq!(one.len(), other.len());
}

/// Proves the embedded part of M2. Proves the API's part of A6. Proves M8, A9 and A15.
#[test]
fn one_table_and_many_tables_give_the_same_answers() {
    assert_same(&transcript_in_memory("single"), &transcript_in_memory("multi"));
}
