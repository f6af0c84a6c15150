//! Idempotency keys: a change set that happens once, however often it is sent.
//!
//! A set with a key of the caller's choice writes an item that names its results, in the same write. The same request with the
//! same key gets those results and writes nothing; another request with the same key is refused. The item holds the keys and
//! hashes of the results and no data: what is deleted is gone here too, and what others have changed since is not shown, because
//! the caller may not be allowed to read it.

use std::{collections::BTreeMap, sync::Arc};

use nagaya_design::Verb;
use nagaya_store::{ComparisonOp, Condition, Item, Key, Operand, Path, Value, Write};

use serde_json::Value as Json;

use super::target;
use crate::{Error, ErrorKind, Principal, Record, compiled::CompiledEntity, session::Session, values};

/// The item that names the results of a change set.
#[derive(Debug)]
pub(super) struct IdempotencyRecord<'s> {
    /// The entity whose table it is in.
    compiled: &'s CompiledEntity,
    key: Key,
    /// The hash of the request: tells a repetition from another request under the same key.
    request: &'s str,
}

const REQUEST: &str = "%request";
/// The results: each an entity, the key attributes of its item, and the hash of what the caller saw of it.
const RESULTS: &str = "%results";
const ENTITY: &str = "entity";
const ITEM: &str = "item";
const SHOWN: &str = "shown";
/// When it expires, also in tables without a TTL attribute.
const EXPIRES: &str = "%expires";

/// The hash of a request.
pub(super) fn hash(request: &[u8]) -> String {
    blake3::hash(request).to_hex().to_string()
}

impl<'s> IdempotencyRecord<'s> {
    /// The record of a set whose first change is about items of this entity.
    pub(super) fn new(session: &'s Session, key: &str, request: &'s str, about: &'s CompiledEntity) -> Self {
        let state = &session.state;
        // In a table with expiry where possible; in the table of the item where a set cannot span partitions.
        let compiled = match about.ttl.is_some() || !state.cross_partition() {
            true => about,
            false => state.expiring().unwrap_or(about),
        };
        let tenant = session.scope.tenant();
        let partition = tenant
            .and_then(|tenant| compiled.tenant_partition(tenant))
            .unwrap_or_else(|| format!("%once-{}", tenant.unwrap_or_default()));
        // The key belongs to one user: others who choose the same key learn nothing about it. Two issuers may give one user id to
        // different people.
        let mut hasher = blake3::Hasher::new();
        let Principal { user, issuer, .. } = &session.principal;
        for part in [tenant.unwrap_or_default(), issuer.as_deref().unwrap_or_default(), user, key] {
            hasher.update(&(part.len() as u64).to_be_bytes()).update(part.as_bytes());
        }
        let name = hasher.finalize().to_hex();
        let key = Key::new(partition, format!("%once-{}", &name[..40]));
        IdempotencyRecord { compiled, key, request }
    }

    /// The results of the set, if it has been committed before.
    pub(super) async fn recall(&self, session: &Session) -> Result<Option<Vec<Option<Record>>>, Error> {
        let state = &session.state;
        let Some(kept) = state.store.get(&self.compiled.table, &self.key).await? else { return Ok(None) };
        let expires = values::integer_in(&kept, EXPIRES);
        if expires.is_none_or(|expires| expires <= state.settings.clock.seconds()) {
            return Ok(None);
        }
        if kept.get(REQUEST).and_then(Value::as_str) != Some(self.request) {
            return Err(ErrorKind::IdempotencyKeyReused.into());
        }
        let Some(Value::List(results)) = kept.get(RESULTS) else { return Ok(None) };
        let mut records = Vec::with_capacity(results.len());
        for result in results {
            records.push(match result {
                Value::Map(result) => Some(read_result(session, result).await?),
                _ => None,
            });
        }
        Ok(Some(records))
    }

    /// The write that names the results of the set, unless another request has used the key since.
    pub(super) fn write(&self, session: &Session, results: &[Option<(Arc<CompiledEntity>, Item)>]) -> Write {
        let result = |result: &Option<(Arc<CompiledEntity>, Item)>| match result {
            None => Value::Null,
            Some((compiled, item)) => {
                let is_key = |name: &str| [&compiled.key.partition, &compiled.key.sort].iter().any(|key| *key == name);
                let key = item.iter().filter(|(name, _)| is_key(name));
                let key = key.map(|(name, value)| (name.to_owned(), value.clone())).collect();
                let entity = (ENTITY.to_owned(), Value::from(compiled.name()));
                let shown = Record::new(Arc::clone(compiled), item.clone());
                let shown = (SHOWN.to_owned(), Value::from(shown_hash(&shown)));
                Value::Map(BTreeMap::from([entity, shown, (ITEM.to_owned(), Value::Map(key))]))
            }
        };
        let settings = &session.state.settings;
        let now = settings.clock.seconds();
        let expires = now.saturating_add(i64::try_from(settings.idempotency_retention.as_secs()).unwrap_or(i64::MAX));
        let mut kept = self
            .compiled
            .internal_item(self.key.clone())
            .with(REQUEST, self.request)
            .with(RESULTS, Value::List(results.iter().map(result).collect()))
            .with(EXPIRES, expires);
        if let Some(ttl) = &self.compiled.ttl {
            kept.insert(ttl, expires);
        }
        let expired =
            Condition::Compare(Operand::Value(Path::attribute(EXPIRES)), ComparisonOp::LessOrEqual, now.into());
        Write::put(&self.compiled.table, kept).when(self.compiled.is_absent().or(expired))
    }
}

/// The hash of what can be seen of a result.
fn shown_hash(record: &Record) -> String {
    hash(Json::Object(record.to_json()).to_string().as_bytes())
}

/// A result, if it is still what the caller was answered.
async fn read_result(session: &Session, result: &BTreeMap<String, Value>) -> Result<Record, Error> {
    let deleted = || Error::from(ErrorKind::ResultDeleted);
    let entity = result.get(ENTITY).and_then(Value::as_str).ok_or_else(deleted)?;
    let compiled = session.state.compiled(entity).map_err(|_| deleted())?;
    let Some(Value::Map(kept)) = result.get(ITEM) else { return Err(deleted()) };
    let kept: Item = kept.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    let key = compiled.stored_key(&kept).ok_or_else(deleted)?;
    let found = session.state.store.get(&compiled.table, &key).await?;
    let is_there = |item: &Item| !compiled.is_deleted(item) && !session.is_hidden(compiled, item, Verb::Read);
    let item = session.admit(compiled, found)?.filter(is_there).ok_or_else(deleted)?;
    let record = Record::new(Arc::clone(compiled), item);
    let shown = match result.get(SHOWN).and_then(Value::as_str) {
        Some(shown) => shown.to_owned(),
        // Earlier versions kept the whole item.
        None => shown_hash(&Record::new(Arc::clone(compiled), kept)),
    };
    if shown_hash(&record) == shown {
        Ok(record)
    } else {
        Err(ErrorKind::ResultChanged(target(compiled, &record.id())).into())
    }
}
