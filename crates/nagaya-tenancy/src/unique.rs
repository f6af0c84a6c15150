//! Uniqueness: a marker item for each value that is taken, written in the same set as the item that takes it.

use nagaya_design::Unique;
use nagaya_store::{Condition, Item, Key, Value, Write};

use crate::{blueprint::Blueprint, values};

/// Fields that no two items may have in common.
#[derive(Debug)]
pub(crate) struct Constraint {
    pub(crate) fields: Vec<String>,
    within_tenant: bool,
    when: Option<Condition>,
}

/// The attribute of a marker with the item that took the value.
const OWNER: &str = "%owner";

impl Constraint {
    pub(crate) fn new(unique: &Unique) -> Self {
        let when = unique.when.as_ref().map(values::condition);
        Constraint { fields: unique.fields.clone(), within_tenant: unique.within_tenant, when }
    }

    /// The marker of an item's values; `None` when it does not count.
    fn marker(&self, blueprint: &Blueprint, tenant: Option<&str>, item: &Item) -> Option<Key> {
        if blueprint.is_soft_deleted(item) || self.when.as_ref().is_some_and(|when| !when.holds(item)) {
            return None;
        }
        let mut hasher = blake3::Hasher::new();
        for field in &self.fields {
            // The kind and the length go in front, so that two values cannot be taken for two others.
            let value = values::to_json(values::lookup(item, field)?).to_string();
            hasher.update(&(value.len() as u64).to_be_bytes());
            hasher.update(value.as_bytes());
        }
        let values = hasher.finalize().to_hex();
        let sort = format!("%unique-{}-{}-{}", blueprint.name(), self.fields.join("-"), &values[..40]);
        // Beside the tenant's items where the partition is the tenant's, so that stores and policies that know only
        // partitions can keep both together.
        let name = blueprint.name();
        let partition = match tenant.filter(|_| self.within_tenant) {
            Some(tenant) => blueprint.partition_of(tenant).unwrap_or_else(|| format!("%unique-{name}-{tenant}")),
            None => format!("%unique-{name}"),
        };
        Some(Key::new(partition, sort))
    }
}

/// The writes that move the markers from an item's old values to its new ones, each with the fields that it is for.
pub(crate) fn markers<'b>(
    blueprint: &'b Blueprint,
    tenant: Option<&str>,
    old: Option<&Item>,
    new: Option<&Item>,
) -> Vec<(Write, &'b Constraint)> {
    let mut writes = Vec::new();
    for constraint in &blueprint.unique {
        let marker = |item: Option<&Item>| item.and_then(|item| constraint.marker(blueprint, tenant, item));
        let (before, after) = (marker(old), marker(new));
        let owner = |item: Option<&Item>| {
            let key = item.and_then(|item| blueprint.stored_key(item))?;
            Some(Value::List(vec![key.partition.into(), key.sort.into()]))
        };
        let ttl = blueprint.ttl.as_deref();
        let expiry = |item: Option<&Item>| item.and_then(|item| item.get(ttl?)).cloned();
        if before == after && expiry(old) == expiry(new) {
            continue;
        }
        if let (Some(before), Some(owner)) =
            (before.clone().filter(|before| after.as_ref() != Some(before)), owner(old))
        {
            writes.push((Write::delete(&blueprint.table, before).when(Condition::equal(OWNER, owner)), constraint));
        }
        if let (Some(after), Some(owner)) = (after, owner(new)) {
            let free = Condition::absent(blueprint.key.partition.as_str());
            let condition = if before.as_ref() == Some(&after) { Condition::equal(OWNER, owner.clone()) } else { free };
            let mut marker = Item::new()
                .with(&blueprint.key.partition, after.partition)
                .with(&blueprint.key.sort, after.sort)
                .with(OWNER, owner);
            if let (Some(ttl), Some(expiry)) = (ttl, expiry(new)) {
                // It goes when its item goes.
                marker.insert(ttl, expiry);
            }
            writes.push((Write::put(&blueprint.table, marker).when(condition), constraint));
        }
    }
    writes
}
