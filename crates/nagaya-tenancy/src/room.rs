//! What a handle can do: the common part of tenants and operators.

use std::sync::Arc;

use nagaya_design::{Fields, Precision, Scalar, Type};
use nagaya_store::{Item, Key, Value};

use crate::{
    Error, ErrorKind, Principal, Record, audit,
    blueprint::Blueprint,
    guard::{Intent, Scope},
    house::House,
    values,
};

/// A handle's reach into the house.
#[derive(Debug, Clone)]
pub(crate) struct Room {
    pub(crate) house: Arc<House>,
    pub(crate) scope: Scope,
    pub(crate) principal: Principal,
    /// Why an operator acts.
    pub(crate) reason: Option<String>,
}

/// The values of a key, by the names of its fields.
struct Named<'n> {
    blueprint: &'n Blueprint,
    tenant: Option<&'n str>,
    id: &'n [&'n str],
}

impl Fields for Named<'_> {
    fn scalar(&self, path: &str) -> Option<Scalar<'_>> {
        let entity = &self.blueprint.entity;
        if entity.implied_tenant(entity.wall) == Some(path) {
            return self.tenant.map(Scalar::Text);
        }
        let at = self.blueprint.id_fields.iter().position(|field| field == path)?;
        let text = *self.id.get(at)?;
        match entity.field(path)?.kind {
            Type::Integer | Type::Timestamp(Precision::Epoch) => text.parse().ok().map(Scalar::Integer),
            Type::Boolean => text.parse().ok().map(Scalar::Boolean),
            _ => Some(Scalar::Text(text)),
        }
    }
}

impl Room {
    pub(crate) fn blueprint(&self, entity: &str, intent: Intent) -> Result<&Arc<Blueprint>, Error> {
        self.is_reasoned()?;
        let found = self.house.blueprint(entity)?;
        self.scope.enters(found, intent)?;
        Ok(found)
    }

    /// An operator states a reason.
    pub(crate) fn is_reasoned(&self) -> Result<(), Error> {
        match &self.reason {
            Some(reason) if reason.trim().is_empty() => Err(ErrorKind::NoReason.into()),
            _ => Ok(()),
        }
    }

    /// The key of an id; `None` when no item can have it.
    pub(crate) fn key(&self, blueprint: &Blueprint, id: &[&str]) -> Option<Key> {
        let entity = &blueprint.entity;
        let fields = &blueprint.id_fields;
        if fields.len() != id.len() {
            return None;
        }
        let named = Named { blueprint, tenant: self.scope.tenant(), id };
        for (path, text) in fields.iter().zip(id) {
            // A text that its field would not take is nobody's id, whatever key it would give.
            let value = match named.scalar(path)? {
                Scalar::Text(text) => text.into(),
                Scalar::Integer(number) => number.into(),
                Scalar::Boolean(truth) => truth.into(),
            };
            let mut problems = Vec::new();
            entity.field(path)?.check(&value, path, &mut problems);
            if !problems.is_empty() || text.is_empty() {
                return None;
            }
        }
        let key = entity.key.render(&named).ok()?;
        Some(Key::new(key.partition, key.sort))
    }

    /// The stored item of an id, if it is there and this handle's to see.
    pub(crate) async fn find(&self, blueprint: &Arc<Blueprint>, id: &[&str]) -> Result<Option<(Key, Item)>, Error> {
        Ok(self.stored(blueprint, id).await?.filter(|(_, item)| !blueprint.is_deleted(item)))
    }

    /// The stored item of an id, also if it is deleted but kept or about to go.
    pub(crate) async fn stored(&self, blueprint: &Arc<Blueprint>, id: &[&str]) -> Result<Option<(Key, Item)>, Error> {
        let Some(key) = self.key(blueprint, id) else { return Ok(None) };
        let found = self.house.store.get(&blueprint.table, &key).await?;
        Ok(self.admitted(blueprint, found)?.map(|item| (key, item)))
    }

    /// A stored item, if it is on this side of the wall.
    pub(crate) fn admitted(&self, blueprint: &Blueprint, found: Option<Item>) -> Result<Option<Item>, Error> {
        let Some(item) = found else { return Ok(None) };
        // In a partition that tenants share anybody can name a key: not yours is not there.
        if blueprint.entity.wall == nagaya_design::Wall::Attribute && !self.scope.may_change(blueprint, &item) {
            return Ok(None);
        }
        if !self.scope.admits(blueprint, &item) {
            return Err(self.house.breach(blueprint));
        }
        Ok(Some(item))
    }

    pub(crate) async fn get(&self, entity: &str, id: &[&str]) -> Result<Record, Error> {
        let blueprint = self.blueprint(entity, Intent::Read)?;
        if self.reason.is_some() {
            self.note_reading("read", [(blueprint, named(blueprint, id))]).await?;
        }
        match self.find(blueprint, id).await? {
            Some((_, item)) => Ok(Record::new(Arc::clone(blueprint), item)),
            None => Err(Error::not_found(entity)),
        }
    }

    pub(crate) async fn get_many(&self, wanted: &[(&str, &[&str])]) -> Result<Vec<Option<Record>>, Error> {
        let mut asked = Vec::with_capacity(wanted.len());
        for (entity, id) in wanted {
            let blueprint = self.blueprint(entity, Intent::Read)?;
            asked.push((blueprint, self.key(blueprint, id)));
        }
        if self.reason.is_some() {
            let read = wanted.iter().zip(&asked).map(|((_, id), (blueprint, _))| (*blueprint, named(blueprint, id)));
            self.note_reading("read", read.collect::<Vec<_>>()).await?;
        }
        let keys: Vec<_> =
            asked.iter().filter_map(|(blueprint, key)| Some((blueprint.table.clone(), key.clone()?))).collect();
        let mut found = Vec::with_capacity(keys.len());
        for chunk in keys.chunks(nagaya_store::limits::MAX_BATCH_GET) {
            found.extend(self.house.store.batch_get(chunk).await?);
        }
        let mut found = found.into_iter();
        let mut records = Vec::with_capacity(asked.len());
        for (blueprint, key) in asked {
            let item = key.and_then(|_| found.next()).flatten();
            let item = self.admitted(blueprint, item)?.filter(|item| !blueprint.is_deleted(item));
            records.push(item.map(|item| Record::new(Arc::clone(blueprint), item)));
        }
        Ok(records)
    }

    /// Whether a secret of an item passes a test; `false` also where there is none.
    pub(crate) async fn verify_secret(
        &self,
        entity: &str,
        id: &[&str],
        field: &str,
        test: impl FnOnce(&str) -> bool,
    ) -> Result<bool, Error> {
        let blueprint = self.blueprint(entity, Intent::Read)?;
        if !blueprint.entity.is_secret(field) {
            return Err(Error::problem(field, "is not a secret"));
        }
        if self.reason.is_some() {
            self.note_reading("verify", [(blueprint, named(blueprint, id))]).await?;
        }
        let (_, item) = self.find(blueprint, id).await?.ok_or_else(|| Error::not_found(entity))?;
        // What all may read only its owner may use the secrets of.
        if !self.scope.may_change(blueprint, &item) {
            return Err(Error::not_found(entity));
        }
        Ok(values::lookup(&item, field).and_then(Value::as_str).is_some_and(test))
    }
}

/// What an id names, as the audit has it.
fn named(blueprint: &Blueprint, id: &[&str]) -> String {
    audit::target(blueprint, &id.iter().map(|&part| part.to_owned()).collect::<Vec<_>>())
}
