//! The calls that apply a step.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::{
    config::http::HttpResponse,
    error::{ProvideErrorMetadata, SdkError},
    types::{
        AttributeDefinition, BillingMode, CreateGlobalSecondaryIndexAction, DeleteGlobalSecondaryIndexAction,
        GlobalSecondaryIndex, GlobalSecondaryIndexUpdate, KeySchemaElement, KeyType, PointInTimeRecoverySpecification,
        Projection, ProjectionType, ProvisionedThroughput, ScalarAttributeType, SseSpecification, SseType,
        StreamSpecification, StreamViewType, Tag, TimeToLiveSpecification, UpdateGlobalSecondaryIndexAction,
        builders::CreateGlobalSecondaryIndexActionBuilder,
    },
};
use nagaya_store::{Error, ErrorKind, IndexSpec, KeyKind, KeySchema};

use super::{
    Step, TableKey,
    existing::{self, Billing, ExistingTable},
};
use crate::engine::{Dynamodb, error};

/// A call that failed.
pub(super) struct CallError {
    /// The server's error code.
    pub(super) code: String,
    /// The server's message.
    pub(super) message: String,
    /// The error of the port.
    pub(super) error: Error,
}

impl CallError {
    fn from_sdk<E>(table: &str, failure: SdkError<E, HttpResponse>) -> Self
    where
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        let service = failure.as_service_error();
        let code = service.and_then(ProvideErrorMetadata::code).unwrap_or_default().to_owned();
        let message = service.and_then(ProvideErrorMetadata::message).unwrap_or("the server is busy").to_owned();
        CallError { code, message, error: error::to_store_error(table, failure) }
    }
}

impl From<Error> for CallError {
    fn from(error: Error) -> Self {
        CallError { code: String::new(), message: error.to_string(), error }
    }
}

impl From<aws_sdk_dynamodb::error::BuildError> for CallError {
    fn from(error: aws_sdk_dynamodb::error::BuildError) -> Self {
        Error::engine(error).into()
    }
}

/// Sends the call of a step.
pub(super) async fn send(engine: &Dynamodb, table: &str, step: &Step) -> Result<(), CallError> {
    let name = engine.name_of(table);
    let update = || engine.client.update_table().table_name(&name);
    match step {
        Step::Create { .. } => create(engine, table, step).await,
        Step::EnableTtl(attribute) => {
            let ttl = TimeToLiveSpecification::builder().enabled(true).attribute_name(attribute).build()?;
            let call = engine.client.update_time_to_live().table_name(&name).time_to_live_specification(ttl);
            call.send().await.map(drop).map_err(|failure| CallError::from_sdk(table, failure))
        }
        Step::EnableRecovery => {
            let on = PointInTimeRecoverySpecification::builder().point_in_time_recovery_enabled(true).build()?;
            let call = engine.client.update_continuous_backups().table_name(&name);
            let call = call.point_in_time_recovery_specification(on);
            call.send().await.map(drop).map_err(|failure| CallError::from_sdk(table, failure))
        }
        Step::SetTags(tags) => tag(engine, table, tags).await,
        Step::AddIndex(index) => add_index(engine, table, index).await,
        Step::SetThroughput(Some(units)) => provision(engine, table, *units).await,
        Step::SetThroughput(None) => send_update(table, update().billing_mode(BillingMode::PayPerRequest)).await,
        Step::EnableStream => send_update(table, update().stream_specification(stream()?)).await,
        Step::EnableEncryption(key) => send_update(table, update().sse_specification(encryption(key))).await,
        Step::EnableDeletionProtection => send_update(table, update().deletion_protection_enabled(true)).await,
        Step::RemoveIndex(index) => {
            let delete = DeleteGlobalSecondaryIndexAction::builder().index_name(index).build()?;
            let change = GlobalSecondaryIndexUpdate::builder().delete(delete).build();
            send_update(table, update().global_secondary_index_updates(change)).await
        }
    }
}

type TableUpdate = aws_sdk_dynamodb::operation::update_table::builders::UpdateTableFluentBuilder;

async fn send_update(table: &str, update: TableUpdate) -> Result<(), CallError> {
    update.send().await.map(drop).map_err(|failure| CallError::from_sdk(table, failure))
}

async fn create(engine: &Dynamodb, table: &str, step: &Step) -> Result<(), CallError> {
    let call = create_call(engine.client.create_table().table_name(engine.name_of(table)), step)?;
    call.send().await.map(drop).map_err(|failure| CallError::from_sdk(table, failure))
}

type TableCreation = aws_sdk_dynamodb::operation::create_table::builders::CreateTableFluentBuilder;

/// The call that creates a table as a step says.
fn create_call(call: TableCreation, step: &Step) -> Result<TableCreation, CallError> {
    let Step::Create { key, indexes, stream: with_stream, encryption: table_key, throughput, protected } = step else {
        return Ok(call);
    };
    let mut call = call.set_key_schema(Some(schema(key)?));
    let keys = indexes.iter().map(|index| &index.key).chain([key]);
    call = call.set_attribute_definitions(Some(definitions(keys)?));
    for index in indexes {
        let mut built =
            GlobalSecondaryIndex::builder().index_name(&index.name).set_key_schema(Some(schema(&index.key)?));
        if let Some(units) = throughput {
            built = built.provisioned_throughput(capacity(*units)?);
        }
        call = call.global_secondary_indexes(built.projection(project_all()).build()?);
    }
    call = match throughput {
        Some(units) => call.billing_mode(BillingMode::Provisioned).provisioned_throughput(capacity(*units)?),
        None => call.billing_mode(BillingMode::PayPerRequest),
    };
    if *with_stream {
        call = call.stream_specification(stream()?);
    }
    if let Some(key) = table_key {
        call = call.sse_specification(encryption(key));
    }
    if *protected {
        call = call.deletion_protection_enabled(true);
    }
    Ok(call)
}

async fn add_index(engine: &Dynamodb, table: &str, index: &IndexSpec) -> Result<(), CallError> {
    let found = existing_table(engine, table).await?;
    let add = |with: Option<ProvisionedThroughput>| -> Result<TableUpdate, CallError> {
        let create: CreateGlobalSecondaryIndexActionBuilder = CreateGlobalSecondaryIndexAction::builder();
        let create = create.index_name(&index.name).set_key_schema(Some(schema(&index.key)?)).projection(project_all());
        let change =
            GlobalSecondaryIndexUpdate::builder().create(create.set_provisioned_throughput(with).build()?).build();
        let update = engine.client.update_table().table_name(engine.name_of(table));
        let keys = found.key.iter().chain(found.indexes.iter().filter_map(|index| index.key.as_ref()));
        let update = update.set_attribute_definitions(Some(definitions(keys.chain([&index.key]))?));
        Ok(update.global_secondary_index_updates(change))
    };
    let with = match found.billing {
        Billing::PerRequest => None,
        Billing::Provisioned { read, write } => {
            Some(ProvisionedThroughput::builder().read_capacity_units(read).write_capacity_units(write).build()?)
        }
    };
    match send_update(table, add(with)?).await {
        // dynalite requires a throughput for every billing mode; AWS rejects one for on-demand tables.
        Err(error) if error.message.contains("provisionedThroughput' failed to satisfy") => {
            send_update(table, add(Some(capacity(1)?))?).await
        }
        response => response,
    }
}

/// Gives a table and each of its indexes the same capacity.
async fn provision(engine: &Dynamodb, table: &str, units: i64) -> Result<(), CallError> {
    let mut update = engine.client.update_table().table_name(engine.name_of(table));
    update = update.billing_mode(BillingMode::Provisioned).provisioned_throughput(capacity(units)?);
    for index in existing_table(engine, table).await?.indexes {
        let change = UpdateGlobalSecondaryIndexAction::builder().index_name(index.name);
        let change = change.provisioned_throughput(capacity(units)?).build()?;
        update = update.global_secondary_index_updates(GlobalSecondaryIndexUpdate::builder().update(change).build());
    }
    send_update(table, update).await
}

async fn tag(engine: &Dynamodb, table: &str, tags: &BTreeMap<String, String>) -> Result<(), CallError> {
    let mut call = engine.client.tag_resource().resource_arn(existing_table(engine, table).await?.arn);
    for (key, value) in tags {
        call = call.tags(Tag::builder().key(key).value(value).build()?);
    }
    call.send().await.map(drop).map_err(|failure| CallError::from_sdk(table, failure))
}

async fn existing_table(engine: &Dynamodb, table: &str) -> Result<ExistingTable, Error> {
    let described = existing::describe(engine, table).await?;
    let missing = || Error::from(ErrorKind::NoTable(table.to_owned()));
    Ok(existing::from_description(table, &described.ok_or_else(missing)?))
}

fn schema(key: &KeySchema) -> Result<Vec<KeySchemaElement>, CallError> {
    let element = |name: &str, kind| KeySchemaElement::builder().attribute_name(name).key_type(kind).build();
    Ok(vec![element(&key.partition.0, KeyType::Hash)?, element(&key.sort.0, KeyType::Range)?])
}

/// The attributes of these keys, each once.
fn definitions<'k>(keys: impl Iterator<Item = &'k KeySchema>) -> Result<Vec<AttributeDefinition>, CallError> {
    let attributes: BTreeMap<&String, KeyKind> =
        keys.flat_map(|key| [&key.partition, &key.sort]).map(|(name, kind)| (name, *kind)).collect();
    let define = |(name, kind): (&String, KeyKind)| {
        let kind = match kind {
            KeyKind::String => ScalarAttributeType::S,
            KeyKind::Number => ScalarAttributeType::N,
            KeyKind::Binary => ScalarAttributeType::B,
        };
        Ok(AttributeDefinition::builder().attribute_name(name).attribute_type(kind).build()?)
    };
    attributes.into_iter().map(define).collect()
}

fn project_all() -> Projection {
    Projection::builder().projection_type(ProjectionType::All).build()
}

fn capacity(units: i64) -> Result<ProvisionedThroughput, CallError> {
    Ok(ProvisionedThroughput::builder().read_capacity_units(units).write_capacity_units(units).build()?)
}

fn stream() -> Result<StreamSpecification, CallError> {
    let view = StreamViewType::NewAndOldImages;
    Ok(StreamSpecification::builder().stream_enabled(true).stream_view_type(view).build()?)
}

fn encryption(key: &TableKey) -> SseSpecification {
    let id = match key {
        TableKey::Managed => None,
        TableKey::Customer(id) => Some(id.clone()),
    };
    SseSpecification::builder().enabled(true).sse_type(SseType::Kms).set_kms_master_key_id(id).build()
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::config::BehaviorVersion;

    use super::*;

    #[test]
    fn the_key_of_the_customer_is_sent_when_a_table_is_created() {
        let config = aws_sdk_dynamodb::Config::builder().behavior_version(BehaviorVersion::latest()).build();
        let client = aws_sdk_dynamodb::Client::from_conf(config);
        let sent = |encryption: Option<TableKey>| {
            let key = KeySchema::strings("PK", "SK");
            let (indexes, throughput) = (Vec::new(), None);
            let step = Step::Create { key, indexes, stream: false, encryption, throughput, protected: false };
            let call = create_call(client.create_table(), &step).ok().expect("the step is complete");
            call.get_sse_specification().clone()
        };
        assert_eq!(sent(None), None);
        let managed = sent(Some(TableKey::Managed)).expect("it is encrypted");
        assert_eq!((managed.enabled(), managed.kms_master_key_id()), (Some(true), None));
        let customer = sent(Some(TableKey::Customer("1234abcd".to_owned()))).expect("it is encrypted");
        assert_eq!(customer.kms_master_key_id(), Some("1234abcd"));
        assert_eq!(customer.sse_type(), Some(&SseType::Kms));
    }
}
