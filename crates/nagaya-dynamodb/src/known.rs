//! What is known of the tables: learned from the server, trusted for a while.

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

use crate::{engine::Dynamodb, error};

/// A table as it is. Its indexes are those that can be read.
#[derive(Debug)]
pub(crate) struct Table {
    /// Its name in the account.
    pub(crate) name: String,
    pub(crate) spec: TableSpec,
    pub(crate) learned: Instant,
}

/// The tables as far as they are known.
#[derive(Debug, Default)]
pub(crate) struct Known {
    tables: RwLock<HashMap<String, Arc<Table>>>,
}

impl Known {
    fn get(&self, table: &str) -> Option<Arc<Table>> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner).get(table).map(Arc::clone)
    }

    /// Forgets a table, so that the next call asks for it.
    pub(crate) fn forget(&self, table: &str) {
        self.tables.write().unwrap_or_else(PoisonError::into_inner).remove(table);
    }
}

impl Dynamodb {
    /// A table as it is, asked for when it is not known or when that was long ago.
    pub(crate) async fn table(&self, table: &str) -> Result<Arc<Table>, Error> {
        match self.known.get(table) {
            Some(known) if known.learned.elapsed() < self.options.description_age => Ok(known),
            // What was known is better than nothing while the server has no time to describe it.
            Some(known) => match self.learn(table).await {
                Err(error)
                    if matches!(error.kind(), ErrorKind::Busy | ErrorKind::Unavailable(_) | ErrorKind::Engine(_)) =>
                {
                    Ok(known)
                }
                answer => answer,
            },
            None => self.learn(table).await,
        }
    }

    /// Asks the server for a table, and remembers it.
    pub(crate) async fn learn(&self, table: &str) -> Result<Arc<Table>, Error> {
        let name = self.name_of(table);
        let described = self.client.describe_table().table_name(&name).send().await;
        let described = described.map_err(|failure| self.failed(table, failure))?;
        let missing = || Error::from(ErrorKind::NoTable(table.to_owned()));
        let spec = spec_of(table, described.table().ok_or_else(missing)?)?;
        let ttl = self.client.describe_time_to_live().table_name(&name).send().await;
        let ttl = ttl.map_err(|failure| self.failed(table, failure))?;
        // From the moment it is asked for, expiry counts, though the service may need an hour to begin its sweeps.
        let ttl = ttl.time_to_live_description().filter(|ttl| {
            matches!(ttl.time_to_live_status(), Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling))
        });
        let ttl = ttl.and_then(|ttl| ttl.attribute_name()).map(str::to_owned);
        Ok(self.remember(TableSpec { ttl, ..spec }))
    }

    /// Remembers a table, without asking the server.
    pub(crate) fn remember(&self, spec: TableSpec) -> Arc<Table> {
        let (key, name) = (spec.name.clone(), self.name_of(&spec.name));
        let table = Arc::new(Table { name, spec, learned: Instant::now() });
        self.known.tables.write().unwrap_or_else(PoisonError::into_inner).insert(key, Arc::clone(&table));
        table
    }

    /// An error of the server about a table; one that the table is gone makes it unknown.
    pub(crate) fn failed<E>(&self, table: &str, failure: SdkError<E, HttpResponse>) -> Error
    where
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        let error = error::of(table, failure);
        if matches!(error.kind(), ErrorKind::NoTable(_)) {
            self.known.forget(table);
        }
        error
    }

    /// An error of the server about one of several tables.
    pub(crate) async fn failed_one_of<'t, E>(
        &self,
        tables: impl Iterator<Item = &'t Arc<Table>> + Clone,
        failure: SdkError<E, HttpResponse>,
    ) -> Error
    where
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        let error = error::of("", failure);
        if matches!(error.kind(), ErrorKind::NoTable(_)) {
            // The server does not say which, so each is asked for.
            for table in tables {
                if let Err(error) = self.learn(&table.spec.name).await {
                    return error;
                }
            }
            return ErrorKind::Busy.into();
        }
        error
    }
}

/// A table as the server describes it, with the indexes that can be read; its expiry is described elsewhere.
pub(crate) fn spec_of(table: &str, described: &TableDescription) -> Result<TableSpec, Error> {
    let attributes = described.attribute_definitions();
    let mut spec = TableSpec::new(table, schema_of(table, described.key_schema(), attributes)?);
    for index in described.global_secondary_indexes() {
        let readable = matches!(index.index_status(), Some(IndexStatus::Active | IndexStatus::Updating));
        // An index without a sort attribute is none of the port's.
        if let (true, Some(name), Ok(key)) =
            (readable, index.index_name(), schema_of(table, index.key_schema(), attributes))
        {
            spec.indexes.push(IndexSpec { name: name.to_owned(), key });
        }
    }
    Ok(spec)
}

/// The key of a table or of an index.
pub(crate) fn schema_of(
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
