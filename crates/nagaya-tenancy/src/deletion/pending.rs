//! The note of a deletion that is under way: an item of the layer's own, in the table of what is deleted.

use std::sync::Arc;

use nagaya_store::{Condition, Item, Key, Value, Write};

use crate::{Error, Principal, blueprint::Blueprint, guard::Scope, house::House, room::Room};

/// The partition of the notes in each table. Escapes have capitals, so no key of an entity is like it.
pub(super) const PARTITION: &str = "%deleting";
/// The attribute with what comes next.
pub(super) const PHASE: &str = "%phase";
/// Milliseconds after which a note whose item has no mark is no longer waited for.
pub(super) const ABANDONED: i64 = 60_000;

/// What comes next in a deletion. It starts with marking, and changes once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Marking what goes, and looking for what forbids it.
    Marking,
    /// Removing everything.
    Removing,
    /// Taking back the marks.
    Returning,
}

impl Phase {
    pub(super) fn name(self) -> &'static str {
        match self {
            Phase::Marking => "marking",
            Phase::Removing => "removing",
            Phase::Returning => "returning",
        }
    }

    /// A note is there and says so.
    pub(super) fn is_noted(self) -> Condition {
        Condition::equal(PHASE, self.name())
    }
}

/// A note.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) token: String,
    pub(super) entity: String,
    pub(super) key: Key,
    pub(super) phase: Phase,
    /// When it was made, in milliseconds since 1970.
    pub(super) at: i64,
    scope: Scope,
    principal: Principal,
    reason: Option<String>,
}

/// The key of a deletion's note.
pub(super) fn key(token: &str) -> Key {
    Key::new(PARTITION, token)
}

impl Pending {
    pub(super) fn new(room: &Room, blueprint: &Blueprint, key: &Key, token: &str) -> Self {
        Pending {
            token: token.to_owned(),
            entity: blueprint.name().to_owned(),
            key: key.clone(),
            phase: Phase::Marking,
            at: 0,
            scope: room.scope.clone(),
            principal: room.principal.clone(),
            reason: room.reason.clone(),
        }
    }

    /// The write that makes the note.
    pub(super) fn put(&self, blueprint: &Blueprint, now: i64) -> Write {
        let text = |value: &nagaya_store::KeyValue| Value::from(value.clone());
        let mut item = Item::new()
            .with(&blueprint.key.partition, PARTITION)
            .with(&blueprint.key.sort, self.token.as_str())
            .with("%entity", self.entity.as_str())
            .with("%key", Value::List(vec![text(&self.key.partition), text(&self.key.sort)]))
            .with("%at", now)
            .with("%user", &*self.principal.user)
            .with(PHASE, self.phase.name());
        let optional = [
            ("%tenant", self.scope.tenant()),
            ("%request", self.principal.request.as_deref()),
            ("%address", self.principal.address.as_deref()),
            ("%reason", self.reason.as_deref()),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                item.insert(name, value);
            }
        }
        let free = Condition::absent(blueprint.key.partition.as_str());
        Write::put(&blueprint.table, item).when(free)
    }

    /// The note of a deletion in an entity's table.
    pub(super) async fn get(house: &House, blueprint: &Blueprint, token: &str) -> Result<Option<Self>, Error> {
        let found = house.store.get(&blueprint.table, &key(token)).await?;
        Ok(found.and_then(|item| Pending::read(&item, token)))
    }

    /// A note that was read; `None` if it is not one.
    pub(super) fn read(item: &Item, token: &str) -> Option<Self> {
        let text = |name: &str| item.get(name).and_then(Value::as_str);
        let shared = |name: &str| text(name).map(Arc::<str>::from);
        let Some(Value::List(key)) = item.get("%key") else { return None };
        let [Value::String(partition), Value::String(sort)] = key.as_slice() else { return None };
        let phase = text(PHASE)?;
        let phase =
            [Phase::Marking, Phase::Removing, Phase::Returning].into_iter().find(|each| each.name() == phase)?;
        let tenant = shared("%tenant");
        let principal = Principal {
            request: shared("%request"),
            address: shared("%address"),
            ..Principal::new(tenant.clone().unwrap_or_default(), text("%user")?)
        };
        Some(Pending {
            token: token.to_owned(),
            entity: text("%entity")?.to_owned(),
            key: Key::new(partition.as_str(), sort.as_str()),
            phase,
            at: item.get("%at")?.as_number()?.try_into().ok()?,
            scope: tenant.map_or(Scope::Operator, Scope::Tenant),
            principal,
            reason: text("%reason").map(str::to_owned),
        })
    }

    /// The reach of the one who began.
    pub(super) fn room(&self, house: &Arc<House>) -> Room {
        Room {
            house: Arc::clone(house),
            scope: self.scope.clone(),
            principal: self.principal.clone(),
            reason: self.reason.clone(),
        }
    }
}
