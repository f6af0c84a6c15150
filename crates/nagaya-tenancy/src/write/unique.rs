//! Unique values: a marker item for each value that is taken, written in the same set as the item that takes it.

use nagaya_design::UniqueConstraint;
use nagaya_store::{Condition, Item, Key, Value, Write};
use serde_json::Value as Json;

use super::plan::OnFailure;
use crate::{compiled::CompiledEntity, values};

/// Fields whose values no two items may have in common.
#[derive(Debug)]
pub(crate) struct Constraint {
    fields: Vec<String>,
    within_tenant: bool,
    when: Option<Condition>,
}

/// The attribute of a marker that names the item that has the value.
const OWNER: &str = "%owner";

impl Constraint {
    pub(crate) fn new(unique: &UniqueConstraint) -> Self {
        let when = unique.when.as_ref().map(values::condition);
        Constraint { fields: unique.fields.clone(), within_tenant: unique.within_tenant, when }
    }

    /// The values of an item as they were typed.
    fn values<'i>(&self, item: Option<&'i Item>) -> Option<Vec<&'i Value>> {
        self.fields.iter().map(|field| values::lookup(item?, field)).collect()
    }

    /// The key of the marker of an item's values; `None` if the constraint does not apply to the item.
    fn marker(&self, compiled: &CompiledEntity, item: &Item) -> Option<Key> {
        if compiled.is_soft_deleted(item) || self.when.as_ref().is_some_and(|when| !when.is_satisfied_by(item)) {
            return None;
        }
        let mut hasher = blake3::Hasher::new();
        for field in &self.fields {
            // As JSON, with the length in front, so that different values never give the same bytes. Addresses have no case.
            let value = match (values::to_json(values::lookup(item, field)?), compiled.entity.field(field)) {
                (Json::String(text), Some(field)) => Json::from(&*field.comparable(&text)).to_string(),
                (value, _) => value.to_string(),
            };
            hasher.update(&(value.len() as u64).to_be_bytes());
            hasher.update(value.as_bytes());
        }
        let values = hasher.finalize().to_hex();
        let name = compiled.name();
        let sort = format!("%unique-{name}-{}-{}", self.fields.join("-"), &values[..40]);
        // In the tenant's own partition where there is one: some stores and access policies know only partitions.
        let partition = match compiled.owner(item).filter(|_| self.within_tenant) {
            Some(tenant) => compiled.tenant_partition(tenant).unwrap_or_else(|| format!("%unique-{name}-{tenant}")),
            None => format!("%unique-{name}"),
        };
        Some(Key::new(partition, sort))
    }
}

/// The writes that move the markers from an item's old values to its new ones.
pub(super) fn markers(compiled: &CompiledEntity, old: Option<&Item>, new: Option<&Item>) -> Vec<(Write, OnFailure)> {
    let mut writes = Vec::new();
    for constraint in &compiled.unique {
        let marker = |item: Option<&Item>| item.and_then(|item| constraint.marker(compiled, item));
        let (before, after) = (marker(old), marker(new));
        let owner = |item: Option<&Item>| {
            let key = item.and_then(|item| compiled.stored_key(item))?;
            Some(Value::List(vec![key.partition.into(), key.sort.into()]))
        };
        let ttl = compiled.ttl.as_deref();
        let expiry = |item: Option<&Item>| item.and_then(|item| item.get(ttl?)).cloned();
        // An address that differs in its case only keeps its marker. If the item is older than comparing without case, this
        // makes the marker.
        let is_retyped = constraint.values(old) != constraint.values(new);
        if before == after && expiry(old) == expiry(new) && !is_retyped {
            continue;
        }
        if let (Some(before), Some(owner)) =
            (before.clone().filter(|before| after.as_ref() != Some(before)), owner(old))
        {
            // If the marker is another item's, the item has changed meanwhile. An item that is older than comparing addresses without
            // case may have none.
            let own = Condition::equal(OWNER, owner);
            let delete = Write::delete(&compiled.table, before).when(own.or(compiled.is_absent()));
            writes.push((delete, OnFailure::Replan));
        }
        if let (Some(after), Some(owner)) = (after, owner(new)) {
            let condition = match before.as_ref() == Some(&after) {
                true => compiled.is_absent().or(Condition::equal(OWNER, owner.clone())),
                false => compiled.is_absent(),
            };
            let mut marker = compiled.internal_item(after).with(OWNER, owner);
            if let (Some(ttl), Some(expiry)) = (ttl, expiry(new)) {
                // It expires together with its item.
                marker.insert(ttl, expiry);
            }
            let put = Write::put(&compiled.table, marker).when(condition);
            writes.push((put, OnFailure::ValueTaken(constraint.fields.clone())));
        }
    }
    writes
}
