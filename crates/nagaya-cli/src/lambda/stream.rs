//! What a system derives from changes, as a function of the stream of a table.

use std::{collections::BTreeSet, sync::Arc, time::Instant};

use anyhow::{Context as _, anyhow, bail};
use futures_util::future::join_all;
use lambda_runtime::{LambdaEvent, service_fn};
use nagaya_server::System;
use nagaya_store::{Item, Number, Value};
use nagaya_tenancy::{ChangeConsumer, Nagaya};
use serde_dynamo::AttributeValue;
use serde_json::{Value as Json, json};

/// The images that a stream has to have.
const VIEW: &str = "NEW_AND_OLD_IMAGES";

/// A record of a stream that can be read: the item before and after a change.
struct Change {
    old: Option<Item>,
    new: Option<Item>,
}

/// Gives the records of a stream to all that is derived from them.
struct StreamProcessor {
    consumers: Vec<Arc<dyn ChangeConsumer>>,
}

pub(super) async fn run(nagaya: &Nagaya, system: &System) -> anyhow::Result<()> {
    let consumers = system.consumers(nagaya)?;
    if consumers.is_empty() {
        bail!("`{}` derives nothing from changes: it needs no such function", system.name);
    }
    for consumer in &consumers {
        consumer.subscription().source().await?;
    }
    let processor = StreamProcessor { consumers };
    let handler = service_fn(|event: LambdaEvent<Json>| {
        let processor = &processor;
        async move {
            let LambdaEvent { payload, context } = event;
            let (began, trace) = (Instant::now(), context.xray_trace_id.as_deref().unwrap_or_default());
            let processed = processor.process(payload).await;
            let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            match &processed {
                Ok((records, failed)) => {
                    let failed = failed.len();
                    tracing::info!(target: "nagaya::stream", request = context.request_id, trace, records, failed, ms, "processed");
                }
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::error!(target: "nagaya::stream", request = context.request_id, trace, error, ms, "not processed");
                }
            }
            let failed = processed.map_err(|error| format!("{error:#}"))?.1;
            let failed = failed.into_iter().map(|sequence| json!({ "itemIdentifier": sequence }));
            Ok::<_, lambda_runtime::Error>(json!({ "batchItemFailures": failed.collect::<Vec<_>>() }))
        }
    });
    lambda_runtime::run(handler).await.map_err(|error| anyhow!("the runtime of Lambda failed: {error}"))
}

impl StreamProcessor {
    /// Processes the records of an event; how many there were, and the sequence numbers of those to be sent again.
    async fn process(&self, event: Json) -> anyhow::Result<(usize, BTreeSet<String>)> {
        let Json::Object(mut event) = event else { bail!("the event is not that of a stream: it is no object") };
        let Some(Json::Array(records)) = event.remove("Records") else {
            bail!(
                "the event is not that of a stream: it has no `Records`. Attach the function to the stream of a table"
            );
        };
        let count = records.len();
        let (mut changes, mut failed) = (Vec::with_capacity(count), BTreeSet::new());
        for mut record in records {
            let sequence = record["dynamodb"]["SequenceNumber"].as_str().unwrap_or_default().to_owned();
            if let Some(view) = record["dynamodb"]["StreamViewType"].as_str().filter(|view| *view != VIEW) {
                bail!(
                    "the stream has the view type {view}, and items before and after a change are needed: set it to {VIEW}"
                );
            }
            match read(record["dynamodb"].take()) {
                Ok(change) => changes.push((sequence, change)),
                Err(error) => {
                    let id = record["eventID"].as_str().unwrap_or(&sequence).to_owned();
                    let error = format!("{error:#}");
                    tracing::error!(
                        error,
                        record = id,
                        "a record of the stream cannot be read; `nagaya events dlq list` lists it"
                    );
                    if let Err(error) = self.note_unreadable(&id, &error).await {
                        tracing::warn!(%error, record = id, "the record cannot be noted now, and is sent again");
                        failed.insert(sequence);
                    }
                }
            }
        }
        for more in join_all(self.consumers.iter().map(|consumer| consume(&**consumer, &changes))).await {
            failed.extend(more?);
        }
        // Nothing runs between invocations.
        for consumer in &self.consumers {
            if let Err(error) = consumer.retry_due().await {
                let (error, consumer) = (error.to_string(), consumer.subscription().name());
                tracing::warn!(error, consumer, "what has failed cannot be tried again now");
            }
        }
        Ok((count, failed))
    }

    /// A record that cannot be read is noted and not sent again: it would hold up the others until the stream drops them all.
    async fn note_unreadable(&self, id: &str, error: &str) -> anyhow::Result<()> {
        let first = self.consumers.first().context("there is a consumer")?;
        Ok(first.subscription().note_unreadable(id, error).await?)
    }
}

/// Lets a consumer process changes; the sequence numbers of those to be sent again.
async fn consume(consumer: &dyn ChangeConsumer, records: &[(String, Change)]) -> anyhow::Result<Vec<String>> {
    let (source, name) = (consumer.subscription().source().await?, consumer.subscription().name());
    let (mut changes, mut sequences) = (Vec::new(), Vec::new());
    for (sequence, change) in records {
        if let Some(change) = source.change(change.old.clone(), change.new.clone()) {
            changes.push(change);
            sequences.push(sequence);
        }
    }
    let failed = consumer.process(changes).await.failed.into_iter();
    let sequences = failed.filter_map(|failed| {
        let (error, sequence) = (failed.error.to_string(), sequences.get(failed.position)?);
        tracing::warn!(error, sequence, consumer = name, "a change has to be sent again");
        Some((*sequence).clone())
    });
    Ok(sequences.collect())
}

/// The items before and after a change.
fn read(mut change: Json) -> anyhow::Result<Change> {
    let mut image = |name: &str| match change[name].take() {
        Json::Null => Ok(None),
        image => item(image).with_context(|| format!("its `{name}` is not an item")).map(Some),
    };
    let change = Change { old: image("OldImage")?, new: image("NewImage")? };
    if change.old.is_none() && change.new.is_none() {
        bail!("it has neither `NewImage` nor `OldImage`");
    }
    Ok(change)
}

/// An item in the JSON of DynamoDB. Errors name attributes, and no value: it may be personal data.
fn item(image: Json) -> anyhow::Result<Item> {
    let Json::Object(image) = image else { bail!("it is no object") };
    let mut item = Item::new();
    for (name, attribute) in image {
        let attribute = serde_json::from_value::<AttributeValue>(attribute).ok().and_then(value);
        item.insert(&name, attribute.with_context(|| format!("`{name}` is not a value of DynamoDB"))?);
    }
    Ok(item)
}

/// A value; `None` where a number is none.
fn value(attribute: AttributeValue) -> Option<Value> {
    let number = |text: String| text.parse::<Number>().ok();
    Some(match attribute {
        AttributeValue::S(text) => Value::from(text),
        AttributeValue::N(text) => Value::Number(number(text)?),
        AttributeValue::Bool(truth) => Value::Boolean(truth),
        AttributeValue::Null(_) => Value::Null,
        AttributeValue::B(bytes) => Value::Binary(bytes),
        AttributeValue::M(map) => {
            Value::Map(map.into_iter().map(|(name, inner)| Some((name, value(inner)?))).collect::<Option<_>>()?)
        }
        AttributeValue::L(list) => Value::List(list.into_iter().map(value).collect::<Option<_>>()?),
        AttributeValue::Ss(texts) => Value::StringSet(texts.into_iter().collect()),
        AttributeValue::Ns(numbers) => Value::NumberSet(numbers.into_iter().map(number).collect::<Option<_>>()?),
        AttributeValue::Bs(all) => Value::BinarySet(all.into_iter().collect()),
    })
}
