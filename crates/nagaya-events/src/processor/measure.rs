//! What is measured of a projection.

use std::{sync::atomic::Ordering::Relaxed, time::Duration};

use nagaya_store::Measurement;
use nagaya_tenancy::Operator;
use ulid::Ulid;

use super::Processor;
use crate::{DeadLetter, Error};

/// Parked aggregates of a page.
const PAGE_SIZE: usize = 100;

impl Processor {
    /// How far the projection is behind, its dead letters, and what has failed in this process.
    pub async fn measurements(&self) -> Vec<Measurement> {
        let (name, now) = (self.projection_name(), self.nagaya.clock().millis());
        let mut measurements = self.status().measurements(name, now);
        let mut add = |measurement: Measurement| measurements.push(measurement.label("follower", name));
        let help = "Attempts to apply an event that have failed";
        add(Measurement::counter("follower_failed_events", help, self.attempts.count.load(Relaxed) as f64));
        match self.dead_letters().await {
            Ok(letters) => {
                let help = "Aggregates that are parked at an event that cannot be applied";
                add(Measurement::gauge("follower_dead_letters", help, letters.len() as f64));
                let oldest = letters.iter().map(|letter| letter.parked_at).min().unwrap_or(now);
                let age = Duration::from_millis(u64::try_from(now.saturating_sub(oldest)).unwrap_or(0));
                let help = "For how long the aggregate that was parked first has been parked; 0: none is";
                add(Measurement::gauge("follower_oldest_dead_letter_seconds", help, age.as_secs_f64()));
            }
            Err(error) => tracing::warn!(%error, name, "dead letters cannot be counted"),
        }
        measurements
    }

    /// The prefix of the names in the list of parked aggregates.
    pub(crate) fn parked_prefix(&self) -> String {
        parked_prefix(self.projection_name())
    }
}

/// When the oldest event of a tenant happened that waits because its aggregate is parked in a projection, in milliseconds since
/// 1970; `None`: none waits.
pub async fn oldest_waiting_event(operator: &Operator, projection: &str, tenant: &str) -> Result<Option<i64>, Error> {
    let prefix = parked_prefix_of_tenant(projection, tenant);
    let (mut oldest, mut after): (Option<i64>, Option<String>) = (None, None);
    loop {
        let page = operator.side_records(projection, &prefix, after.as_deref(), PAGE_SIZE).await?;
        oldest = page.iter().map(|note| happened_at(&DeadLetter::read(note))).chain(oldest).min();
        match page.last() {
            Some(last) if page.len() == PAGE_SIZE => after = Some(last.name.clone()),
            _ => return Ok(oldest),
        }
    }
}

/// When the event of a dead letter happened, or was found missing.
fn happened_at(letter: &DeadLetter) -> i64 {
    let id = Ulid::from_string(&letter.event).ok();
    id.and_then(|id| i64::try_from(id.timestamp_ms()).ok()).unwrap_or(letter.parked_at)
}

fn parked_prefix(projection: &str) -> String {
    format!("parked-{projection}-")
}

/// The prefix of the names of a tenant's parked aggregates. Two tenants may have aggregates with the same id.
pub(super) fn parked_prefix_of_tenant(projection: &str, tenant: &str) -> String {
    format!("{}{}:{tenant}:", parked_prefix(projection), tenant.len())
}
