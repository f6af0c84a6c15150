//! A processor as a change consumer.

use std::collections::BTreeMap;

use futures_util::{StreamExt as _, stream};
use nagaya_store::Measurement;
use nagaya_tenancy::{
    ChangeConsumer, ConsumerError, ConsumerFuture, FailedChange, ItemChange, Processed, Subscription,
};

use super::{Aggregates, Processor};
use crate::{Error, ErrorKind};

impl ChangeConsumer for Processor {
    fn subscription(&self) -> &Subscription {
        &self.subscription
    }

    fn process(&self, changes: Vec<ItemChange>) -> ConsumerFuture<'_, Processed> {
        Box::pin(async move {
            // Where the changes of each aggregate begin.
            let mut positions = BTreeMap::new();
            for (position, change) in changes.iter().enumerate() {
                if let (None, Some(event)) = (&change.old, &change.new) {
                    let aggregate = event.text(&self.layout.id).unwrap_or_default().to_owned();
                    positions.entry((change.tenant.clone(), aggregate)).or_insert(position);
                }
            }
            let aggregates = self.by_aggregate(changes);
            // An unreadable event counts as one.
            let relevant = aggregates.values().map(|events| events.len().max(1)).sum();
            let (parked, failed) = match self.apply_all(aggregates.clone()).await {
                Ok(parked) => (parked, Vec::new()),
                Err(_) => self.apply_each(aggregates).await,
            };
            let failed = failed.into_iter().map(|(aggregate, error)| {
                let position = positions.get(&aggregate).copied().unwrap_or_default();
                FailedChange { position, error: error.into() }
            });
            Processed { relevant, parked, failed: failed.collect() }
        })
    }

    fn process_all(&self) -> ConsumerFuture<'_, Result<Processed, ConsumerError>> {
        Box::pin(async move {
            let step = self.catch_up().await?;
            Ok(Processed { relevant: step.events, parked: step.parked_aggregates, failed: Vec::new() })
        })
    }

    fn run<'a>(&'a self, stop: ConsumerFuture<'a, ()>) -> ConsumerFuture<'a, ()> {
        Box::pin(Processor::run(self, stop))
    }

    fn retry_due(&self) -> ConsumerFuture<'_, Result<(), ConsumerError>> {
        Box::pin(async move { Ok(Processor::retry_due(self).await.map(drop)?) })
    }

    fn measurements(&self, _: i64) -> ConsumerFuture<'_, Vec<Measurement>> {
        Box::pin(Processor::measurements(self))
    }
}

/// An aggregate whose events could not be applied now, and why.
type FailedAggregate = ((String, String), Error);

impl Processor {
    /// Applies the events of each aggregate by itself, because they cannot be applied together: how many aggregates are parked,
    /// and those that fail.
    async fn apply_each(&self, aggregates: Aggregates) -> (usize, Vec<FailedAggregate>) {
        let alone = aggregates.into_iter().map(|(aggregate, events)| async move {
            let applied = self.apply_all(Aggregates::from([(aggregate.clone(), events)])).await;
            applied.map_err(|error| (aggregate, error))
        });
        let mut applied = stream::iter(alone).buffer_unordered(self.options.at_once.max(1));
        let (mut parked, mut failed) = (0, Vec::new());
        while let Some(one) = applied.next().await {
            match one {
                Ok(more) => parked += more,
                Err(aggregate) => failed.push(aggregate),
            }
        }
        (parked, failed)
    }
}

/// The error of a step of a processor.
pub(super) fn step_error(error: ConsumerError) -> Error {
    let error = match error.downcast::<Error>() {
        Ok(error) => return *error,
        Err(error) => error,
    };
    match error.downcast::<nagaya_tenancy::Error>() {
        Ok(error) => (*error).into(),
        Err(error) => ErrorKind::Busy(error.to_string()).into(),
    }
}
