//! Consecutive versions and increasing ids, under any clock.

use proptest::prelude::*;
use tokio::runtime::Runtime;

use crate::{
    app::{App, START_MILLIS, create},
    todo::Command,
};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Proves T1's version and id. Proves the version part of T9.
    #[test]
    fn versions_are_consecutive_and_ids_increase_when_the_clock_jumps(
        jumps in prop::collection::vec(prop_oneof![-100_000_000_i64..100_000_000, Just(0), Just(-START_MILLIS)], 1..20)
    ) {
        Runtime::new().expect("a runtime").block_on(async {
            let app = App::new().await;
            app.execute_all(1, [create("a")]).await;
            for (at, jump) in jumps.iter().enumerate() {
                app.clock.set((START_MILLIS + jump).max(0));
                app.execute_all(1, [Command::Number(at as u64)]).await;
            }
            let events = app.recorded(1).await;
            let versions: Vec<_> = events.iter().map(|event| event.version).collect();
            assert_eq!(versions, (1..=jumps.len() as u64 + 1).collect::<Vec<_>>());
            let mut ids: Vec<_> = events.iter().map(|event| event.id.clone()).collect();
            let stored = ids.clone();
            ids.sort();
            ids.dedup();
            assert_eq!(stored, ids, "{jumps:?}");
            // The list applies them in this order, too.
            app.project_all().await;
            assert_eq!(app.listed().await, [format!("f1/1 {} v{} active", jumps.len() - 1, events.len())]);
        });
    }
}
