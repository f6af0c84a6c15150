//! Rebuilding a projection beside the current one, and checking it against its events.
//!
//! A new generation gets new events from the moment that it is stored as one, and the earlier events from a pass over the event
//! table. Both move the same checkpoints, so their order does not matter, and a killed process can be started again.

mod compare;
mod pass;
mod report;
mod segment;

use std::time::Duration;

use futures_util::FutureExt as _;
use nagaya_tenancy::ChangeSource;
use tokio::task::JoinSet;

pub use self::report::{ItemsDigest, Mismatch, VerificationReport};
use self::{
    compare::Stray,
    pass::{Check, Job, PassResult},
};
use crate::{Error, ErrorKind, Processor, error::is_lost_race, generation::Generations};

/// How far a pass over the events is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Events that have been read.
    pub events: u64,
    /// Aggregates that have been processed.
    pub aggregates: u64,
    /// Aggregates of these that are parked.
    pub parked: usize,
    /// Whether it is the pass that checks, which comes after the one that builds.
    pub checking: bool,
    /// Aggregates with events that are not applied yet: the processor is waited for.
    pub waiting: usize,
}

/// A callback for the progress of a pass.
pub type ProgressCallback<'t> = &'t (dyn Fn(Progress) + Send + Sync);

/// Items of a page.
const PAGE_SIZE: usize = 2_000;

impl Processor {
    /// Builds a new generation of the projection, checks it against the events, and makes it the current one. If it does not
    /// match, the current one stays, and the report says what differs.
    pub async fn rebuild(&self, tell: ProgressCallback<'_>) -> Result<VerificationReport, Error> {
        let generation = self.start_generation().await?;
        let mut skips = self.skips_revision();
        // An earlier run may have parked events that can be applied by now.
        self.unpark_all(generation).await?;
        let built = self.run_pass(None, tell, Job::Advance(generation)).await?;
        let mut verified = self.verify_built(generation, &built).await?;
        loop {
            let verified = match verified.take() {
                Some(verified) => verified,
                // There were items before, or events have come since: compare each item with its events.
                None => self.verify_generation(generation, None, (true, Duration::ZERO), tell).await?,
            };
            if !verified.is_consistent() || self.switch_to(generation, skips).await? {
                return Ok(verified);
            }
            // The skip list has changed since the pass began.
            let now = self.skips_revision();
            if now == skips {
                let why =
                    format!("the skip list of `{}` is not the one that is stored; start again", self.projection_name());
                return Err(ErrorKind::Busy(why).into());
            }
            skips = now;
        }
    }

    /// Checks a generation that has just been built by reading back what is stored; `None` if it differs, or if not all of it
    /// was built just now.
    async fn verify_built(&self, generation: u32, built: &PassResult) -> Result<Option<VerificationReport>, Error> {
        let Progress { events, aggregates, parked, .. } = built.progress;
        if built.has_others || parked > 0 {
            return Ok(None);
        }
        let found = self.digest_generation(generation).await?;
        let verified = VerificationReport {
            generation,
            events,
            aggregates,
            expected: built.built,
            found,
            ..VerificationReport::default()
        };
        Ok(Some(verified).filter(VerificationReport::is_consistent))
    }

    /// The stored items of a generation.
    async fn digest_generation(&self, generation: u32) -> Result<ItemsDigest, Error> {
        let items = self.item_source(generation).await?;
        let mut tasks: JoinSet<Result<ItemsDigest, Error>> = JoinSet::new();
        for segment in 0..self.segment_count() {
            let (processor, items, segment) = (self.clone(), items.clone(), (segment, self.segment_count()));
            tasks.spawn(async move { processor.digest_segment(&items, segment).await }.boxed());
        }
        let mut content = ItemsDigest::default();
        while !tasks.is_empty() {
            content.merge(&pass::task_result(tasks.join_next().await)?);
        }
        Ok(content)
    }

    async fn digest_segment(&self, items: &ChangeSource, segment: (u32, u32)) -> Result<ItemsDigest, Error> {
        let (mut content, mut after) = (ItemsDigest::default(), None);
        loop {
            let page = items.scan(segment, after, Some(PAGE_SIZE)).await?;
            for (owner, record) in &page.records {
                content.add(owner, &record.id().concat(), Some(&self.own_fields(record)));
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(content),
            }
        }
    }

    /// The source of the projection's items in a generation.
    async fn item_source(&self, generation: u32) -> Result<ChangeSource, Error> {
        let operator =
            self.nagaya_of_generation(generation).operator("verifies a projection", self.operator.principal());
        Ok(operator.change_source(self.projection.entity()).await?)
    }

    /// Compares the current generation with the events, of one tenant or of all, and the events with the current generation. It
    /// writes nothing, besides entries of the operator log.
    pub async fn verify(&self, tenant: Option<&str>) -> Result<VerificationReport, Error> {
        self.verify_patiently(tenant, Duration::ZERO, &|_| {}).await
    }

    /// The same. Where events are not applied yet, it waits for the processor before it compares these items, but not for longer
    /// than `patience` in all.
    pub async fn verify_patiently(
        &self,
        tenant: Option<&str>,
        patience: Duration,
        tell: ProgressCallback<'_>,
    ) -> Result<VerificationReport, Error> {
        let generation = Generations::read(self).await?.current;
        self.verify_generation(generation, tenant, (false, patience), tell).await
    }

    /// Replaces the items of a tenant that differ from their events, in the current generation; how many there were. Removes
    /// items that never had an event. An item whose events are lost or unreadable stays as it is, because nothing else may be
    /// left of it; a verification names it.
    pub async fn repair(&self, tenant: &str, tell: ProgressCallback<'_>) -> Result<u64, Error> {
        let generation = Generations::read(self).await?.current;
        let handle = self.tenant(generation, tenant)?;
        let checked = self.run_pass(Some(tenant), tell, Job::Check(generation, Check::Repair)).await?;
        let mut repaired = checked.repaired;
        for Stray { id, record, .. } in
            self.strays(generation, Some(tenant)).await?.into_iter().filter(|stray| !stray.had_events)
        {
            match handle.delete(self.projection.entity(), &[&id], &record).await {
                Ok(()) => repaired += 1,
                Err(error) if is_lost_race(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(repaired)
    }

    /// Applies all stored events to a generation.
    pub(crate) async fn catch_up_generation(&self, generation: u32) -> Result<Progress, Error> {
        Ok(self.run_pass(None, &|_| {}, Job::Advance(generation)).await?.progress)
    }
}
