//! The cache of table descriptions.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
    time::Instant,
};

use aws_sdk_dynamodb::{
    config::http::HttpResponse,
    error::{ProvideErrorMetadata, SdkError},
    types::{
        AttributeDefinition, IndexStatus, KeySchemaElement, KeyType, ScalarAttributeType, TableDescription,
        TimeToLiveStatus,
    },
};
use nagaya_store::{Error, ErrorKind, IndexSpec, KeyKind, KeySchema, TableSpec};

use super::{Dynamodb, error};

/// A described table. Its indexes are those that can be queried.
#[derive(Debug)]
pub(crate) struct Table {
    /// Its name in the account.
    pub(crate) name: String,
    pub(crate) spec: TableSpec,
    pub(crate) described_at: Instant,
}

/// The tables that were described.
#[derive(Debug, Default)]
pub(crate) struct TableCache {
    specs: RwLock<HashMap<String, Arc<Table>>>,
}

impl TableCache {
    fn get(&self, table: &str) -> Option<Arc<Table>> {
        self.specs.read().unwrap_or_else(PoisonError::into_inner).get(table).map(Arc::clone)
    }

    /// Removes a table, so that the next call describes it again.
    pub(crate) fn forget(&self, table: &str) {
        self.specs.write().unwrap_or_else(PoisonError::into_inner).remove(table);
    }
}

impl Dynamodb {
    /// A table from the cache, described again when the entry is missing or old.
    pub(crate) async fn table(&self, table: &str) -> Result<Arc<Table>, Error> {
        match self.tables.get(table) {
            Some(cached) if cached.described_at.elapsed() < self.options.description_cache_time => Ok(cached),
            // An old description is better than an error while the server cannot describe the table.
            Some(cached) => match self.describe_table(table).await {
                Err(error)
                    if matches!(error.kind(), ErrorKind::Busy | ErrorKind::Unavailable(_) | ErrorKind::Engine(_)) =>
                {
                    Ok(cached)
                }
                response => response,
            },
            None => self.describe_table(table).await,
        }
    }

    /// Describes a table, and caches the description.
    pub(crate) async fn describe_table(&self, table: &str) -> Result<Arc<Table>, Error> {
        let name = self.name_of(table);
        let described = self.client.describe_table().table_name(&name).send().await;
        let described = described.map_err(|failure| self.call_error(table, failure))?;
        let missing = || Error::from(ErrorKind::NoTable(table.to_owned()));
        let spec = spec_of(table, described.table().ok_or_else(missing)?)?;
        let ttl = self.client.describe_time_to_live().table_name(&name).send().await;
        let ttl = ttl.map_err(|failure| self.call_error(table, failure))?;
        // Items expire from the moment that TTL is enabled, though the service may need an hour to start deleting them.
        let ttl = ttl.time_to_live_description().filter(|ttl| {
            matches!(ttl.time_to_live_status(), Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling))
        });
        let ttl = ttl.and_then(|ttl| ttl.attribute_name()).map(str::to_owned);
        Ok(self.cache_table(TableSpec { ttl, ..spec }))
    }

    /// Caches a table without a call.
    pub(crate) fn cache_table(&self, spec: TableSpec) -> Arc<Table> {
        let (key, name) = (spec.name.clone(), self.name_of(&spec.name));
        let table = Arc::new(Table { name, spec, described_at: Instant::now() });
        self.tables.specs.write().unwrap_or_else(PoisonError::into_inner).insert(key, Arc::clone(&table));
        table
    }

    /// The error of a failed call on a table. A missing table is removed from the cache.
    pub(crate) fn call_error<E>(&self, table: &str, failure: SdkError<E, HttpResponse>) -> Error
    where
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        let error = error::to_store_error(table, failure);
        if matches!(error.kind(), ErrorKind::NoTable(_)) {
            self.tables.forget(table);
        }
        error
    }

    /// The error of a failed call on several tables.
    pub(crate) async fn batch_error<'t, E>(
        &self,
        tables: impl Iterator<Item = &'t Arc<Table>> + Clone,
        failure: SdkError<E, HttpResponse>,
    ) -> Error
    where
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        let error = error::to_store_error("", failure);
        if matches!(error.kind(), ErrorKind::NoTable(_)) {
            // The server does not say which table is missing, so each is described.
            for table in tables {
                if let Err(error) = self.describe_table(&table.spec.name).await {
                    return error;
                }
            }
            return ErrorKind::Busy.into();
        }
        error
    }
}

/// The table of a description, with the indexes that can be queried. Its TTL comes from another call.
pub(crate) fn spec_of(table: &str, described: &TableDescription) -> Result<TableSpec, Error> {
    let attributes = described.attribute_definitions();
    let mut spec = TableSpec::new(table, key_schema_of(table, described.key_schema(), attributes)?);
    for index in described.global_secondary_indexes() {
        let can_query = matches!(index.index_status(), Some(IndexStatus::Active | IndexStatus::Updating));
        // The port does not know indexes without a sort attribute.
        if let (true, Some(name), Ok(key)) =
            (can_query, index.index_name(), key_schema_of(table, index.key_schema(), attributes))
        {
            spec.indexes.push(IndexSpec { name: name.to_owned(), key });
        }
    }
    Ok(spec)
}

/// The key of a table or of an index.
pub(crate) fn key_schema_of(
    table: &str,
    elements: &[KeySchemaElement],
    attributes: &[AttributeDefinition],
) -> Result<KeySchema, Error> {
    let part = |kind: &KeyType| {
        let name = elements.iter().find(|element| element.key_type() == kind)?.attribute_name();
        let attribute = attributes.iter().find(|attribute| attribute.attribute_name() == name)?;
        let kind = match attribute.attribute_type() {
            ScalarAttributeType::S => KeyKind::String,
            ScalarAttributeType::N => KeyKind::Number,
            ScalarAttributeType::B => KeyKind::Binary,
            _ => return None,
        };
        Some((name.to_owned(), kind))
    };
    match (part(&KeyType::Hash), part(&KeyType::Range)) {
        (Some(partition), Some(sort)) => Ok(KeySchema { partition, sort }),
        _ => Err(Error::invalid(format!("the table `{table}` lacks a partition or a sort attribute"))),
    }
}
