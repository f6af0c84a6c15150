//! Items in the making: from what a caller gives to what is stored.

use nagaya_design::{Default, Field, Problem, Type, Wall};
use nagaya_store::Item;
use serde_json::{Map, Value as Json};

use crate::{Error, ErrorKind, Settings, blueprint::Blueprint, guard::Scope, values};

/// A new item from the fields that a caller gives.
pub(crate) fn create(
    blueprint: &Blueprint,
    scope: &Scope,
    settings: &Settings,
    mut fields: Map<String, Json>,
) -> Result<Item, Error> {
    let now = settings.clock.millis();
    let mut problems = Vec::new();
    own_fields_only(blueprint, scope, &fields, &mut problems);
    drop_nulls(&blueprint.entity.fields, &mut fields);
    not_given(blueprint, None, &fields, &mut problems);
    if let (Some(tenant), Some(field)) = (scope.tenant(), &blueprint.entity.tenant) {
        values::put_json(&mut fields, field, tenant.into());
    }
    fill_in(&blueprint.entity.fields, &mut fields, settings, now);
    follow(blueprint, None, &mut fields, now);
    problems.extend(blueprint.entity.check(&fields));
    lies_ahead(blueprint, &fields, now, &mut problems);
    refuse(problems)?;
    let mut item: Item = fields.into_iter().map(|(name, value)| (name, values::to_store(value))).collect();
    if let Some(version) = &blueprint.entity.version {
        item.insert(version, 1);
    }
    is_not_deleted(blueprint, &item)?;
    finish(blueprint, &mut item, now)?;
    Ok(item)
}

/// What an item becomes by a merge patch (RFC 7386) of its fields.
pub(crate) fn merge(
    blueprint: &Blueprint,
    scope: &Scope,
    settings: &Settings,
    old: &Item,
    patch: &Map<String, Json>,
) -> Result<Item, Error> {
    let now = settings.clock.millis();
    let entity = &blueprint.entity;
    let before = fields_of(blueprint, old);
    let mut fields = before.clone();
    merge_patch(&mut fields, patch);
    drop_nulls(&entity.fields, &mut fields);
    let mut problems = Vec::new();
    known(&entity.fields, patch, "", &mut problems);
    unchanged(blueprint, scope, &before, &fields, &mut problems);
    not_given(blueprint, Some(&before), &fields, &mut problems);
    still_there(&entity.fields, &before, &fields, "", &mut problems);
    for field in entity.fields.iter().filter(|field| is_refreshed(blueprint, field)) {
        if !patch.contains_key(&field.name)
            && let Some(instant) = field.instant(now)
        {
            fields.insert(field.name.clone(), instant);
        }
    }
    follow(blueprint, Some(&before), &mut fields, now);
    problems.extend(entity.check(&fields));
    if blueprint.ttl.as_ref().is_some_and(|ttl| patch.contains_key(ttl)) {
        lies_ahead(blueprint, &fields, now, &mut problems);
    }
    refuse(problems)?;
    let mut item = old.clone();
    for name in before.keys().filter(|name| !fields.contains_key(*name)) {
        item.remove(name);
    }
    for (name, value) in fields {
        // What was not touched keeps the form that it is stored in.
        if before.get(&name) != Some(&value) {
            item.insert(&name, values::to_store(value));
        }
    }
    is_not_deleted(blueprint, &item)?;
    bump(blueprint, &mut item);
    finish(blueprint, &mut item, now)?;
    stay(blueprint, old, &mut item);
    Ok(item)
}

/// An item that is deleted but kept.
pub(crate) fn mark_deleted(blueprint: &Blueprint, settings: &Settings, user: &str, old: &Item) -> Result<Item, Error> {
    let now = settings.clock.millis();
    let mut item = old.clone();
    if let Some(soft) = &blueprint.entity.soft_delete {
        if let Some((field, value)) = &soft.mark {
            item.insert(field, values::to_store(value.clone()));
        }
        if let Some(at) = &soft.at
            && let Some(instant) = blueprint.entity.field(at).and_then(|field| field.instant(now))
        {
            item.insert(at, values::to_store(instant));
        }
        if let Some(by) = &soft.by {
            item.insert(by, user);
        }
    }
    let mut fields = fields_of(blueprint, &item);
    follow(blueprint, Some(&fields_of(blueprint, old)), &mut fields, now);
    for field in following(blueprint) {
        match fields.remove(&field.name) {
            Some(moment) => item.insert(&field.name, values::to_store(moment)),
            None => drop(item.remove(&field.name)),
        }
    }
    bump(blueprint, &mut item);
    finish(blueprint, &mut item, now)?;
    stay(blueprint, old, &mut item);
    Ok(item)
}

/// The fields of an item, without what the layer keeps beside them.
fn fields_of(blueprint: &Blueprint, item: &Item) -> Map<String, Json> {
    let is_field = |name: &str| blueprint.entity.fields.iter().any(|field| field.name == name);
    let fields = item.iter().filter(|(name, _)| is_field(name));
    fields.map(|(name, value)| (name.to_owned(), values::to_json(value))).collect()
}

/// The fields that tell when a condition came to hold.
fn following(blueprint: &Blueprint) -> impl Iterator<Item = &Field> {
    blueprint.entity.fields.iter().filter(|field| field.since.is_some())
}

/// Reports moments that somebody else than the layer sets.
fn not_given(
    blueprint: &Blueprint,
    before: Option<&Map<String, Json>>,
    after: &Map<String, Json>,
    problems: &mut Vec<Problem>,
) {
    for field in following(blueprint) {
        if before.and_then(|before| before.get(&field.name)) != after.get(&field.name)
            && let Some(message) = field.not_given()
        {
            problems.push(Problem { path: field.name.clone(), message });
        }
    }
}

/// Sets the moments of the conditions that come to hold, and takes away those of the conditions that no longer do.
///
/// One that holds all along keeps its moment, also when that is not known: the item may be older than the field.
fn follow(blueprint: &Blueprint, before: Option<&Map<String, Json>>, after: &mut Map<String, Json>, now: i64) {
    for field in following(blueprint) {
        let Some(condition) = &field.since else { continue };
        let held = before.filter(|before| condition.holds(before));
        let moment = match (held, condition.holds(after)) {
            (_, false) => None,
            (Some(before), true) => before.get(&field.name).cloned(),
            (None, true) => field.instant(now),
        };
        match moment {
            Some(moment) => drop(after.insert(field.name.clone(), moment)),
            None => drop(after.remove(&field.name)),
        }
    }
}

fn bump(blueprint: &Blueprint, item: &mut Item) {
    if let Some(version) = &blueprint.entity.version {
        let next = blueprint.version_of(item).unwrap_or(0).saturating_add(1);
        item.insert(version, next);
    }
}

fn finish(blueprint: &Blueprint, item: &mut Item, now: i64) -> Result<(), Error> {
    blueprint.derive(item).map_err(|problem| ErrorKind::Invalid(vec![problem]))?;
    blueprint.set_expiry(item, now);
    Ok(())
}

/// An item under a key of an older form stays under it.
fn stay(blueprint: &Blueprint, old: &Item, item: &mut Item) {
    for attribute in [&blueprint.key.partition, &blueprint.key.sort] {
        if let Some(value) = old.get(attribute) {
            item.insert(attribute, value.clone());
        }
    }
}

fn refuse(problems: Vec<Problem>) -> Result<(), Error> {
    if problems.is_empty() { Ok(()) } else { Err(ErrorKind::Invalid(problems).into()) }
}

/// What is deleted becomes so by deleting it.
fn is_not_deleted(blueprint: &Blueprint, item: &Item) -> Result<(), Error> {
    if blueprint.is_soft_deleted(item)
        && let Some(soft) = &blueprint.entity.soft_delete
    {
        let field = soft.mark.as_ref().map(|(field, _)| field).or(soft.at.as_ref());
        return Err(Error::problem(field.map_or("", String::as_str), "becomes this by deleting the item"));
    }
    Ok(())
}

/// Reports an expiry that has passed: the item would be gone as soon as it is written.
fn lies_ahead(blueprint: &Blueprint, fields: &Map<String, Json>, now: i64, problems: &mut Vec<Problem>) {
    let Some(ttl) = blueprint.ttl.as_ref().filter(|_| blueprint.entity.ttl_after.is_none()) else { return };
    if blueprint.entity.field(ttl).is_some()
        && fields.get(ttl).and_then(Json::as_f64).is_some_and(|expires| expires <= now.div_euclid(1000) as f64)
    {
        problems.push(Problem { path: ttl.clone(), message: "is in the past".to_owned() });
    }
}

/// Reports names in a patch that are not fields, also where they are to be taken away.
fn known(fields: &[Field], patch: &Map<String, Json>, parent: &str, problems: &mut Vec<Problem>) {
    for (name, value) in patch {
        let path = if parent.is_empty() { name.clone() } else { format!("{parent}.{name}") };
        match (fields.iter().find(|field| field.name == *name).map(|field| &field.kind), value) {
            // What is given is looked at with the rest of the item.
            (None, Json::Null) => problems.push(Problem { path, message: "is not a field".to_owned() }),
            (Some(Type::Map(inner)), Json::Object(patch)) if !inner.is_empty() => known(inner, patch, &path, problems),
            _ => {}
        }
    }
}

/// A mutable instant that is made by itself is made again by every change.
fn is_refreshed(blueprint: &Blueprint, field: &Field) -> bool {
    field.default == Some(Default::Now) && !field.immutable && !blueprint.entity.is_key_field(&field.name)
}

/// The tenant comes from the wall, and where ids are made by the layer and shared by all tenants, they come from the
/// layer: somebody who could choose one could ask which are taken.
fn own_fields_only(blueprint: &Blueprint, scope: &Scope, fields: &Map<String, Json>, problems: &mut Vec<Problem>) {
    let entity = &blueprint.entity;
    if scope.tenant().is_none() {
        return;
    }
    let mut not_given = |path: &str, message: &str| {
        if values::json_at(fields, path).is_some() {
            problems.push(Problem { path: path.to_owned(), message: message.to_owned() });
        }
    };
    if let Some(tenant) = &entity.tenant {
        not_given(tenant, "comes from the token; leave it out");
    }
    if entity.wall != Wall::Key {
        for path in entity.id_fields() {
            if entity.field(path).is_some_and(|field| field.default == Some(Default::New)) {
                not_given(path, "is made by the store layer; leave it out");
            }
        }
    }
}

/// Reports fields of a change that must stay as they are.
fn unchanged(
    blueprint: &Blueprint,
    scope: &Scope,
    before: &Map<String, Json>,
    after: &Map<String, Json>,
    problems: &mut Vec<Problem>,
) {
    let entity = &blueprint.entity;
    let mut check = |path: &str, message: &str| {
        if values::json_at(before, path) != values::json_at(after, path) {
            problems.push(Problem { path: path.to_owned(), message: message.to_owned() });
        }
    };
    let tenant = entity.tenant.as_deref().filter(|_| scope.tenant().is_some());
    if let Some(tenant) = tenant {
        check(tenant, "comes from the token and cannot be changed");
    }
    let mut key_fields: Vec<_> = entity.key.partition.fields().chain(entity.key.sort.fields()).collect();
    key_fields.sort_unstable();
    key_fields.dedup();
    for path in key_fields.into_iter().filter(|path| Some(*path) != tenant) {
        check(path, "is part of the key and cannot be changed");
    }
    immutable(&entity.fields, "", &mut |path| {
        if !entity.is_key_field(path) && Some(path) != tenant {
            check(path, "cannot be changed");
        }
    });
}

/// Reports required fields that a change takes away. A default is for items that are made, not for what they lose.
fn still_there(
    fields: &[Field],
    before: &Map<String, Json>,
    after: &Map<String, Json>,
    parent: &str,
    problems: &mut Vec<Problem>,
) {
    for field in fields {
        let path = if parent.is_empty() { field.name.clone() } else { format!("{parent}.{}", field.name) };
        match (&field.kind, before.get(&field.name), after.get(&field.name)) {
            (_, Some(_), None) if !field.optional && field.default.is_some() => {
                problems.push(Problem { path, message: "is missing".to_owned() });
            }
            (Type::Map(inner), Some(Json::Object(before)), Some(Json::Object(after))) => {
                still_there(inner, before, after, &path, problems);
            }
            _ => {}
        }
    }
}

/// Visits the fields that keep their first value.
fn immutable(fields: &[Field], parent: &str, visit: &mut dyn FnMut(&str)) {
    for field in fields {
        let path = if parent.is_empty() { field.name.clone() } else { format!("{parent}.{}", field.name) };
        match &field.kind {
            _ if field.immutable => visit(&path),
            Type::Map(inner) => immutable(inner, &path, visit),
            _ => {}
        }
    }
}

/// An optional field that is given as null is not given.
fn drop_nulls(fields: &[Field], given: &mut Map<String, Json>) {
    for field in fields {
        if field.optional && given.get(&field.name) == Some(&Json::Null) {
            given.remove(&field.name);
        }
        if let (Type::Map(inner), Some(Json::Object(given))) = (&field.kind, given.get_mut(&field.name)) {
            drop_nulls(inner, given);
        }
    }
}

/// Gives the fields that were not given their defaults.
fn fill_in(fields: &[Field], given: &mut Map<String, Json>, settings: &Settings, now: i64) {
    for field in fields {
        if !given.contains_key(&field.name)
            && let Some(value) = default(field, settings, now)
        {
            given.insert(field.name.clone(), value);
        }
        if let Type::Map(inner) = &field.kind
            && let Some(Json::Object(given)) = given.get_mut(&field.name)
        {
            fill_in(inner, given, settings, now);
        }
    }
}

fn default(field: &Field, settings: &Settings, now: i64) -> Option<Json> {
    match field.default.as_ref()? {
        Default::Constant(value) => Some(value.clone()),
        Default::Now => field.instant(now),
        Default::New => {
            let id = match field.kind {
                Type::Uuid => settings.ids.uuid(),
                _ => settings.ids.ulid(now),
            };
            Some(format!("{}{id}", field.prefix()).into())
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
