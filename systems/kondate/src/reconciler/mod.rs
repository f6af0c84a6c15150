//! Keeps saved counts and search postings up to date with the changes of the store.
//!
//! Both are reconciled: a change says what to look at, and what is stored then decides. So a change may come twice or late,
//! several processes may read the same changes, and where changes were lost all items are reconciled.

mod jobs;

use std::{collections::HashSet, time::Duration};

use nagaya_server::StopSignal;
use nagaya_tenancy::{
    Error, Nagaya, Operator, Principal, RecordOwner, Subscription, SubscriptionOptions, SubscriptionStatus,
};

use self::jobs::{Job, Jobs};
use crate::search;

/// Changes, or items, of a page.
const PAGE_SIZE: usize = 200;
/// How often a job is tried before it is skipped, so that the others are not held up.
const MAX_ATTEMPTS: u32 = 10;

/// The entity that the position is stored beside.
const POSITION_ENTITY: &str = "saved_recipe";

/// The user in audit records.
const USER: &str = "followers";

/// Runs until told to stop.
pub(crate) async fn run(nagaya: Nagaya, mut stop: StopSignal, status: SubscriptionStatus) {
    let reconciler = Reconciler::new(nagaya, status);
    reconciler.subscription.run(stop.wait(), || reconciler.step()).await;
}

/// Brings saved counts and search postings up to date with everything that has been written so far.
pub async fn catch_up(nagaya: &Nagaya) -> Result<(), Error> {
    let reconciler = Reconciler::new(nagaya.clone(), SubscriptionStatus::default());
    reconciler.subscription.catch_up(MAX_ATTEMPTS, || reconciler.step()).await
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

struct Reconciler {
    nagaya: Nagaya,
    operator: Operator,
    subscription: Subscription,
}

impl Reconciler {
    fn new(nagaya: Nagaya, status: SubscriptionStatus) -> Self {
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
            .with_checkpoint(operator.clone(), POSITION_ENTITY, position_name())
            .with_status(status);
        Reconciler { nagaya, operator, subscription }
    }

    /// Reads a page of changes, and does the jobs that they lead to; how many changes were read.
    async fn step(&self) -> Result<usize, Error> {
        let page = self.subscription.next_page().await?;
        let jobs = Jobs::of_changes(&page.changes).list();
        let (read, relevant) =
            (if page.gap { self.reconcile_all().await?.max(1) } else { page.read }, !jobs.is_empty());
        self.run_jobs(jobs).await?;
        self.subscription.acknowledge(page, relevant).await?;
        Ok(read)
    }

    /// Reconciles all stored items; how many there are.
    async fn reconcile_all(&self) -> Result<usize, Error> {
        let source = self.operator.change_source_of(&jobs::SCANNED_ENTITIES).await?;
        let (mut count, mut after, mut seen) = (0, None, HashSet::new());
        loop {
            let page = source.scan((0, 1), after, Some(PAGE_SIZE)).await?;
            count += page.records.len();
            self.run_jobs(Jobs::of_items(&page.records, &mut seen).list()).await?;
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        tracing::info!(count, "all items have been reconciled; changes are read from here");
        Ok(count)
    }

    /// Does all jobs. One that cannot be done must not hold up the others: it is tried for a while and then skipped, until its
    /// item changes again or all items are reconciled.
    async fn run_jobs(&self, jobs: Vec<Job>) -> Result<(), Error> {
        let failed = jobs::run(&self.nagaya, jobs.into_iter()).await;
        let (mut skipped, mut again): (Vec<_>, Vec<_>) =
            failed.into_iter().partition(|(_, error)| error.is_permanent());
        if self.subscription.failures() >= MAX_ATTEMPTS && self.nagaya.ping_store().await.is_ok() {
            // The store works: a job that fails once more is the cause itself.
            skipped.extend(jobs::run(&self.nagaya, again.drain(..).map(|(job, _)| job)).await);
        }
        self.subscription.status().skipped(skipped.len());
        for (job, error) in skipped {
            tracing::error!(job = job.in_logs(), %error, "this cannot be reconciled, and is skipped");
        }
        again.pop().map_or(Ok(()), |(_, error)| Err(error))
    }
}
