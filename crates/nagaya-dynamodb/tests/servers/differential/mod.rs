//! The same random operations on the embedded engine and on DynamoDB Local give the same results.

mod compare;
mod generate;

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Instant,
};

use fastrand::Rng;
use nagaya_embedded::{EmbeddedStore, Options};
use nagaya_store::{Clock, Store};

use self::{
    compare::{Kept, answer, changes, contents},
    generate::{Operation, operation, spec},
};
use crate::test_server::{Server, number, seed};

/// A time far in the future, so that the server never deletes items: they expire by the test's clock only.
const START: i64 = 4_000_000_000;

/// Proves the DynamoDB and embedded part of N2.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_operations_have_the_same_answers_as_on_the_embedded_engine() {
    let (seed, count) = (seed(), number("NAGAYA_OPERATIONS").unwrap_or(10_000));
    eprintln!("{count} operations; NAGAYA_SEED={seed} gives the same again");
    let now = Arc::new(AtomicI64::new(START));
    let clock = {
        let now = Arc::clone(&now);
        Clock::new(move || now.load(Ordering::SeqCst) * 1000)
    };
    let options = Options { clock: clock.clone(), sweep_interval: None, ..Options::default() };
    let embedded = EmbeddedStore::in_memory(options).expect("a store in memory");
    let dynamodb = Server::DynamodbLocal.open(clock).await;
    for store in [&embedded as &dyn Store, &dynamodb] {
        store.ensure_tables(&[spec()]).await.expect("the table is made");
    }

    let start = Instant::now();
    let mut rng = Rng::with_seed(seed);
    let mut tally = Tally::default();
    let mut kept: Option<Kept> = None;
    for at in 0..count {
        let operation = operation(&mut rng, now.load(Ordering::SeqCst));
        if let Operation::Wait(seconds) = operation {
            now.fetch_add(seconds, Ordering::SeqCst);
            continue;
        }
        let (one, one_kept) = answer(&embedded, &operation, kept.as_ref()).await;
        let (other, other_kept) = answer(&dynamodb, &operation, kept.as_ref()).await;
        // Pages that end at different items cannot be compared.
        if matches!(operation, Operation::Open(_) | Operation::Resume) && one_kept != other_kept {
            kept = None;
            continue;
        }
        assert!(
            one == other,
            "operation {at} of NAGAYA_SEED={seed} differs: {operation:#?}\nembedded: {one:#?}\nDynamoDB: {other:#?}"
        );
        kept = one_kept;
        tally.count(&one);
    }
    eprintln!("{tally} in {:.0?}", start.elapsed());
    assert_eq!(contents(&embedded).await, contents(&dynamodb).await, "NAGAYA_SEED={seed}: the contents differ");
    let (one, other) = (changes(&embedded).await, changes(&dynamodb).await);
    for (key, changes) in &one {
        let others = other.get(key).map_or(&[][..], Vec::as_slice);
        for (at, (mine, theirs)) in changes.iter().zip(others).enumerate() {
            assert_eq!(mine, theirs, "NAGAYA_SEED={seed}: change {at} of {key} differs");
        }
        assert_eq!(changes.len(), others.len(), "NAGAYA_SEED={seed}: changes of {key}");
    }
    assert_eq!(one.len(), other.len(), "NAGAYA_SEED={seed}: items with changes");
    eprintln!("{} changes of {} items are the same", one.values().map(Vec::len).sum::<usize>(), one.len());
}

/// Counts the results by kind, to show that a run has more than failed conditions.
#[derive(Default)]
struct Tally(std::collections::BTreeMap<&'static str, usize>);

impl Tally {
    fn count(&mut self, answer: &compare::Answer) {
        *self.0.entry(answer.code()).or_default() += 1;
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counts: Vec<_> = self.0.iter().map(|(code, count)| format!("{count} {code}")).collect();
        f.write_str(&counts.join(", "))
    }
}
