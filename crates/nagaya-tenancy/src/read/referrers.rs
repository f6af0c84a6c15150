//! The items that refer to an item, found by the access patterns that the design guarantees.

use std::sync::Arc;

use nagaya_design::{Design, Entity, OnDelete, ReferrerLookup};
use nagaya_store::{Condition, Item, Key, PagePosition};

use super::List;
use crate::{Error, compiled::CompiledEntity, session::Session, state::TenancyState, values};

/// A field of an entity that refers to another entity, and how its items are found.
#[derive(Debug)]
pub(crate) struct Referrer {
    pub(crate) entity: String,
    pub(crate) cascade: bool,
    field: String,
    /// The access pattern that finds the items, and its parameter; `None`: there is one item, whose key is known.
    by: Option<(String, Option<String>)>,
    /// Whether the access pattern reads an index.
    pub(crate) by_index: bool,
}

/// Items read at once.
const PAGE: usize = 100;

/// A page of referring items.
#[derive(Default)]
pub(crate) struct ReferringItems {
    pub(crate) items: Vec<(Key, Item)>,
    pub(crate) next: Option<PagePosition>,
}

impl Referrer {
    /// The fields that refer to an entity.
    pub(crate) fn all(design: &Design, entity: &Entity) -> Vec<Self> {
        let compile = |referer: nagaya_design::ReferringField<'_>| {
            let (by, by_index) = match &referer.lookup {
                ReferrerLookup::Key => (None, false),
                ReferrerLookup::Access { access, parameter } => {
                    (Some((access.name.clone(), parameter.map(str::to_owned))), access.mapping.is_some())
                }
            };
            Referrer {
                entity: referer.entity.name.clone(),
                cascade: referer.on_delete == OnDelete::Cascade,
                field: referer.field.name.clone(),
                by,
                by_index,
            }
        };
        design.referring_fields(entity).into_iter().map(compile).collect()
    }

    pub(crate) fn compiled<'s>(&self, state: &'s TenancyState) -> Result<&'s Arc<CompiledEntity>, Error> {
        state.compiled(&self.entity)
    }

    /// The item still refers to what it referred to when it was read.
    pub(crate) fn still_refers(&self, item: &Item) -> Option<Condition> {
        let value = item.get(&self.field)?;
        Some(Condition::equal(self.field.as_str(), value.clone()))
    }
}

impl Session {
    /// A page of the items that refer to one by this field: without soft-deleted ones, with those that a deletion has marked.
    pub(crate) async fn referring_items(
        &self,
        referrer: &Referrer,
        target: &CompiledEntity,
        item: &Item,
        after: Option<PagePosition>,
    ) -> Result<ReferringItems, Error> {
        let none = ReferringItems::default();
        let child = referrer.compiled(&self.state)?;
        let Some(id) = reference_value(target, item) else { return Ok(none) };
        let (found, next) = match &referrer.by {
            None => {
                let Some(key) = child.key_of(self.scope.tenant(), &[&id]) else { return Ok(none) };
                (self.state.store.get(&child.table, &key).await?.into_iter().collect(), None)
            }
            Some((access, parameter)) => {
                let list = List::by(access);
                let list = if let Some(parameter) = parameter { list.with(parameter, &id) } else { list };
                let Some(access) = self.state.design.access_pattern(access) else { return Ok(none) };
                let Some(mut query) = self.query(access, child, &list)? else { return Ok(none) };
                // An index that all tenants share is asked for the items of this one.
                query.filter = query.filter.into_iter().chain(self.tenant_condition(child)).reduce(Condition::and);
                query.limit = Some(PAGE);
                query.after = after;
                let page = self.state.store.query(query).await?;
                (self.current_items(referrer, child, page.items).await?, page.next)
            }
        };
        let mut items = Vec::with_capacity(found.len());
        for item in found.into_iter().filter(|item| !child.is_internal(item)) {
            if !self.scope.admits(child, &item) {
                return Err(self.state.breach(child, &item));
            }
            let refers = item.get(&referrer.field).and_then(values::to_text).as_ref() == Some(&id)
                || child.entity.tenant.as_ref() == Some(&referrer.field);
            if refers
                && !child.is_soft_deleted(&item)
                && let Some(key) = child.stored_key(&item)
            {
                items.push((key, item));
            }
        }
        Ok(ReferringItems { items, next })
    }

    /// Items of an index as they are in their table, where the index may lag behind the table.
    async fn current_items(
        &self,
        referrer: &Referrer,
        child: &CompiledEntity,
        found: Vec<Item>,
    ) -> Result<Vec<Item>, Error> {
        if !referrer.by_index || self.state.store.capabilities().consistent_indexes {
            return Ok(found);
        }
        let keys = found.iter().filter_map(|item| Some((child.table.clone(), child.stored_key(item)?)));
        Ok(self.get_stored(&keys.collect::<Vec<_>>()).await?.into_iter().flatten().collect())
    }
}

/// The value of a field that refers to an item.
fn reference_value(target: &CompiledEntity, item: &Item) -> Option<String> {
    let mut id = target.id_of(item);
    match id.len() {
        0 => target.entity.tenant.as_deref().and_then(|field| values::to_text(values::lookup(item, field)?)),
        _ => Some(id.swap_remove(0)),
    }
}
