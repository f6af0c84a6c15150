//! Changes that happen once, however often they are asked for.
//!
//! A set that names a key of the caller's choice leaves an item with its results, in the same write. Whoever comes with the
//! key again gets those results, and nothing is written; whoever comes with the key and another request is refused.

use std::collections::BTreeMap;

use nagaya_store::{Comparison, Condition, Item, Key, Operand, Path, Value, Write};

use crate::{Error, ErrorKind, Record, blueprint::Blueprint, plan::Planned, room::Room};

/// What a set is known by, so that it happens once.
#[derive(Debug, Clone)]
pub(crate) struct Once {
    key: String,
    /// What tells a repetition from another request under the same key.
    request: String,
}

const REQUEST: &str = "%request";
const RESULTS: &str = "%results";
/// When it ends, also in tables in which nothing expires.
const EXPIRES: &str = "%expires";

impl Once {
    pub(crate) fn new(key: &str, request: &[u8]) -> Self {
        Once { key: key.to_owned(), request: blake3::hash(request).to_hex().to_string() }
    }
}

/// Where the results of a set are kept.
pub(crate) struct Place<'r> {
    blueprint: &'r Blueprint,
    key: Key,
}

impl Room {
    /// Where the results of a set are kept that is about items of this entity.
    pub(crate) fn place_of<'r>(&'r self, once: &Once, about: &'r Blueprint) -> Place<'r> {
        let spans = self.house.store.capabilities().cross_partition;
        // Best where it expires; beside the item if it has to be.
        let blueprint = if about.ttl.is_some() || !spans { about } else { self.house.expiring().unwrap_or(about) };
        let tenant = self.scope.tenant();
        let partition = tenant
            .and_then(|tenant| blueprint.partition_of(tenant))
            .unwrap_or_else(|| format!("%once-{}", tenant.unwrap_or_default()));
        // The key is one user's: others who choose the same get neither the results nor a hint of them.
        let mut hasher = blake3::Hasher::new();
        for part in [tenant.unwrap_or_default(), &self.principal.user, &once.key] {
            hasher.update(&(part.len() as u64).to_be_bytes()).update(part.as_bytes());
        }
        let name = hasher.finalize().to_hex();
        Place { blueprint, key: Key::new(partition, format!("%once-{}", &name[..40])) }
    }

    /// The results of a set that has happened already.
    pub(crate) async fn recall(&self, once: &Once, place: &Place<'_>) -> Result<Option<Vec<Option<Record>>>, Error> {
        let Some(kept) = self.house.store.get(&place.blueprint.table, &place.key).await? else { return Ok(None) };
        let expires = kept.get(EXPIRES).and_then(Value::as_number).and_then(|number| i64::try_from(number).ok());
        if expires.is_none_or(|expires| expires <= self.house.settings.clock.seconds()) {
            return Ok(None);
        }
        if kept.get(REQUEST).and_then(Value::as_str) != Some(once.request.as_str()) {
            return Err(ErrorKind::KeyReused.into());
        }
        let Some(Value::List(results)) = kept.get(RESULTS) else { return Ok(None) };
        let results: Option<Vec<_>> = results.iter().map(|result| self.recalled(result)).collect();
        Ok(results)
    }

    /// A kept result; `None` if the design no longer knows what it was.
    fn recalled(&self, result: &Value) -> Option<Option<Record>> {
        let Value::Map(result) = result else { return Some(None) };
        let blueprint = self.house.blueprint(result.get("entity")?.as_str()?).ok()?;
        let Value::Map(attributes) = result.get("item")? else { return None };
        let item: Item = attributes.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        // What is kept is checked like everything else that comes back.
        self.scope.admits(blueprint, &item).then(|| Some(Record::new(blueprint.clone(), item)))
    }

    /// The write that keeps the results of a set.
    pub(crate) fn remember(&self, once: &Once, place: &Place<'_>, planned: &Planned) -> Write {
        let result = |result: &Option<(std::sync::Arc<Blueprint>, Item)>| match result {
            None => Value::Null,
            Some((blueprint, item)) => {
                let item = item.iter().map(|(name, value)| (name.to_owned(), value.clone())).collect();
                let entity = ("entity".to_owned(), Value::from(blueprint.name()));
                Value::Map(BTreeMap::from([entity, ("item".to_owned(), Value::Map(item))]))
            }
        };
        let settings = &self.house.settings;
        let now = settings.clock.seconds();
        let expires = now.saturating_add(i64::try_from(settings.remember.as_secs()).unwrap_or(i64::MAX));
        let attributes = &place.blueprint.key;
        let mut kept = Item::new()
            .with(&attributes.partition, Value::from(place.key.partition.clone()))
            .with(&attributes.sort, Value::from(place.key.sort.clone()))
            .with(REQUEST, once.request.as_str())
            .with(RESULTS, Value::List(planned.results.iter().map(result).collect()))
            .with(EXPIRES, expires);
        if let Some(ttl) = &place.blueprint.ttl {
            kept.insert(ttl, expires);
        }
        let free = Condition::absent(attributes.partition.as_str());
        let over = Condition::Compare(Operand::Value(Path::attribute(EXPIRES)), Comparison::LessOrEqual, now.into());
        Write::put(&place.blueprint.table, kept).when(free.or(over))
    }
}
