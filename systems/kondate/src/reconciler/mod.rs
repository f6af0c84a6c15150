//! Keeps saved counts and search postings up to date with the changes of the store.
//!
//! Both are reconciled: a change says what to look at, and what is stored then decides. So a change may come twice or late,
//! several processes may read the same changes, and where changes were lost all items are reconciled.

mod jobs;

use std::{collections::HashSet, time::Duration};

use nagaya_tenancy::{
    ChangeConsumer, ConsumerError, ConsumerFuture, Error, FailedChange, ItemChange, Nagaya, Operator, Principal,
    Processed, RecordOwner, Subscription, SubscriptionOptions, process_pending,
};

use self::jobs::{FailedJob, Jobs};
use crate::search;

/// Changes, or items, of a page.
const PAGE_SIZE: usize = 200;
/// How often a job is tried before it is skipped, so that the others are not held up.
const MAX_ATTEMPTS: u32 = 10;

/// The entity that the position is stored beside.
const POSITION_ENTITY: &str = "saved_recipe";

/// The user in audit records.
const USER: &str = "followers";

/// Brings saved counts and search postings up to date with everything that has been written so far.
pub async fn catch_up(nagaya: &Nagaya) -> Result<(), ConsumerError> {
    process_pending(&Reconciler::new(nagaya), MAX_ATTEMPTS).await.map(drop)
}

/// The name of the position. An index of another version has a position of its own: where there is none yet, all items are
/// reconciled, and so get the postings of this version.
fn position_name() -> String {
    format!("followers-position-{}", search::INDEX_VERSION)
}

/// Whether all items have been reconciled once, and so have the postings of this version.
pub(crate) async fn has_reconciled_all(operator: &Operator) -> Result<bool, Error> {
    let position = operator.side_record(POSITION_ENTITY, RecordOwner::System, &position_name()).await?;
    Ok(position.is_some())
}

/// Reconciles what changes are about.
#[derive(Debug)]
pub(crate) struct Reconciler {
    nagaya: Nagaya,
    operator: Operator,
    subscription: Subscription,
}

impl Reconciler {
    pub(crate) fn new(nagaya: &Nagaya) -> Self {
        let operator = nagaya.operator("keeps saved counts and the search in step", &Principal::new("", USER));
        // Reading costs something also when there is nothing to do: the pauses become longer.
        let options = SubscriptionOptions {
            batch: PAGE_SIZE,
            pause: Duration::from_millis(25),
            longest_pause: Duration::from_millis(200),
            backoff: Duration::from_millis(50),
        };
        let subscription = operator
            .subscribe("counts_and_search", &jobs::SUBSCRIBED_ENTITIES, options)
            .with_checkpoint(operator.clone(), POSITION_ENTITY, position_name());
        Reconciler { nagaya: nagaya.clone(), operator, subscription }
    }

    /// Reconciles all stored items.
    async fn reconcile_all(&self) -> Result<Processed, Error> {
        let source = self.operator.change_source_of(&jobs::SCANNED_ENTITIES).await?;
        let (mut processed, mut after, mut seen) = (Processed::default(), None, HashSet::new());
        loop {
            let page = source.scan((0, 1), after, Some(PAGE_SIZE)).await?;
            processed.relevant += page.records.len();
            let (skipped, mut failed) = self.run_jobs(Jobs::of_items(&page.records, &mut seen)).await;
            processed.parked += skipped;
            if let Some((_, error)) = failed.pop() {
                return Err(error);
            }
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        let count = processed.relevant;
        tracing::info!(count, "all items have been reconciled; changes are read from here");
        Ok(processed)
    }

    /// Does all jobs; how many were skipped, and those that have to be done again. One that cannot be done must not hold up the
    /// others: it is tried for a while and then skipped, until its item changes again or all items are reconciled.
    async fn run_jobs(&self, jobs: Jobs) -> (usize, Vec<FailedJob>) {
        let failed = jobs::run(&self.nagaya, jobs.list().into_iter()).await;
        let (mut skipped, mut again): (Vec<_>, Vec<_>) =
            failed.into_iter().partition(|(_, error)| error.is_permanent());
        if self.subscription.failures() >= MAX_ATTEMPTS && self.nagaya.ping_store().await.is_ok() {
            // The store works: a job that fails once more is the cause itself.
            skipped.extend(jobs::run(&self.nagaya, again.drain(..).map(|(job, _)| job)).await);
        }
        self.subscription.status().skipped(skipped.len());
        for (job, error) in &skipped {
            tracing::error!(job = job.in_logs(), %error, "this cannot be reconciled, and is skipped");
        }
        (skipped.len(), again)
    }
}

impl ChangeConsumer for Reconciler {
    fn subscription(&self) -> &Subscription {
        &self.subscription
    }

    fn process(&self, changes: Vec<ItemChange>) -> ConsumerFuture<'_, Processed> {
        Box::pin(async move {
            let (parked, failed) = self.run_jobs(Jobs::of_changes(&changes)).await;
            // A job is done for several changes: the first of them begins it again.
            let failed = failed.into_iter().map(|(job, error)| {
                let led_to = |change: &ItemChange| Jobs::of_changes(std::slice::from_ref(change)).contains(&job);
                let position = changes.iter().position(led_to).unwrap_or_default();
                FailedChange { position, error: error.into() }
            });
            Processed { relevant: changes.len(), parked, failed: failed.collect() }
        })
    }

    fn process_all(&self) -> ConsumerFuture<'_, Result<Processed, ConsumerError>> {
        Box::pin(async move { Ok(self.reconcile_all().await?) })
    }
}
