//! Notes: what a room on top of this layer keeps beside the items, such as how far it has come.
//!
//! A note lies in the table of an entity, under a key that no item can have, and is written in the same set as the items that
//! it is about. It knows its revision: who writes one says which he has read, and one who was overtaken is told.

use nagaya_store::{Condition, Item, Key, Position, Query, Sort, Value, Write};
use serde_json::{Map, Value as Json};

use crate::{Error, blueprint::Blueprint, room::Room, values};

/// Something that is kept beside the items of an entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// What it is called.
    pub name: String,
    /// What it says.
    pub fields: Map<String, Json>,
    revision: i64,
}

/// Whose a note is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeper {
    /// The tenant's that the handle is for: it lies among the tenant's items.
    Tenant,
    /// The house's: all of them lie together.
    House,
}

/// What is written about a note.
#[derive(Debug, Clone)]
pub(crate) struct Noted {
    pub(crate) keeper: Keeper,
    pub(crate) name: String,
    /// What it says from now on; `None`: it goes.
    pub(crate) fields: Option<Map<String, Json>>,
    /// The revision that was read; 0: there was none.
    pub(crate) read: i64,
}

const REVISION: &str = "%revision";
const FIELDS: &str = "%fields";
const PREFIX: &str = "%note-";
/// The partition of the house's notes.
const HOUSE: &str = "%notes";

impl Note {
    /// Its revision; the first is 1.
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// A text that it says.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name)?.as_str()
    }

    /// A number that it says.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.fields.get(name)?.as_u64()
    }

    fn read(blueprint: &Blueprint, item: &Item) -> Option<Self> {
        let name = item.get(&blueprint.key.sort)?.as_str()?.strip_prefix(PREFIX)?.to_owned();
        let revision = item.get(REVISION)?.as_number()?.try_into().ok()?;
        let Json::Object(fields) = values::to_json(item.get(FIELDS)?) else { return None };
        Some(Note { name, fields, revision })
    }
}

impl Room {
    fn note_key(&self, blueprint: &Blueprint, keeper: Keeper, name: &str) -> Key {
        let partition = match (keeper, self.scope.tenant()) {
            (Keeper::Tenant, Some(tenant)) => {
                // Best among the tenant's items: there also stores whose sets know one partition write them together.
                blueprint.partition_of(tenant).unwrap_or_else(|| format!("%notes-{tenant}"))
            }
            _ => HOUSE.to_owned(),
        };
        Key::new(partition, format!("{PREFIX}{name}"))
    }

    pub(crate) async fn note_called(&self, entity: &str, keeper: Keeper, name: &str) -> Result<Option<Note>, Error> {
        let blueprint = self.house.blueprint(entity)?;
        let found = self.house.store.get(&blueprint.table, &self.note_key(blueprint, keeper, name)).await?;
        Ok(found.and_then(|item| Note::read(blueprint, &item)))
    }

    /// A keeper's notes whose names start with this, in order, after one of them.
    pub(crate) async fn notes(
        &self,
        entity: &str,
        keeper: Keeper,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Note>, Error> {
        let blueprint = self.house.blueprint(entity)?;
        let partition = self.note_key(blueprint, keeper, prefix).partition;
        let sort = Sort::BeginsWith(format!("{PREFIX}{prefix}").into());
        let mut query = Query::table(&blueprint.table, partition).sort(sort).limit(limit);
        query.after = after.map(|name| Position { key: self.note_key(blueprint, keeper, name), index_key: None });
        let page = self.house.store.query(query).await?;
        Ok(page.items.iter().filter_map(|item| Note::read(blueprint, item)).collect())
    }

    /// The write of a note, if it is still what was read.
    pub(crate) fn note_write(&self, blueprint: &Blueprint, noted: &Noted) -> Write {
        let key = self.note_key(blueprint, noted.keeper, &noted.name);
        let as_read = match noted.read {
            0 => Condition::absent(blueprint.key.partition.as_str()),
            read => Condition::equal(REVISION, read),
        };
        let Some(fields) = &noted.fields else {
            return Write::delete(&blueprint.table, key).when(as_read);
        };
        let item = Item::new()
            .with(&blueprint.key.partition, Value::from(key.partition))
            .with(&blueprint.key.sort, Value::from(key.sort))
            .with(REVISION, noted.read.saturating_add(1))
            .with(FIELDS, values::to_store(Json::Object(fields.clone())));
        Write::put(&blueprint.table, item).when(as_read)
    }
}
