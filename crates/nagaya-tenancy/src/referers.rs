//! What refers to an item, found by the ways back that the design guarantees.

use std::sync::Arc;

use nagaya_design::{Design, OnDelete, Way};
use nagaya_store::{Condition, Item, Key, Position};

use crate::{Error, List, blueprint::Blueprint, house::House, room::Room, values};

/// A field of an entity that refers to another entity, and how its items are found.
#[derive(Debug)]
pub(crate) struct Referer {
    pub(crate) entity: String,
    pub(crate) cascade: bool,
    field: String,
    /// The access pattern that finds them, and its parameter; `None`: the key of the only one is known.
    by: Option<(String, Option<String>)>,
    /// Whether an index is asked.
    pub(crate) by_index: bool,
}

/// Items read at once.
const PAGE: usize = 100;

/// Items that refer to another one, and where the next page goes on.
pub(crate) struct Children {
    pub(crate) items: Vec<(Key, Item)>,
    pub(crate) next: Option<Position>,
}

/// What refers to an entity.
pub(crate) fn referers(design: &Design, entity: &nagaya_design::Entity) -> Vec<Referer> {
    let prepare = |referer: nagaya_design::Referer<'_>| {
        let (by, by_index) = match &referer.way {
            Way::Key => (None, false),
            Way::Access { access, parameter } => {
                (Some((access.name.clone(), parameter.map(str::to_owned))), access.mapping.is_some())
            }
        };
        Referer {
            entity: referer.entity.name.clone(),
            cascade: referer.on_delete == OnDelete::Cascade,
            field: referer.field.name.clone(),
            by,
            by_index,
        }
    };
    design.referers(entity).into_iter().map(prepare).collect()
}

impl Referer {
    pub(crate) fn blueprint<'h>(&self, house: &'h House) -> Result<&'h Arc<Blueprint>, Error> {
        house.blueprint(&self.entity)
    }

    /// An item still refers to what it referred to when it was read.
    pub(crate) fn still_refers(&self, item: &Item) -> Option<Condition> {
        let value = item.get(&self.field)?;
        Some(Condition::equal(self.field.as_str(), value.clone()))
    }
}

impl Room {
    /// A page of the living items that refer to one by this field. Those that are about to go are among them.
    pub(crate) async fn children(
        &self,
        referer: &Referer,
        target: &Blueprint,
        item: &Item,
        after: Option<Position>,
    ) -> Result<Children, Error> {
        let child = referer.blueprint(&self.house)?;
        let none = Children { items: Vec::new(), next: None };
        let Some(id) = self.referred_as(target, item) else { return Ok(none) };
        let (found, next) = match &referer.by {
            None => {
                let Some(key) = self.key(child, &[&id]) else { return Ok(none) };
                (self.house.store.get(&child.table, &key).await?.into_iter().collect(), None)
            }
            Some((access, parameter)) => {
                let design = &self.house.design;
                let list = List::by(access);
                let list = if let Some(parameter) = parameter { list.with(parameter, &id) } else { list };
                let Some(access) = design.access(access) else { return Ok(none) };
                let Some(mut query) = self.query(access, child, &list)? else { return Ok(none) };
                // An index that all tenants share is asked for the items of this one.
                if let (Some(tenant), Some(field)) = (self.scope.tenant(), &child.entity.tenant) {
                    let own = Condition::equal(values::path(field), tenant);
                    query.filter = Some(query.filter.map_or(own.clone(), |filter| filter.and(own)));
                }
                query.limit = Some(PAGE);
                query.after = after;
                let page = self.house.store.query(query).await?;
                (self.present(referer, child, page.items).await?, page.next)
            }
        };
        let mut items = Vec::with_capacity(found.len());
        for item in found.into_iter().filter(|item| !child.is_layers_own(item)) {
            if !self.scope.admits(child, &item) {
                return Err(self.house.breach(child));
            }
            let refers = item.get(&referer.field).and_then(values::to_text).as_ref() == Some(&id)
                || child.entity.tenant.as_ref() == Some(&referer.field);
            if refers
                && !child.is_soft_deleted(&item)
                && let Some(key) = child.stored_key(&item)
            {
                items.push((key, item));
            }
        }
        Ok(Children { items, next })
    }

    /// Items of an index as they are in their table, where the one may lag behind the other.
    async fn present(&self, referer: &Referer, child: &Blueprint, found: Vec<Item>) -> Result<Vec<Item>, Error> {
        if !referer.by_index || self.house.store.capabilities().consistent_indexes {
            return Ok(found);
        }
        let keys = found.iter().filter_map(|item| Some((child.table.clone(), child.stored_key(item)?)));
        let keys: Vec<_> = keys.collect();
        let mut present = Vec::with_capacity(keys.len());
        for chunk in keys.chunks(nagaya_store::limits::MAX_BATCH_GET) {
            present.extend(self.house.store.batch_get(chunk).await?.into_iter().flatten());
        }
        Ok(present)
    }

    /// What the items that refer to one have in their field.
    fn referred_as(&self, target: &Blueprint, item: &Item) -> Option<String> {
        let mut id = target.id_of(item);
        match id.len() {
            0 => target.entity.tenant.as_deref().and_then(|field| values::to_text(values::lookup(item, field)?)),
            _ => Some(id.swap_remove(0)),
        }
    }
}
