//! The event processor as a function of the stream of the table with the events.

use std::collections::BTreeMap;

use anyhow::bail;
use aws_lambda_events::{
    dynamodb::{Event, EventRecord},
    streams::{DynamoDbBatchItemFailure, DynamoDbEventResponse},
};
use lambda_runtime::{LambdaEvent, service_fn};
use nagaya_events::{Inspector, Processor, ProcessorOptions, RecordedEvent};
use nagaya_server::System;
use nagaya_store::{Item, Number, Value};
use nagaya_tenancy::{ChangeSource, Nagaya, Principal};
use serde_dynamo::AttributeValue;

/// Applies records of the stream.
struct StreamProcessor {
    inspector: Inspector,
    follower: ChangeSource,
    processors: Vec<Processor>,
}

pub(super) async fn run(nagaya: &Nagaya, system: System) -> anyhow::Result<()> {
    let System { name, projections, .. } = system;
    let Some(first) = projections.first() else { bail!("`{name}` has no projections") };
    let inspector = Inspector::new(nagaya, first.aggregate_name())?;
    let operator = nagaya.operator("keeps projections up to date with events", &Principal::new("", "event-processor"));
    let follower = operator.change_source(inspector.entity()).await?;
    let processor = |projection| Processor::new(nagaya, projection, ProcessorOptions::default());
    let processors = projections.into_iter().map(processor).collect::<Result<_, _>>()?;
    let intake = StreamProcessor { inspector, follower, processors };
    let handler = service_fn(|event: LambdaEvent<Event>| {
        let intake = &intake;
        async move {
            let response = intake.apply_records(event.payload.records).await;
            intake.retry_due().await;
            Ok::<_, lambda_runtime::Error>(response)
        }
    });
    lambda_runtime::run(handler).await.map_err(|error| anyhow::anyhow!("the runtime of Lambda failed: {error}"))
}

impl StreamProcessor {
    /// Applies the events of the records, and gives those to be sent again. An event that cannot be applied is parked, and not
    /// sent again.
    async fn apply_records(&self, records: Vec<EventRecord>) -> DynamoDbEventResponse {
        let mut aggregates: BTreeMap<(String, String), Vec<SequencedEvent>> = BTreeMap::new();
        let mut failed: Vec<Option<String>> = Vec::new();
        for record in records.into_iter().filter(|record| record.event_name == "INSERT") {
            let sequence = record.change.sequence_number;
            match self.read(record.change.new_image) {
                Ok(Some(event)) => {
                    let key = (event.tenant.clone(), event.aggregate.clone());
                    aggregates.entry(key).or_default().push((sequence, event));
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(%error, sequence, "a record cannot be read");
                    failed.push(sequence);
                }
            }
        }
        for events in aggregates.into_values() {
            let first = events.iter().filter_map(|(sequence, _)| sequence.clone()).min_by(by_number);
            let events: Vec<_> = events.into_iter().map(|(_, event)| event).collect();
            for processor in &self.processors {
                if let Err(error) = processor.apply_events(events.clone()).await {
                    tracing::warn!(%error, "events have to be sent again");
                    failed.push(first.clone());
                    break;
                }
            }
        }
        let mut response = DynamoDbEventResponse::default();
        response.batch_item_failures = failed
            .into_iter()
            .map(|sequence| {
                let mut failure = DynamoDbBatchItemFailure::default();
                failure.item_identifier = sequence;
                failure
            })
            .collect();
        response
    }

    /// Tries parked events again that are due. There is no background work between calls.
    async fn retry_due(&self) {
        for processor in &self.processors {
            if let Err(error) = processor.retry_due().await {
                tracing::warn!(%error, "failed events cannot be tried again");
            }
        }
    }

    /// The event that a record is about; `None` for other items of the table.
    fn read(&self, image: serde_dynamo::Item) -> anyhow::Result<Option<RecordedEvent>> {
        let mut item = Item::new();
        for (name, attribute) in image.into_inner() {
            item.insert(&name, value(attribute)?);
        }
        match self.follower.record(item) {
            Some((tenant, record)) => Ok(Some(self.inspector.read_event(&tenant, &record)?)),
            None => Ok(None),
        }
    }
}

/// An event, and its sequence number.
type SequencedEvent = (Option<String>, RecordedEvent);

/// Sequence numbers are digits without leading zeros: the longer one is greater.
fn by_number(one: &String, other: &String) -> std::cmp::Ordering {
    (one.len(), one).cmp(&(other.len(), other))
}

fn value(attribute: AttributeValue) -> anyhow::Result<Value> {
    let number = |text: String| text.parse::<Number>().map_err(|_| anyhow::anyhow!("`{text}` is not a number"));
    Ok(match attribute {
        AttributeValue::S(text) => Value::from(text),
        AttributeValue::N(text) => Value::Number(number(text)?),
        AttributeValue::Bool(truth) => Value::Boolean(truth),
        AttributeValue::Null(_) => Value::Null,
        AttributeValue::B(bytes) => Value::Binary(bytes),
        AttributeValue::M(map) => {
            Value::Map(map.into_iter().map(|(name, inner)| Ok((name, value(inner)?))).collect::<anyhow::Result<_>>()?)
        }
        AttributeValue::L(list) => Value::List(list.into_iter().map(value).collect::<anyhow::Result<_>>()?),
        AttributeValue::Ss(texts) => Value::StringSet(texts.into_iter().collect()),
        AttributeValue::Ns(numbers) => {
            Value::NumberSet(numbers.into_iter().map(number).collect::<anyhow::Result<_>>()?)
        }
        AttributeValue::Bs(all) => Value::BinarySet(all.into_iter().collect()),
    })
}
