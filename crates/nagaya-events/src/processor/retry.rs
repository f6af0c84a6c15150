//! Further attempts at events that could not be applied.
//!
//! An event that fails is parked at once, so that the step goes on with other aggregates. The record of the parked aggregate says
//! when the next attempt is due. So any process makes it, also after a restart.

use std::{convert::Infallible, sync::atomic::Ordering::Relaxed, time::Duration};

use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream};

use super::{Processor, Unpark};
use crate::{DeadLetter, Error, ErrorKind, error::is_lost_race, generation::Generations};

/// How often a processor looks for attempts that another process has left.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// The pause after a failure of the store.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);

/// What became of attempts that were due.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RetryReport {
    /// How many events were tried again.
    pub tried: usize,
    /// When the next of the others is due, in milliseconds since 1970.
    pub next: Option<i64>,
}

impl Processor {
    /// Tries parked events again whose next attempt is due, in all generations. [`Processor::run`] does so beside its steps.
    pub fn retry_due(&self) -> BoxFuture<'_, Result<RetryReport, Error>> {
        Box::pin(async move {
            let (now, mut report, mut failed) = (self.nagaya.clock().millis(), RetryReport::default(), None);
            for generation in Generations::read(self).await?.all() {
                let mut attempts = Vec::new();
                for letter in self.dead_letters_of(generation).await? {
                    match letter.next_attempt {
                        Some(next) if next <= now => attempts.push(self.try_again(generation, letter).boxed()),
                        next => report.next = report.next.into_iter().chain(next).min(),
                    }
                }
                let mut attempts = stream::iter(attempts).buffer_unordered(self.options.at_once);
                while let Some(done) = attempts.next().await {
                    match done {
                        Ok(()) => report.tried += 1,
                        Err(error) => failed = Some(error),
                    }
                }
            }
            failed.map_or(Ok(report), Err)
        })
    }

    /// One more attempt, unless another process or a person was faster.
    async fn try_again(&self, generation: u32, letter: DeadLetter) -> Result<(), Error> {
        let tenant = self.tenant(generation, &letter.tenant)?;
        let unpark = Some(Unpark { version: letter.version, skip: false });
        match self.advance_or_unpark(&tenant, &letter.aggregate, Vec::new(), unpark).await {
            Err(error) => match error.kind() {
                ErrorKind::Busy(_) => Ok(()),
                ErrorKind::Tenancy(lost) if is_lost_race(lost) => Ok(()),
                _ => Err(error),
            },
            Ok(_) => Ok(()),
        }
    }

    /// Makes all attempts when they are due, without an end.
    pub(super) async fn keep_retrying(&self) -> Infallible {
        loop {
            let pause = match self.retry_due().await {
                Ok(RetryReport { next, .. }) => {
                    let due_in = next.map(|next| u64::try_from(next - self.nagaya.clock().millis()).unwrap_or(0));
                    due_in.map_or(LOOK_INTERVAL, Duration::from_millis).clamp(self.options.pause, LOOK_INTERVAL)
                }
                Err(error) => {
                    tracing::warn!(%error, projection = self.projection_name(), "failed events cannot be tried again");
                    FAILURE_PAUSE
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                // The attempt of an event that has just been parked may be due earlier.
                () = self.attempts.failed.notified() => tokio::time::sleep(self.options.pause).await,
            }
        }
    }

    /// When an event is tried again after so many attempts; `None`: only when somebody asks for it.
    pub(super) fn next_attempt(&self, attempts: u64, now: i64) -> Option<i64> {
        if attempts >= u64::from(self.options.attempts) {
            return None;
        }
        let doublings = attempts.saturating_sub(1).min(16);
        let pause = self.options.backoff.saturating_mul(1 << doublings).as_millis();
        Some(now.saturating_add(i64::try_from(pause).unwrap_or(i64::MAX)))
    }

    /// Counts an attempt that failed, whose next one has been stored.
    pub(super) fn failed_attempt(&self) {
        self.attempts.count.fetch_add(1, Relaxed);
        self.attempts.failed.notify_one();
    }
}
