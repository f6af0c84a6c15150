//! What a handle can do: the common part of tenants and operators.

use std::sync::Arc;

use nagaya_design::{Fields, Precision, Scalar, Type};
use nagaya_store::{Item, Key};

use crate::{
    Error, Principal, Record,
    blueprint::Blueprint,
    guard::{Intent, Scope},
    house::House,
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
        let at = entity.id_fields().into_iter().position(|field| field == path)?;
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
        let found = self.house.blueprint(entity)?;
        self.scope.enters(found, intent)?;
        Ok(found)
    }

    /// The key of an id; `None` when no item can have it.
    pub(crate) fn key(&self, blueprint: &Blueprint, id: &[&str]) -> Option<Key> {
        let entity = &blueprint.entity;
        let fields = entity.id_fields();
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
        let Some(key) = self.key(blueprint, id) else { return Ok(None) };
        let found = self.house.store.get(&blueprint.table, &key).await?;
        Ok(self.admitted(blueprint, found)?.map(|item| (key, item)))
    }

    /// A stored item, if it is this handle's to see.
    pub(crate) fn admitted(&self, blueprint: &Blueprint, found: Option<Item>) -> Result<Option<Item>, Error> {
        let Some(item) = found else { return Ok(None) };
        // In a partition that tenants share anybody can name a key: not yours is not there.
        if blueprint.entity.wall == nagaya_design::Wall::Attribute && !self.scope.may_change(blueprint, &item) {
            return Ok(None);
        }
        if !self.scope.admits(blueprint, &item) {
            return Err(self.house.breach(blueprint));
        }
        Ok(Some(item).filter(|item| !blueprint.is_deleted(item)))
    }

    pub(crate) async fn get(&self, entity: &str, id: &[&str]) -> Result<Record, Error> {
        let blueprint = self.blueprint(entity, Intent::Read)?;
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
            let item = self.admitted(blueprint, item)?;
            records.push(item.map(|item| Record::new(Arc::clone(blueprint), item)));
        }
        Ok(records)
    }
}
