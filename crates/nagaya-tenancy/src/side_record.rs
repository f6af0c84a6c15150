//! Side records: what code above this layer keeps beside the items, such as the position of a subscription.
//!
//! A side record is in the table of an entity, under a key that no item can have, and is written in the same set as the items
//! that it is about. It has a revision: a writer names the one that it has read, and fails if it has changed since.

use nagaya_store::{Condition, Item, Key, PagePosition, Query, SortCondition, Write};
use serde_json::{Map, Value as Json};

use crate::{Error, compiled::CompiledEntity, session::Session, values};

/// A record beside the items of an entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SideRecord {
    /// Its name.
    pub name: String,
    /// Its fields.
    pub fields: Map<String, Json>,
    revision: i64,
}

/// Whose a side record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordOwner {
    /// The handle's tenant: the record is among the tenant's items.
    Tenant,
    /// The system: all such records of a table are in one partition.
    System,
}

/// A change of a side record.
#[derive(Debug, Clone)]
pub(crate) struct SideRecordChange {
    owner: RecordOwner,
    name: String,
    /// The new fields; `None`: the record is deleted.
    fields: Option<Map<String, Json>>,
    /// The revision that was read; 0: there was none.
    read: i64,
}

const REVISION: &str = "%revision";
const FIELDS: &str = "%fields";
const PREFIX: &str = "%note-";
/// The partition of the system's records.
const SYSTEM: &str = "%notes";

impl SideRecord {
    /// Its revision; the first is 1.
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// A text field.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name)?.as_str()
    }

    /// A field that holds a whole number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.fields.get(name)?.as_u64()
    }

    fn from_item(compiled: &CompiledEntity, item: &Item) -> Option<Self> {
        let name = item.get(&compiled.key.sort)?.as_str()?.strip_prefix(PREFIX)?.to_owned();
        let revision = item.get(REVISION)?.as_number()?.try_into().ok()?;
        let Json::Object(fields) = values::to_json(item.get(FIELDS)?) else { return None };
        Some(SideRecord { name, fields, revision })
    }
}

fn key(session: &Session, compiled: &CompiledEntity, owner: RecordOwner, name: &str) -> Key {
    let partition = match (owner, session.scope.tenant()) {
        (RecordOwner::Tenant, Some(tenant)) => {
            // Among the tenant's items where possible: then also stores whose sets have one partition write both together.
            compiled.tenant_partition(tenant).unwrap_or_else(|| format!("%notes-{tenant}"))
        }
        _ => SYSTEM.to_owned(),
    };
    Key::new(partition, format!("{PREFIX}{name}"))
}

impl Session {
    pub(crate) async fn side_record(
        &self,
        entity: &str,
        owner: RecordOwner,
        name: &str,
    ) -> Result<Option<SideRecord>, Error> {
        self.require_reason()?;
        let compiled = self.state.compiled(entity)?;
        let found = self.state.store.get(&compiled.table, &key(self, compiled, owner, name)).await?;
        Ok(found.and_then(|item| SideRecord::from_item(compiled, &item)))
    }

    /// An owner's side records with these names, in the order of the names.
    pub(crate) async fn side_records_named(
        &self,
        entity: &str,
        owner: RecordOwner,
        names: &[String],
    ) -> Result<Vec<Option<SideRecord>>, Error> {
        self.require_reason()?;
        let compiled = self.state.compiled(entity)?;
        let keys: Vec<_> =
            names.iter().map(|name| (compiled.table.clone(), key(self, compiled, owner, name))).collect();
        let found = self.get_stored(&keys).await?;
        Ok(found.into_iter().map(|item| SideRecord::from_item(compiled, &item?)).collect())
    }

    /// An owner's side records whose names start with this, in order, after one of them.
    pub(crate) async fn side_records(
        &self,
        entity: &str,
        owner: RecordOwner,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<SideRecord>, Error> {
        self.require_reason()?;
        let compiled = self.state.compiled(entity)?;
        let partition = key(self, compiled, owner, prefix).partition;
        let sort = SortCondition::BeginsWith(format!("{PREFIX}{prefix}").into());
        let mut query = Query::table(&compiled.table, partition).sort(sort).limit(limit);
        query.after = after.map(|name| PagePosition { key: key(self, compiled, owner, name), index_key: None });
        let page = self.state.store.query(query).await?;
        Ok(page.items.iter().filter_map(|item| SideRecord::from_item(compiled, item)).collect())
    }
}

impl SideRecordChange {
    pub(crate) fn new(
        owner: RecordOwner,
        name: &str,
        fields: Option<Map<String, Json>>,
        read: Option<&SideRecord>,
    ) -> Self {
        SideRecordChange { owner, name: name.to_owned(), fields, read: read.map_or(0, SideRecord::revision) }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The write of the record, if it is still the one that was read.
    pub(crate) fn write(&self, session: &Session, compiled: &CompiledEntity) -> Write {
        let key = key(session, compiled, self.owner, &self.name);
        let as_read = match self.read {
            0 => compiled.is_absent(),
            read => Condition::equal(REVISION, read),
        };
        let write = match &self.fields {
            None => Write::delete(&compiled.table, key),
            Some(fields) => {
                let item = compiled
                    .internal_item(key)
                    .with(REVISION, self.read.saturating_add(1))
                    .with(FIELDS, values::to_store(Json::Object(fields.clone())));
                Write::put(&compiled.table, item)
            }
        };
        write.when(as_read)
    }
}
