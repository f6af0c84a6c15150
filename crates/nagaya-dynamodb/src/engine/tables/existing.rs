//! The tables that exist, as the server describes them.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::{
    error::{ProvideErrorMetadata, SdkError},
    types::{
        BillingMode, GlobalSecondaryIndexDescription, IndexStatus, KeySchemaElement, PointInTimeRecoveryStatus,
        ProjectionType, SseStatus, SseType, StreamViewType, TableDescription, TableStatus, Tag, TimeToLiveStatus,
    },
};
use nagaya_store::{Error, ErrorKind, KeySchema};

use super::DesiredTable;
use crate::engine::{Dynamodb, table_cache};

/// A table that exists.
#[derive(Debug, Clone)]
pub(super) struct ExistingTable {
    pub(super) arn: String,
    pub(super) status: TableStatus,
    /// `None`: it has no sort attribute, which the port does not support.
    pub(super) key: Option<KeySchema>,
    pub(super) indexes: Vec<Index>,
    pub(super) ttl: Option<String>,
    pub(super) stream: Option<StreamViewType>,
    pub(super) recovery: Setting<bool>,
    pub(super) kms_key: Option<String>,
    pub(super) billing: Billing,
    pub(super) protected: bool,
    pub(super) tags: Setting<BTreeMap<String, String>>,
    /// The number of items and bytes, as counted some hours ago.
    pub(super) items: i64,
    pub(super) bytes: i64,
}

/// An index that exists.
#[derive(Debug, Clone)]
pub(super) struct Index {
    pub(super) name: String,
    pub(super) key: Option<KeySchema>,
    pub(super) projects_all: bool,
    pub(super) status: IndexStatus,
    pub(super) backfilling: bool,
    pub(super) items: Option<i64>,
}

/// The billing mode of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Billing {
    PerRequest,
    Provisioned { read: i64, write: i64 },
}

/// A setting, as far as the server reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Setting<T> {
    /// Its value.
    Known(T),
    /// The server does not support the setting.
    Unsupported,
    /// The credentials do not allow to read it.
    Denied,
    /// It was not read.
    NotRequested,
}

/// Reads a table and the settings that the wanted table has; `None`: there is no such table.
pub(super) async fn read(engine: &Dynamodb, wanted: &DesiredTable) -> Result<Option<ExistingTable>, Error> {
    let table = &wanted.spec.name;
    let Some(described) = describe(engine, table).await? else { return Ok(None) };
    let mut existing = from_description(table, &described);
    existing.ttl = ttl_attribute(engine, table).await?;
    if wanted.recovery {
        existing.recovery = recovery(engine, table).await?;
    }
    if !wanted.tags.is_empty() {
        existing.tags = tags(engine, table, &existing.arn).await?;
    }
    Ok(Some(existing))
}

/// Whether the server supports the settings of a table that does not exist yet.
pub(super) async fn probe_settings(
    engine: &Dynamodb,
    wanted: &DesiredTable,
) -> Result<(Setting<bool>, Setting<()>), Error> {
    let table = &wanted.spec.name;
    let recovery = if wanted.recovery { recovery(engine, table).await? } else { Setting::NotRequested };
    let tags = if wanted.tags.is_empty() {
        Setting::NotRequested
    } else {
        // The account does not exist. Only whether the server knows the operation matters.
        let arn = format!("arn:aws:dynamodb:us-east-1:000000000000:table/{}", engine.name_of(table));
        match engine.client.list_tags_of_resource().resource_arn(arn).send().await {
            Err(failure) if code(&failure) == UNKNOWN_OPERATION => Setting::Unsupported,
            _ => Setting::Known(()),
        }
    };
    Ok((recovery, tags))
}

/// The error code for an operation that the server does not support.
pub(super) const UNKNOWN_OPERATION: &str = "UnknownOperationException";

/// The error code of a failure; empty without a response.
pub(super) fn code<E: ProvideErrorMetadata, R>(failure: &SdkError<E, R>) -> &str {
    failure.as_service_error().and_then(ProvideErrorMetadata::code).unwrap_or_default()
}

/// The description of a table; `None`: there is no such table.
pub(super) async fn describe(engine: &Dynamodb, table: &str) -> Result<Option<TableDescription>, Error> {
    match engine.client.describe_table().table_name(engine.name_of(table)).send().await {
        Ok(described) => Ok(described.table),
        Err(failure) => match engine.call_error(table, failure) {
            error if matches!(error.kind(), ErrorKind::NoTable(_)) => Ok(None),
            error => Err(error),
        },
    }
}

/// The table of a description, without the TTL, recovery and tags, which need other calls.
pub(super) fn from_description(table: &str, described: &TableDescription) -> ExistingTable {
    let attributes = described.attribute_definitions();
    let schema = |elements: &[KeySchemaElement]| table_cache::key_schema_of(table, elements, attributes).ok();
    let index = |index: &GlobalSecondaryIndexDescription| Index {
        name: index.index_name().unwrap_or_default().to_owned(),
        key: schema(index.key_schema()),
        projects_all: index.projection().and_then(|projection| projection.projection_type())
            == Some(&ProjectionType::All),
        status: index.index_status().cloned().unwrap_or(IndexStatus::Active),
        backfilling: index.backfilling().unwrap_or(false),
        items: index.item_count(),
    };
    let stream = described.stream_specification().filter(|stream| stream.stream_enabled());
    let sse = described.sse_description();
    let kms = sse.filter(|sse| {
        matches!(sse.status(), Some(SseStatus::Enabled | SseStatus::Enabling | SseStatus::Updating))
            && sse.sse_type() == Some(&SseType::Kms)
    });
    let kms_key = kms.map(|sse| sse.kms_master_key_arn().unwrap_or_default().to_owned());
    ExistingTable {
        arn: described.table_arn().unwrap_or_default().to_owned(),
        status: described.table_status().cloned().unwrap_or(TableStatus::Active),
        key: schema(described.key_schema()),
        indexes: described.global_secondary_indexes().iter().map(index).collect(),
        ttl: None,
        stream: stream.map(|stream| stream.stream_view_type().cloned().unwrap_or(StreamViewType::NewAndOldImages)),
        recovery: Setting::NotRequested,
        kms_key,
        billing: billing(described),
        protected: described.deletion_protection_enabled().unwrap_or(false),
        tags: Setting::NotRequested,
        items: described.item_count().unwrap_or(0),
        bytes: described.table_size_bytes().unwrap_or(0),
    }
}

fn billing(described: &TableDescription) -> Billing {
    let throughput = described.provisioned_throughput();
    let read = throughput.and_then(|throughput| throughput.read_capacity_units()).unwrap_or(0);
    let write = throughput.and_then(|throughput| throughput.write_capacity_units()).unwrap_or(0);
    // AWS omits the mode of tables that were always provisioned.
    match described.billing_mode_summary().and_then(|summary| summary.billing_mode()) {
        Some(BillingMode::PayPerRequest) => Billing::PerRequest,
        None if read == 0 && write == 0 => Billing::PerRequest,
        _ => Billing::Provisioned { read, write },
    }
}

async fn ttl_attribute(engine: &Dynamodb, table: &str) -> Result<Option<String>, Error> {
    let response = match engine.client.describe_time_to_live().table_name(engine.name_of(table)).send().await {
        Err(failure) if code(&failure) == UNKNOWN_OPERATION => return Ok(None),
        response => response.map_err(|failure| engine.call_error(table, failure))?,
    };
    let on = response.time_to_live_description().filter(|ttl| {
        matches!(ttl.time_to_live_status(), Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling))
    });
    Ok(on.and_then(|ttl| ttl.attribute_name()).map(str::to_owned))
}

async fn recovery(engine: &Dynamodb, table: &str) -> Result<Setting<bool>, Error> {
    match engine.client.describe_continuous_backups().table_name(engine.name_of(table)).send().await {
        Ok(response) => {
            let recovery = response
                .continuous_backups_description()
                .and_then(|backups| backups.point_in_time_recovery_description());
            let status = recovery.and_then(|recovery| recovery.point_in_time_recovery_status());
            Ok(Setting::Known(status == Some(&PointInTimeRecoveryStatus::Enabled)))
        }
        Err(failure) => match code(&failure) {
            UNKNOWN_OPERATION => Ok(Setting::Unsupported),
            "AccessDeniedException" => Ok(Setting::Denied),
            "TableNotFoundException" | "ResourceNotFoundException" => Ok(Setting::Known(false)),
            _ => Err(engine.call_error(table, failure)),
        },
    }
}

async fn tags(engine: &Dynamodb, table: &str, arn: &str) -> Result<Setting<BTreeMap<String, String>>, Error> {
    let mut tags = BTreeMap::new();
    let mut next = None;
    loop {
        let response = match engine.client.list_tags_of_resource().resource_arn(arn).set_next_token(next).send().await {
            Ok(response) => response,
            Err(failure) => match code(&failure) {
                UNKNOWN_OPERATION => return Ok(Setting::Unsupported),
                "AccessDeniedException" => return Ok(Setting::Denied),
                _ => return Err(engine.call_error(table, failure)),
            },
        };
        tags.extend(response.tags().iter().map(|tag: &Tag| (tag.key().to_owned(), tag.value().to_owned())));
        next = response.next_token().map(str::to_owned);
        if next.is_none() {
            return Ok(Setting::Known(tags));
        }
    }
}
