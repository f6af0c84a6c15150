//! Idempotency keys: a change set that happens once, however often it is sent.
//!
//! A set with a key of the caller's choice writes an item with its results, in the same write. The same request with the same key
//! gets those results and writes nothing; another request with the same key is refused.

use std::{collections::BTreeMap, sync::Arc};

use nagaya_store::{ComparisonOp, Condition, Item, Key, Operand, Path, Value, Write};

use crate::{Error, ErrorKind, Record, compiled::CompiledEntity, session::Session};

/// The item that keeps the results of a change set.
#[derive(Debug)]
pub(super) struct IdempotencyRecord<'s> {
    /// The entity whose table it is in.
    compiled: &'s CompiledEntity,
    key: Key,
    /// The hash of the request: tells a repetition from another request under the same key.
    request: &'s str,
}

const REQUEST: &str = "%request";
const RESULTS: &str = "%results";
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
        // The key belongs to one user: others who choose the same key learn nothing about it.
        let mut hasher = blake3::Hasher::new();
        for part in [tenant.unwrap_or_default(), &session.principal.user, key] {
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
        let expires = kept.get(EXPIRES).and_then(Value::as_number).and_then(|number| i64::try_from(number).ok());
        if expires.is_none_or(|expires| expires <= state.settings.clock.seconds()) {
            return Ok(None);
        }
        if kept.get(REQUEST).and_then(Value::as_str) != Some(self.request) {
            return Err(ErrorKind::IdempotencyKeyReused.into());
        }
        let Some(Value::List(results)) = kept.get(RESULTS) else { return Ok(None) };
        Ok(results.iter().map(|result| decode_result(session, result)).collect())
    }

    /// The write that keeps the results of the set, unless another request has used the key since.
    pub(super) fn write(&self, session: &Session, results: &[Option<(Arc<CompiledEntity>, Item)>]) -> Write {
        let result = |result: &Option<(Arc<CompiledEntity>, Item)>| match result {
            None => Value::Null,
            Some((compiled, item)) => {
                let item = item.iter().map(|(name, value)| (name.to_owned(), value.clone())).collect();
                let entity = ("entity".to_owned(), Value::from(compiled.name()));
                Value::Map(BTreeMap::from([entity, ("item".to_owned(), Value::Map(item))]))
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

/// A kept result; `None` if the design no longer has its entity.
fn decode_result(session: &Session, result: &Value) -> Option<Option<Record>> {
    let Value::Map(result) = result else { return Some(None) };
    let compiled = session.state.compiled(result.get("entity")?.as_str()?).ok()?;
    let Value::Map(attributes) = result.get("item")? else { return None };
    let item: Item = attributes.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    // A kept result is checked against the wall like every item that the store returns.
    session.scope.admits(compiled, &item).then(|| Some(Record::new(Arc::clone(compiled), item)))
}
