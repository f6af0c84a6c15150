//! The record of a deletion under way: an item of the layer's own, in the table of the deleted item.

use std::sync::Arc;

use nagaya_store::{Condition, Item, Key, KeyValue, Value, Write};

use crate::{Error, Principal, compiled::CompiledEntity, scope::Scope, session::Session, state::TenancyState, values};

/// The partition of the records in each table. Escapes have capitals, so no key of an entity is like it.
pub(super) const PARTITION: &str = "%deleting";
/// The attribute with the phase.
pub(super) const PHASE: &str = "%phase";
/// Milliseconds after which a record whose item has no mark is abandoned.
pub(super) const ABANDONED: i64 = 60_000;

/// The phase of a deletion. It starts with marking, and changes once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Items are marked, and checked for what forbids the deletion.
    Marking,
    /// Everything is deleted.
    Removing,
    /// The marks are removed.
    Restoring,
}

impl Phase {
    pub(super) fn name(self) -> &'static str {
        match self {
            Phase::Marking => "marking",
            Phase::Removing => "removing",
            Phase::Restoring => "returning",
        }
    }

    /// The record exists and is in this phase.
    pub(super) fn condition(self) -> Condition {
        Condition::equal(PHASE, self.name())
    }
}

/// The record of a deletion.
#[derive(Debug)]
pub(super) struct DeletionRecord {
    pub(super) token: String,
    pub(super) entity: String,
    pub(super) key: Key,
    pub(super) phase: Phase,
    /// When it was written, in milliseconds since 1970.
    pub(super) at: i64,
    scope: Scope,
    principal: Principal,
    reason: Option<String>,
}

/// The key of a deletion's record.
pub(super) fn key(token: &str) -> Key {
    Key::new(PARTITION, token)
}

impl DeletionRecord {
    pub(super) fn new(session: &Session, compiled: &CompiledEntity, key: &Key, token: &str) -> Self {
        DeletionRecord {
            token: token.to_owned(),
            entity: compiled.name().to_owned(),
            key: key.clone(),
            phase: Phase::Marking,
            at: session.state.settings.clock.millis(),
            scope: session.scope.clone(),
            principal: session.principal.clone(),
            reason: session.reason.clone(),
        }
    }

    /// The write that inserts the record.
    pub(super) fn insert(&self, compiled: &CompiledEntity) -> Write {
        let text = |value: &KeyValue| Value::from(value.clone());
        let mut item = compiled
            .internal_item(key(&self.token))
            .with("%entity", self.entity.as_str())
            .with("%key", Value::List(vec![text(&self.key.partition), text(&self.key.sort)]))
            .with("%at", self.at)
            .with("%user", &*self.principal.user)
            .with(PHASE, self.phase.name());
        let optional = [
            ("%tenant", self.scope.tenant()),
            ("%issuer", self.principal.issuer.as_deref()),
            ("%request", self.principal.request.as_deref()),
            ("%address", self.principal.address.as_deref()),
            ("%reason", self.reason.as_deref()),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                item.insert(name, value);
            }
        }
        compiled.insert(item)
    }

    /// The record of a deletion in an entity's table.
    pub(super) async fn get(
        state: &TenancyState,
        compiled: &CompiledEntity,
        token: &str,
    ) -> Result<Option<Self>, Error> {
        let found = state.store.get(&compiled.table, &key(token)).await?;
        Ok(found.and_then(|item| DeletionRecord::from_item(&item, token)))
    }

    /// A record that was read; `None` if the item is none.
    pub(super) fn from_item(item: &Item, token: &str) -> Option<Self> {
        let text = |name: &str| item.get(name).and_then(Value::as_str);
        let shared = |name: &str| text(name).map(Arc::<str>::from);
        let Some(Value::List(key)) = item.get("%key") else { return None };
        let [Value::String(partition), Value::String(sort)] = key.as_slice() else { return None };
        let phase = text(PHASE)?;
        let phase =
            [Phase::Marking, Phase::Removing, Phase::Restoring].into_iter().find(|each| each.name() == phase)?;
        let tenant = shared("%tenant");
        let principal = Principal {
            issuer: shared("%issuer"),
            request: shared("%request"),
            address: shared("%address"),
            ..Principal::new(tenant.clone().unwrap_or_default(), text("%user")?)
        };
        Some(DeletionRecord {
            token: token.to_owned(),
            entity: text("%entity")?.to_owned(),
            key: Key::new(partition.as_str(), sort.as_str()),
            phase,
            at: values::integer_in(item, "%at")?,
            scope: tenant.map_or(Scope::Operator, Scope::Tenant),
            principal,
            reason: text("%reason").map(str::to_owned),
        })
    }

    /// The session of the caller who began the deletion.
    pub(super) fn session(&self, state: &Arc<TenancyState>) -> Session {
        // What the caller may delete was checked when the deletion began.
        let session = Session::new(Arc::clone(state), self.scope.clone(), self.principal.clone());
        Session { reason: self.reason.clone(), ..session }
    }
}
