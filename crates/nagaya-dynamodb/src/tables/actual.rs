//! Tables as they are.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::{
    error::{ProvideErrorMetadata, SdkError},
    types::{
        BillingMode, GlobalSecondaryIndexDescription, IndexStatus, KeySchemaElement, PointInTimeRecoveryStatus,
        ProjectionType, SseStatus, SseType, StreamViewType, TableDescription, TableStatus, Tag, TimeToLiveStatus,
    },
};
use nagaya_store::{Error, ErrorKind, KeySchema};

use super::Wanted;
use crate::{engine::Dynamodb, known};

/// A table as it is.
#[derive(Debug, Clone)]
pub(super) struct Actual {
    pub(super) arn: String,
    pub(super) status: TableStatus,
    /// `None`: it has no sort attribute, so it is none of ours.
    pub(super) key: Option<KeySchema>,
    pub(super) indexes: Vec<Index>,
    pub(super) ttl: Option<String>,
    pub(super) stream: Option<StreamViewType>,
    pub(super) recovery: Told<bool>,
    pub(super) encrypted: bool,
    pub(super) billing: Billing,
    pub(super) protected: bool,
    pub(super) tags: Told<BTreeMap<String, String>>,
    /// How many items it had some hours ago, and their bytes.
    pub(super) items: i64,
    pub(super) bytes: i64,
}

/// An index as it is.
#[derive(Debug, Clone)]
pub(super) struct Index {
    pub(super) name: String,
    pub(super) key: Option<KeySchema>,
    pub(super) whole: bool,
    pub(super) status: IndexStatus,
    pub(super) backfilling: bool,
    pub(super) items: Option<i64>,
}

/// How a table is paid for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Billing {
    PerRequest,
    Provisioned { read: i64, write: i64 },
}

/// What a server tells of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Told<T> {
    /// This is how it is.
    Is(T),
    /// The server does not have such a setting.
    Lacking,
    /// Whoever asks may not know.
    Denied,
    /// It was not asked.
    Unasked,
}

/// A table as it is, as far as it matters for what is wanted; `None`: it is not there.
pub(super) async fn read(engine: &Dynamodb, wanted: &Wanted) -> Result<Option<Actual>, Error> {
    let table = &wanted.spec.name;
    let Some(described) = describe(engine, table).await? else { return Ok(None) };
    let mut actual = of(table, &described);
    actual.ttl = expiry(engine, table).await?;
    if wanted.recovery {
        actual.recovery = recovery(engine, table).await?;
    }
    if !wanted.tags.is_empty() {
        actual.tags = tags(engine, table, &actual.arn).await?;
    }
    Ok(Some(actual))
}

/// What the server says of a table that is not there: whether it has the settings at all.
pub(super) async fn probe(engine: &Dynamodb, wanted: &Wanted) -> Result<(Told<bool>, Told<()>), Error> {
    let table = &wanted.spec.name;
    let recovery = if wanted.recovery { recovery(engine, table).await? } else { Told::Unasked };
    let tags = if wanted.tags.is_empty() {
        Told::Unasked
    } else {
        // Nobody has this account; all that matters is whether the question is understood.
        let arn = format!("arn:aws:dynamodb:us-east-1:000000000000:table/{}", engine.name_of(table));
        match engine.client.list_tags_of_resource().resource_arn(arn).send().await {
            Err(failure) if code(&failure) == UNKNOWN => Told::Lacking,
            _ => Told::Is(()),
        }
    };
    Ok((recovery, tags))
}

/// What a server answers to a question that it does not know.
pub(super) const UNKNOWN: &str = "UnknownOperationException";

/// The code of a failure, empty when the server did not answer.
pub(super) fn code<E: ProvideErrorMetadata, R>(failure: &SdkError<E, R>) -> &str {
    failure.as_service_error().and_then(ProvideErrorMetadata::code).unwrap_or_default()
}

/// A table as the server describes it; `None`: it is not there.
pub(super) async fn describe(engine: &Dynamodb, table: &str) -> Result<Option<TableDescription>, Error> {
    match engine.client.describe_table().table_name(engine.name_of(table)).send().await {
        Ok(described) => Ok(described.table),
        Err(failure) => match engine.failed(table, failure) {
            error if matches!(error.kind(), ErrorKind::NoTable(_)) => Ok(None),
            error => Err(error),
        },
    }
}

/// What a description says; expiry, recovery and tags are asked for elsewhere.
pub(super) fn of(table: &str, described: &TableDescription) -> Actual {
    let attributes = described.attribute_definitions();
    let schema = |elements: &[KeySchemaElement]| known::schema_of(table, elements, attributes).ok();
    let index = |index: &GlobalSecondaryIndexDescription| Index {
        name: index.index_name().unwrap_or_default().to_owned(),
        key: schema(index.key_schema()),
        whole: index.projection().and_then(|projection| projection.projection_type()) == Some(&ProjectionType::All),
        status: index.index_status().cloned().unwrap_or(IndexStatus::Active),
        backfilling: index.backfilling().unwrap_or(false),
        items: index.item_count(),
    };
    let stream = described.stream_specification().filter(|stream| stream.stream_enabled());
    let sse = described.sse_description();
    let encrypted = sse.is_some_and(|sse| {
        matches!(sse.status(), Some(SseStatus::Enabled | SseStatus::Enabling | SseStatus::Updating))
            && sse.sse_type() == Some(&SseType::Kms)
    });
    Actual {
        arn: described.table_arn().unwrap_or_default().to_owned(),
        status: described.table_status().cloned().unwrap_or(TableStatus::Active),
        key: schema(described.key_schema()),
        indexes: described.global_secondary_indexes().iter().map(index).collect(),
        ttl: None,
        stream: stream.map(|stream| stream.stream_view_type().cloned().unwrap_or(StreamViewType::NewAndOldImages)),
        recovery: Told::Unasked,
        encrypted,
        billing: billing(described),
        protected: described.deletion_protection_enabled().unwrap_or(false),
        tags: Told::Unasked,
        items: described.item_count().unwrap_or(0),
        bytes: described.table_size_bytes().unwrap_or(0),
    }
}

fn billing(described: &TableDescription) -> Billing {
    let throughput = described.provisioned_throughput();
    let read = throughput.and_then(|throughput| throughput.read_capacity_units()).unwrap_or(0);
    let write = throughput.and_then(|throughput| throughput.write_capacity_units()).unwrap_or(0);
    // AWS leaves the mode out of tables that never had another one than provisioned.
    match described.billing_mode_summary().and_then(|summary| summary.billing_mode()) {
        Some(BillingMode::PayPerRequest) => Billing::PerRequest,
        None if read == 0 && write == 0 => Billing::PerRequest,
        _ => Billing::Provisioned { read, write },
    }
}

async fn expiry(engine: &Dynamodb, table: &str) -> Result<Option<String>, Error> {
    let answer = match engine.client.describe_time_to_live().table_name(engine.name_of(table)).send().await {
        Err(failure) if code(&failure) == UNKNOWN => return Ok(None),
        answer => answer.map_err(|failure| engine.failed(table, failure))?,
    };
    let on = answer.time_to_live_description().filter(|ttl| {
        matches!(ttl.time_to_live_status(), Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling))
    });
    Ok(on.and_then(|ttl| ttl.attribute_name()).map(str::to_owned))
}

async fn recovery(engine: &Dynamodb, table: &str) -> Result<Told<bool>, Error> {
    match engine.client.describe_continuous_backups().table_name(engine.name_of(table)).send().await {
        Ok(answer) => {
            let recovery =
                answer.continuous_backups_description().and_then(|told| told.point_in_time_recovery_description());
            let status = recovery.and_then(|recovery| recovery.point_in_time_recovery_status());
            Ok(Told::Is(status == Some(&PointInTimeRecoveryStatus::Enabled)))
        }
        Err(failure) => match code(&failure) {
            UNKNOWN => Ok(Told::Lacking),
            "AccessDeniedException" => Ok(Told::Denied),
            "TableNotFoundException" | "ResourceNotFoundException" => Ok(Told::Is(false)),
            _ => Err(engine.failed(table, failure)),
        },
    }
}

async fn tags(engine: &Dynamodb, table: &str, arn: &str) -> Result<Told<BTreeMap<String, String>>, Error> {
    let mut tags = BTreeMap::new();
    let mut next = None;
    loop {
        let answer = match engine.client.list_tags_of_resource().resource_arn(arn).set_next_token(next).send().await {
            Ok(answer) => answer,
            Err(failure) => match code(&failure) {
                UNKNOWN => return Ok(Told::Lacking),
                "AccessDeniedException" => return Ok(Told::Denied),
                _ => return Err(engine.failed(table, failure)),
            },
        };
        tags.extend(answer.tags().iter().map(|tag: &Tag| (tag.key().to_owned(), tag.value().to_owned())));
        next = answer.next_token().map(str::to_owned);
        if next.is_none() {
            return Ok(Told::Is(tags));
        }
    }
}
