//! The fields of a draft: defaults, patches, and the attributes that follow from them.

use nagaya_design::{DefaultValue, Field, FieldType, SCHEMA_ATTRIBUTE};
use nagaya_store::Item;
use serde_json::{Map, Value as Json};

use super::checks::{Checks, since_fields};
use crate::{Error, Settings, compiled::CompiledEntity, scope::Scope, session::Session, state::TenancyState, values};

/// The fields of a new item.
pub(in crate::write) struct NewFields {
    /// Those that the caller gives.
    given: Map<String, Json>,
    /// The same with defaults. Ids and times are generated once, so that a repeated attempt creates the same item.
    complete: Map<String, Json>,
    now: i64,
}

impl NewFields {
    pub(in crate::write) fn new(session: &Session, compiled: &CompiledEntity, given: Map<String, Json>) -> Self {
        let settings = &session.state.settings;
        let now = settings.clock.millis();
        let mut complete = given.clone();
        drop_nulls(&compiled.entity.fields, &mut complete);
        let defaults = Defaults { settings, now, user: &session.principal.user };
        defaults.add(&compiled.entity.fields, &mut complete);
        NewFields { given, complete, now }
    }

    /// The new item.
    pub(super) fn item(&self, state: &TenancyState, compiled: &CompiledEntity, scope: &Scope) -> Result<Item, Error> {
        let now = self.now;
        let mut checks = Checks::new(compiled);
        checks.given_fields(scope, &self.given);
        let mut fields = self.given.clone();
        drop_nulls(&compiled.entity.fields, &mut fields);
        checks.reject_caller_set_since_fields(None, &fields);
        fields.clone_from(&self.complete);
        if let (Some(tenant), Some(field)) = (scope.tenant(), &compiled.entity.tenant) {
            values::put_json(&mut fields, field, tenant.into());
        }
        set_since_fields(compiled, None, &mut fields, now);
        checks.fields_fit(&fields);
        checks.expiry_is_future(&fields, now);
        checks.finish()?;
        let mut item = Item::new();
        derive(state, compiled, &fields, &mut item, now)?;
        for (name, value) in fields {
            item.insert(&name, values::to_store(value));
        }
        if let Some(version) = &compiled.entity.version {
            item.insert(version, 1);
        }
        check_not_deleted(compiled, &item)?;
        Ok(item)
    }
}

/// An item after a merge patch (RFC 7386) of its fields.
pub(super) fn merge(
    compiled: &CompiledEntity,
    session: &Session,
    old: &Item,
    patch: &Map<String, Json>,
) -> Result<Item, Error> {
    let Session { state, scope, principal, .. } = session;
    let now = state.settings.clock.millis();
    let entity = &compiled.entity;
    let before = fields_of(compiled, old);
    let mut fields = before.clone();
    merge_patch(&mut fields, patch);
    let mut checks = Checks::new(compiled);
    checks.removed_names(&entity.fields, patch, "");
    checks.unchanged(scope, patch, &before, &fields);
    checks.reject_caller_set_since_fields(Some(&before), &fields);
    checks.check_required_kept(&entity.fields, &before, &fields, "");
    for field in entity.fields.iter().filter(|field| is_refreshed(compiled, field)) {
        let value = match field.default {
            Some(DefaultValue::Caller) => Some((&*principal.user).into()),
            _ => field.timestamp_value(now),
        };
        if !patch.contains_key(&field.name)
            && let Some(value) = value
        {
            fields.insert(field.name.clone(), value);
        }
    }
    set_since_fields(compiled, Some(&before), &mut fields, now);
    checks.fields_fit(&fields);
    checks.expiry_is_future(&fields, now);
    checks.finish()?;
    let mut item = old.clone();
    set_fields(&before, &fields, &mut item);
    check_not_deleted(compiled, &item)?;
    finish_change(state, compiled, old, &fields, item, now)
}

/// The copy of an audit entry in the archive: its fields as they are stored, under the key that they give there.
pub(in crate::write) fn archived_item(
    state: &TenancyState,
    entries: &CompiledEntity,
    archived: &CompiledEntity,
    entry: &Item,
    now: i64,
) -> Result<Item, Error> {
    let fields = fields_of(entries, entry);
    let mut item = Item::new();
    derive(state, archived, &fields, &mut item, now)?;
    set_fields(&Map::new(), &fields, &mut item);
    if let Some(version) = &archived.entity.version {
        item.insert(version, 1);
    }
    Ok(item)
}

/// An item that is soft-deleted.
pub(super) fn soft_delete(
    state: &TenancyState,
    compiled: &CompiledEntity,
    user: &str,
    old: &Item,
) -> Result<Item, Error> {
    let now = state.settings.clock.millis();
    let mut item = old.clone();
    if let Some(soft) = &compiled.entity.soft_delete {
        if let Some((field, value)) = &soft.mark {
            item.insert(field, values::to_store(value.clone()));
        }
        if let Some(at) = &soft.at
            && let Some(instant) = compiled.entity.field(at).and_then(|field| field.timestamp_value(now))
        {
            item.insert(at, values::to_store(instant));
        }
        if let Some(by) = &soft.by {
            item.insert(by, user);
        }
    }
    let before = fields_of(compiled, &item);
    let mut fields = before.clone();
    set_since_fields(compiled, Some(&fields_of(compiled, old)), &mut fields, now);
    set_fields(&before, &fields, &mut item);
    finish_change(state, compiled, old, &fields, item, now)
}

/// Gives a changed item its next version and its derived attributes. It keeps its key, also one of an older form.
fn finish_change(
    state: &TenancyState,
    compiled: &CompiledEntity,
    old: &Item,
    fields: &Map<String, Json>,
    mut item: Item,
    now: i64,
) -> Result<Item, Error> {
    if let Some(version) = &compiled.entity.version {
        let next = compiled.version_of(&item).unwrap_or(0).saturating_add(1);
        item.insert(version, next);
    }
    derive(state, compiled, fields, &mut item, now)?;
    for attribute in [&compiled.key.partition, &compiled.key.sort] {
        if let Some(value) = old.get(attribute) {
            item.insert(attribute, value.clone());
        }
    }
    Ok(item)
}

/// Sets what the fields of an item give: key and index attributes, discriminator, schema version, expiry.
fn derive(
    state: &TenancyState,
    compiled: &CompiledEntity,
    fields: &Map<String, Json>,
    item: &mut Item,
    now: i64,
) -> Result<(), Error> {
    let entity = &compiled.entity;
    for (attribute, value) in state.design.derived_attributes(entity, fields) {
        let value = value.map_err(|unfit| Error::problem(unfit.field, unfit.reason))?;
        match value {
            // A field that is a key attribute as well has one value for both, so it cannot hold what keys escape.
            Some(value) if entity.field(&attribute).is_some() => {
                if fields.get(&attribute).and_then(Json::as_str) != Some(&value) {
                    return Err(Error::problem(attribute, "is a key attribute, and cannot hold `#` or `%`"));
                }
            }
            Some(value) => item.insert(&attribute, value),
            None => drop(item.remove(&attribute)),
        }
    }
    if let Some((attribute, value)) = &compiled.discriminator {
        item.insert(attribute, value.as_str());
    }
    if let Some(schema) = entity.schema {
        item.insert(SCHEMA_ATTRIBUTE, schema.to_string());
    }
    if let (Some(ttl), Some(seconds)) = (&compiled.ttl, entity.ttl_after) {
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        item.insert(ttl, now.div_euclid(1000).saturating_add(seconds));
    }
    Ok(())
}

/// Sets the fields of an item that have changed. The others keep the form in which they are stored.
fn set_fields(before: &Map<String, Json>, after: &Map<String, Json>, item: &mut Item) {
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        item.remove(name);
    }
    for (name, value) in after.iter().filter(|(name, value)| before.get(*name) != Some(value)) {
        item.insert(name, values::to_store(value.clone()));
    }
}

/// The fields of an item, without the attributes that the layer adds.
fn fields_of(compiled: &CompiledEntity, item: &Item) -> Map<String, Json> {
    let is_field = |name: &str| compiled.entity.fields.iter().any(|field| field.name == name);
    let fields = item.iter().filter(|(name, _)| is_field(name));
    fields.map(|(name, value)| (name.to_owned(), values::to_json(value))).collect()
}

/// Sets the instants of conditions that begin to hold, and removes those of conditions that no longer hold.
///
/// A condition that held before keeps its instant, also a missing one: the item may be older than the field.
fn set_since_fields(
    compiled: &CompiledEntity,
    before: Option<&Map<String, Json>>,
    after: &mut Map<String, Json>,
    now: i64,
) {
    for field in since_fields(compiled) {
        let Some(condition) = &field.since else { continue };
        let held = before.filter(|before| condition.is_satisfied_by(before));
        let instant = match (held, condition.is_satisfied_by(after)) {
            (_, false) => None,
            (Some(before), true) => before.get(&field.name).cloned(),
            (None, true) => field.timestamp_value(now),
        };
        match instant {
            Some(instant) => drop(after.insert(field.name.clone(), instant)),
            None => drop(after.remove(&field.name)),
        }
    }
}

/// Only a deletion sets the soft-delete mark.
fn check_not_deleted(compiled: &CompiledEntity, item: &Item) -> Result<(), Error> {
    if compiled.is_soft_deleted(item)
        && let Some(soft) = &compiled.entity.soft_delete
    {
        let field = soft.mark.as_ref().map(|(field, _)| field).or(soft.at.as_ref());
        return Err(Error::problem(field.map_or("", String::as_str), "is set by deleting the item only"));
    }
    Ok(())
}

/// Whether every change sets a field to the current time or to its user: mutable, with the default `now` or `caller`.
fn is_refreshed(compiled: &CompiledEntity, field: &Field) -> bool {
    matches!(field.default, Some(DefaultValue::Now | DefaultValue::Caller))
        && !field.immutable
        && !compiled.entity.is_key_field(&field.name)
}

/// Removes optional fields whose value is null.
fn drop_nulls(fields: &[Field], given: &mut Map<String, Json>) {
    for field in fields {
        if field.optional && given.get(&field.name) == Some(&Json::Null) {
            given.remove(&field.name);
        }
        if let (FieldType::Map(inner), Some(Json::Object(given))) = (&field.field_type, given.get_mut(&field.name)) {
            drop_nulls(inner, given);
        }
    }
}

/// What the defaults of missing fields are made from.
struct Defaults<'s> {
    settings: &'s Settings,
    now: i64,
    user: &'s str,
}

impl Defaults<'_> {
    /// Adds the defaults of missing fields.
    fn add(&self, fields: &[Field], given: &mut Map<String, Json>) {
        for field in fields {
            if !given.contains_key(&field.name)
                && let Some(value) = self.value(field)
            {
                given.insert(field.name.clone(), value);
            }
            if let FieldType::Map(inner) = &field.field_type
                && let Some(Json::Object(given)) = given.get_mut(&field.name)
            {
                self.add(inner, given);
            }
        }
    }

    fn value(&self, field: &Field) -> Option<Json> {
        match field.default.as_ref()? {
            DefaultValue::Constant(value) => Some(value.clone()),
            DefaultValue::Now => field.timestamp_value(self.now),
            DefaultValue::Caller => Some(self.user.into()),
            DefaultValue::New => {
                let id = match field.field_type {
                    FieldType::Uuid => self.settings.ids.uuid(self.now),
                    _ => self.settings.ids.ulid(self.now),
                };
                Some(format!("{}{id}", field.prefix()).into())
            }
        }
    }
}

fn merge_patch(target: &mut Map<String, Json>, patch: &Map<String, Json>) {
    for (name, value) in patch {
        match (target.get_mut(name), value) {
            (_, Json::Null) => drop(target.remove(name)),
            (Some(Json::Object(inner)), Json::Object(patch)) => merge_patch(inner, patch),
            (_, Json::Object(patch)) => {
                let mut inner = Map::new();
                merge_patch(&mut inner, patch);
                target.insert(name.clone(), Json::Object(inner));
            }
            (_, value) => drop(target.insert(name.clone(), value.clone())),
        }
    }
}
