//! A pass over the stored events of all aggregates.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream};
use nagaya_tenancy::Record;
use tokio::{
    sync::Mutex,
    task::{JoinError, JoinSet},
};

use super::{PAGE_SIZE, Progress, ProgressCallback, VerificationReport, report::ItemsDigest, segment::SegmentReader};
use crate::{
    Error, ErrorKind, Processor, RecordedEvent,
    processor::{AdvanceOutcome, AdvanceState, Aggregate, WriteBatch},
};

/// How often the progress is reported.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);
/// Events of a page of a pass that writes: few enough to stay in the processor's cache while they are applied.
const EVENTS_PER_PAGE: usize = 500;

/// What a pass does with each aggregate, in a generation.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Job {
    /// Applies its events to its item.
    Advance(u32),
    /// Compares its item with its events.
    Check(u32, Check),
}

/// How a pass compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Check {
    /// The items as they are stored. Nothing is written.
    Stored,
    /// The items of a generation that is being built: events that are not applied yet are applied first.
    Built,
    /// An item that differs is replaced.
    Repair,
}

/// An aggregate with events that are not applied yet.
#[derive(Debug, Clone)]
pub(crate) struct Behind {
    pub(super) tenant: String,
    pub(super) id: String,
    /// The version of the last of them.
    pub(super) version: u64,
}

/// How many of them a pass looks at again, when the processor has had time. Further ones are reported at once.
const MAX_BEHIND: usize = 10_000;

/// The result of a pass.
#[derive(Debug, Default)]
pub(crate) struct PassResult {
    pub(super) progress: Progress,
    pub(super) repaired: u64,
    pub(super) verified: VerificationReport,
    /// Aggregates that were behind. The report has nothing about them but their number.
    pub(super) behind: Vec<Behind>,
    /// The items that were built from the first event on.
    pub(super) built: ItemsDigest,
    /// Whether there are others: an earlier pass or another process has written them.
    pub(super) has_others: bool,
}

impl PassResult {
    fn merge(&mut self, other: PassResult) {
        self.repaired += other.repaired;
        self.verified.merge(other.verified);
        self.behind.extend(other.behind);
        self.built.merge(&other.built);
        self.has_others |= other.has_others;
    }
}

/// The progress of all tasks of a pass.
#[derive(Debug, Default)]
struct Counters {
    events: AtomicU64,
    aggregates: AtomicU64,
    parked: AtomicUsize,
    behind: AtomicUsize,
}

impl Counters {
    fn progress(&self) -> Progress {
        Progress {
            events: self.events.load(Relaxed),
            aggregates: self.aggregates.load(Relaxed),
            parked: self.parked.load(Relaxed),
            checking: false,
            waiting: 0,
        }
    }

    /// Adds the outcomes of aggregates that were advanced.
    fn add_outcomes(&self, outcomes: Vec<AdvanceOutcome>, result: &mut PassResult) {
        for outcome in outcomes {
            self.aggregates.fetch_add(1, Relaxed);
            self.parked.fetch_add(usize::from(outcome.state == AdvanceState::Parked), Relaxed);
            match outcome.built {
                Some(item) => result.built.merge(&item),
                None => result.has_others = true,
            }
        }
    }
}

/// The result of a task. A panic continues here.
pub(super) fn task_result<T: Default>(task: Option<Result<Result<T, Error>, JoinError>>) -> Result<T, Error> {
    match task {
        None => Ok(T::default()),
        Some(Ok(done)) => done,
        Some(Err(error)) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(ErrorKind::Busy("the process is ending".to_owned()).into()),
        },
    }
}

impl Processor {
    /// Does a job with the events of each aggregate of a tenant, or of all; many aggregates at a time, on all CPUs, with a
    /// bounded number of them in memory. Two tasks take turns to read each segment, and each works on what it has read.
    pub(super) fn run_pass<'a>(
        &'a self,
        tenant: Option<&'a str>,
        tell: ProgressCallback<'a>,
        job: Job,
    ) -> BoxFuture<'a, Result<PassResult, Error>> {
        Box::pin(async move {
            let (source, tenant) = (self.source().await?, tenant.map(str::to_owned));
            let limit = if matches!(job, Job::Advance(_)) { EVENTS_PER_PAGE } else { PAGE_SIZE };
            let counters = Arc::new(Counters::default());
            let mut tasks: JoinSet<Result<PassResult, Error>> = JoinSet::new();
            for segment in 0..self.segment_count() {
                let segment = (segment, self.segment_count());
                let reader = SegmentReader::new(source.clone(), segment, tenant.clone(), limit);
                let reader = Arc::new(Mutex::new(reader));
                // While one waits for the store, the other works.
                for _ in 0..2 {
                    let (processor, reader, counters) = (self.clone(), Arc::clone(&reader), Arc::clone(&counters));
                    tasks.spawn(async move { processor.pass_segment(job, &reader, &counters).await }.boxed());
                }
            }
            let mut result = PassResult::default();
            while !tasks.is_empty() {
                tokio::select! {
                    task = tasks.join_next() => result.merge(task_result(task)?),
                    () = tokio::time::sleep(REPORT_INTERVAL) => tell(counters.progress()),
                }
            }
            result.progress = counters.progress();
            tell(result.progress);
            Ok(result)
        })
    }

    /// How many segments are read in parallel.
    pub(super) fn segment_count(&self) -> u32 {
        u32::try_from(self.options.tasks).unwrap_or(1).max(1)
    }

    async fn pass_segment(
        &self,
        job: Job,
        reader: &Mutex<SegmentReader>,
        counters: &Counters,
    ) -> Result<PassResult, Error> {
        let (mut result, mut batch) = (PassResult::default(), WriteBatch::default());
        loop {
            let next = reader.lock().await.next(&self.layout.id).await?;
            let Some(events) = next else { break };
            let aggregates = self.group_by_aggregate(events, counters);
            match job {
                Job::Advance(generation) => {
                    let outcomes = self.add_to_batch(generation, aggregates, &mut batch).await?;
                    counters.add_outcomes(outcomes, &mut result);
                    if batch.is_full() {
                        counters.add_outcomes(self.write_batch(&mut batch).await?, &mut result);
                    }
                }
                Job::Check(generation, check) => {
                    let work: Vec<_> = aggregates
                        .into_iter()
                        .map(|one| self.check_aggregate(generation, check, one).boxed())
                        .collect();
                    let mut done = stream::iter(work).buffer_unordered(self.options.at_once);
                    while let Some(checked) = done.next().await {
                        counters.aggregates.fetch_add(1, Relaxed);
                        let mut checked = checked?;
                        let full = counters.behind.fetch_add(checked.behind.len(), Relaxed) >= MAX_BEHIND;
                        if !full && !checked.behind.is_empty() {
                            let VerificationReport { events, aggregates, .. } = checked.verified;
                            checked.verified =
                                VerificationReport { events, aggregates, ..VerificationReport::default() };
                        } else {
                            checked.behind.clear();
                        }
                        result.merge(checked);
                    }
                }
            }
        }
        counters.add_outcomes(self.write_batch(&mut batch).await?, &mut result);
        Ok(result)
    }

    /// Compares one aggregate's item with its events, or repairs it.
    async fn check_aggregate(
        &self,
        generation: u32,
        check: Check,
        ((owner, id), events): Aggregate,
    ) -> Result<PassResult, Error> {
        let (tenant, mut result) = (self.tenant(generation, &owner)?, PassResult::default());
        let latest = events.last().map_or(0, |last| last.version);
        match check {
            Check::Repair => {
                result.repaired = u64::from(self.repair_item(&tenant, &id).await?);
                return Ok(result);
            }
            Check::Built => drop(self.advance(&tenant, &id, events.clone()).await?),
            Check::Stored => {}
        }
        result.verified = self.compare_item(&tenant, &id, &events, latest).await?;
        if check == Check::Stored && result.verified.behind > 0 {
            result.behind.push(Behind { tenant: owner, id, version: latest });
        }
        Ok(result)
    }

    /// Stored events by tenant and aggregate. An aggregate with an unreadable one has none here: its events are read from the
    /// event table, as far as possible.
    fn group_by_aggregate(&self, stored: Vec<(String, Record)>, counters: &Counters) -> Vec<Aggregate> {
        let (mut aggregates, mut events): (Vec<Aggregate>, u64) = (Vec::new(), 0);
        let mut unreadable = BTreeSet::new();
        for (owner, record) in stored {
            let aggregate = record.text(&self.layout.id).unwrap_or_default().to_owned();
            let event = match RecordedEvent::read(&self.layout, &owner, record) {
                Ok(event) => event,
                Err(error) => {
                    let tenant = &*self.nagaya.tenant_in_logs(&owner);
                    tracing::error!(%error, tenant, "unreadable record in the event table");
                    unreadable.insert((owner, aggregate));
                    continue;
                }
            };
            events += 1;
            // All events of an aggregate have one tenant, unless the table was written to from outside.
            let mut same = aggregates.iter_mut().rev().take_while(|((_, id), _)| *id == event.aggregate);
            if let Some((_, known)) = same.find(|((tenant, _), _)| *tenant == event.tenant) {
                known.push(event);
                continue;
            }
            // Most aggregates have about as many events as the one before.
            let mut first = Vec::with_capacity(aggregates.last().map_or(1, |(_, before)| before.len()));
            let aggregate = (event.tenant.clone(), event.aggregate.clone());
            first.push(event);
            aggregates.push((aggregate, first));
        }
        counters.events.fetch_add(events, Relaxed);
        aggregates.retain(|(aggregate, _)| !unreadable.contains(aggregate));
        aggregates.extend(unreadable.into_iter().map(|aggregate| (aggregate, Vec::new())));
        aggregates
    }
}
