//! Reading single items by their ids.

use std::{iter::once_with, sync::Arc};

use nagaya_design::{Verb, Wall};
use nagaya_store::{Item, Key, Value, limits};

use crate::{Error, Record, compiled::CompiledEntity, scope::Intent, session::Session, values, write::target};

impl Session {
    pub(crate) async fn get(&self, entity: &str, id: &[&str]) -> Result<Record, Error> {
        let compiled = self.authorize(entity, Intent::Read)?;
        self.audit_reading("read", once_with(|| (compiled, target(compiled, id)))).await?;
        match self.find(compiled, id).await? {
            Some((_, item)) if !self.is_hidden(compiled, &item, Verb::Read) => {
                Ok(Record::new(Arc::clone(compiled), item))
            }
            _ => Err(Error::not_found(entity)),
        }
    }

    pub(crate) async fn get_many(&self, wanted: &[(&str, &[&str])]) -> Result<Vec<Option<Record>>, Error> {
        let mut asked = Vec::with_capacity(wanted.len());
        for (entity, id) in wanted {
            let compiled = self.authorize(entity, Intent::Read)?;
            asked.push((compiled, compiled.key_of(self.scope.tenant(), id)));
        }
        let read = wanted.iter().zip(&asked).map(|((_, id), (compiled, _))| (*compiled, target(compiled, id)));
        self.audit_reading("read", read).await?;
        let keys = asked.iter().filter_map(|(compiled, key)| Some((compiled.table.clone(), key.clone()?)));
        let mut found = self.get_stored(&keys.collect::<Vec<_>>()).await?.into_iter();
        let mut records = Vec::with_capacity(asked.len());
        for (compiled, key) in asked {
            let item = key.and_then(|_| found.next()).flatten();
            let item = self.admit(compiled, item)?;
            let item = item.filter(|item| !compiled.is_deleted(item) && !self.is_hidden(compiled, item, Verb::Read));
            records.push(item.map(|item| Record::new(Arc::clone(compiled), item)));
        }
        Ok(records)
    }

    /// Whether a secret of an item passes a test; `false` also if the item has no such value.
    pub(crate) async fn verify_secret(
        &self,
        entity: &str,
        id: &[&str],
        field: &str,
        test: impl FnOnce(&str) -> bool,
    ) -> Result<bool, Error> {
        let compiled = self.authorize(entity, Intent::Read)?;
        if !compiled.entity.is_secret(field) {
            return Err(Error::problem(field, "is not a secret"));
        }
        self.audit_reading("verify", once_with(|| (compiled, target(compiled, id)))).await?;
        let (_, item) = self.find(compiled, id).await?.ok_or_else(|| Error::not_found(entity))?;
        // A public item is read by all, but only its owner may use its secrets.
        if !self.scope.may_change(compiled, &item) || self.is_hidden(compiled, &item, Verb::Read) {
            return Err(Error::not_found(entity));
        }
        Ok(values::lookup(&item, field).and_then(Value::as_str).is_some_and(test))
    }

    /// The stored item of an id, if this session may see it.
    pub(crate) async fn find(&self, compiled: &CompiledEntity, id: &[&str]) -> Result<Option<(Key, Item)>, Error> {
        Ok(self.find_stored(compiled, id).await?.filter(|(_, item)| !compiled.is_deleted(item)))
    }

    /// The same, also if the item is soft-deleted or marked by a deletion.
    pub(crate) async fn find_stored(
        &self,
        compiled: &CompiledEntity,
        id: &[&str],
    ) -> Result<Option<(Key, Item)>, Error> {
        let Some(key) = compiled.key_of(self.scope.tenant(), id) else { return Ok(None) };
        let found = self.state.store.get(&compiled.table, &key).await?;
        Ok(self.admit(compiled, found)?.map(|item| (key, item)))
    }

    /// Items as they are in their tables.
    pub(crate) async fn get_stored(&self, keys: &[(String, Key)]) -> Result<Vec<Option<Item>>, Error> {
        let mut found = Vec::with_capacity(keys.len());
        for chunk in keys.chunks(limits::MAX_BATCH_GET) {
            found.extend(self.state.store.batch_get(chunk).await?);
        }
        Ok(found)
    }

    /// A stored item, if it is on this side of the wall.
    pub(crate) fn admit(&self, compiled: &CompiledEntity, found: Option<Item>) -> Result<Option<Item>, Error> {
        let Some(item) = found else { return Ok(None) };
        // In a partition that tenants share a caller can name any key: another tenant's item does not exist for this one.
        if compiled.entity.wall == Wall::Attribute && !self.scope.may_change(compiled, &item) {
            return Ok(None);
        }
        if !self.scope.admits(compiled, &item) {
            return Err(self.state.breach(compiled, &item));
        }
        Ok(Some(item))
    }
}
