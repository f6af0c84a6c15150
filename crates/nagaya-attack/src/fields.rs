//! Fields that name another tenant, and attributes that nobody may set.

use nagaya_design::{Entity, Type, Wall};
use serde_json::{Map, Value as Json, json};

use super::json as values;
use super::{
    action::Action,
    cases, forge,
    trial::{Failure, Trial},
    world::Belonging,
};

cases! {
    a_tenant_in_the_fields_is_refused,
    a_tenant_in_a_change_is_refused,
    attributes_of_the_store_cannot_be_given,
    attributes_of_the_store_cannot_be_changed,
    keys_and_what_is_immutable_cannot_be_changed,
    texts_that_name_others_stay_in_their_field,
    changes_that_name_others_stay_in_their_field,
    ids_that_the_layer_makes_cannot_be_chosen_where_tenants_share_keys,
}

/// The entities that the attacker may write, each with fields for the n-th item of it.
pub(super) fn drafts(trial: &Trial, n: usize) -> Vec<(&Entity, Map<String, Json>)> {
    let of = |name: &str, n: usize| {
        let mut ids = trial.own.iter().filter(|own| own.entity == name);
        let first = ids.clone().next();
        ids.nth(n).or(first).map(|own| own.id.clone())
    };
    let written = |entity: &&Entity| entity.tenant.is_some() && entity.wall != Wall::System;
    let draft = |entity| {
        // Some have not so many.
        let variations = [n, 0];
        let fields = variations.into_iter().find_map(|n| forge::fields(entity, n, 0, &of));
        Some((entity, fields?))
    };
    trial.design.entities.iter().filter(written).filter_map(draft).collect()
}

/// An own item of each entity.
pub(super) fn owned(trial: &Trial) -> Vec<&Belonging> {
    let mut found: Vec<&Belonging> = Vec::new();
    for own in &trial.own {
        if found.iter().all(|each| each.entity != own.entity) {
            found.push(own);
        }
    }
    found
}

async fn a_tenant_in_the_fields_is_refused(trial: &mut Trial) -> Result<(), Failure> {
    let names: Vec<String> = trial.victims.iter().take(3).chain([&trial.attacker]).cloned().collect();
    let mut actions = Vec::new();
    for (entity, fields) in drafts(trial, 7) {
        for name in &names {
            for value in [json!(name), json!([name]), json!({ "S": name }), Json::Null] {
                let mut fields = fields.clone();
                values::put_json(&mut fields, entity.tenant.as_deref().unwrap_or_default(), value);
                actions.push(Action::Create(entity.name.clone(), fields));
            }
        }
    }
    trial.all_refused(actions, &["invalid"]).await
}

async fn a_tenant_in_a_change_is_refused(trial: &mut Trial) -> Result<(), Failure> {
    let names: Vec<String> = trial.victims.iter().take(3).cloned().collect();
    let mut actions = Vec::new();
    for own in owned(trial) {
        let path = trial.entity(&own.entity)?.tenant.clone().unwrap_or_default();
        for name in &names {
            for value in [json!(name), Json::Null, json!({ "S": name })] {
                let mut patch = Map::new();
                values::put_json(&mut patch, &path, value);
                actions.push(Action::update(&own.entity, &own.id, patch));
            }
        }
    }
    trial.all_refused(actions, &["invalid"]).await
}

/// The attributes of an entity's items that are no fields.
fn managed(trial: &Trial, entity: &Entity) -> Vec<String> {
    let table = trial.design.table_of(entity);
    let mut names = vec![table.key.partition.clone(), table.key.sort.clone()];
    for index in &table.indexes {
        names.extend([index.key.partition.clone(), index.key.sort.clone()]);
    }
    names.extend(table.discriminator.clone());
    names.extend(table.ttl.clone());
    names.extend(entity.version.clone());
    names.extend([nagaya_design::SCHEMA_ATTRIBUTE, "%owner", "%deleting", "%anything", "_etag"].map(str::to_owned));
    names.retain(|name| entity.fields.iter().all(|field| field.name != *name));
    names.sort();
    names.dedup();
    names
}

async fn attributes_of_the_store_cannot_be_given(trial: &mut Trial) -> Result<(), Failure> {
    let mut actions = Vec::new();
    for (entity, fields) in drafts(trial, 7) {
        let theirs =
            trial.hidden().find(|each| each.entity == entity.name).map(|each| trial.item_of(each)).transpose()?;
        for name in managed(trial, entity) {
            let foreign = theirs.and_then(|item| item.get(&name)).map(values::to_json);
            let mut fields = fields.clone();
            fields.insert(name, foreign.unwrap_or_else(|| json!("x")));
            actions.push(Action::Create(entity.name.clone(), fields));
        }
    }
    trial.all_refused(actions, &["invalid"]).await
}

async fn attributes_of_the_store_cannot_be_changed(trial: &mut Trial) -> Result<(), Failure> {
    let mut actions = Vec::new();
    for own in owned(trial) {
        let entity = trial.entity(&own.entity)?;
        let theirs =
            trial.hidden().find(|each| each.entity == entity.name).map(|each| trial.item_of(each)).transpose()?;
        for name in managed(trial, entity) {
            let foreign = theirs.and_then(|item| item.get(&name)).map(values::to_json);
            for value in [foreign.unwrap_or_else(|| json!("x")), json!(99)] {
                let patch = Map::from_iter([(name.clone(), value)]);
                actions.push(Action::update(&own.entity, &own.id, patch));
            }
        }
    }
    trial.all_refused(actions, &["invalid"]).await
}

async fn keys_and_what_is_immutable_cannot_be_changed(trial: &mut Trial) -> Result<(), Failure> {
    let mut actions = Vec::new();
    for own in owned(trial) {
        let entity = trial.entity(&own.entity)?;
        for field in entity.fields.iter().filter(|field| field.immutable || entity.is_key_field(&field.name)) {
            let other = forge::other(field, own.fields.get(&field.name));
            for value in other.into_iter().chain([Json::Null]) {
                // What is not there cannot be taken away.
                let is_change = own.fields.contains_key(&field.name) || !value.is_null();
                if is_change && own.fields.get(&field.name) != Some(&value) {
                    let patch = Map::from_iter([(field.name.clone(), value)]);
                    actions.push(Action::update(&own.entity, &own.id, patch));
                }
            }
        }
    }
    trial.all_refused(actions, &["invalid"]).await
}

/// Fields of text with hostile texts that they take, a few for each.
fn poisoned(entity: &Entity, hostile: &[String], start: &mut usize) -> Vec<(String, Json)> {
    let mut found = Vec::new();
    for field in entity.fields.iter().filter(|field| entity.tenant.as_deref() != Some(field.name.as_str())) {
        // Whoever chooses a key that tenants share learns whether it is taken.
        let tells = entity.wall == Wall::Attribute && entity.is_key_field(&field.name);
        let values: Vec<Json> = match &field.kind {
            Type::String if !tells => hostile.iter().map(|text| json!(text)).collect(),
            Type::Map(inner) if inner.is_empty() => hostile.iter().map(|text| json!({ text.as_str(): text })).collect(),
            Type::List(None) => hostile.iter().map(|text| json!([text])).collect(),
            _ => continue,
        };
        let taken: Vec<&Json> = values.iter().filter(|value| field.accepts(value)).collect();
        for at in 0..taken.len().min(3) {
            *start += 1;
            found.push((field.name.clone(), taken[(*start + at) % taken.len()].clone()));
        }
    }
    found
}

async fn texts_that_name_others_stay_in_their_field(trial: &mut Trial) -> Result<(), Failure> {
    let (hostile, mut start) = (trial.hostile.clone(), 0);
    let mut actions = Vec::new();
    for (entity, fields) in drafts(trial, 7) {
        for (name, value) in poisoned(entity, &hostile, &mut start) {
            let mut fields = fields.clone();
            fields.insert(name, value);
            actions.push(Action::Create(entity.name.clone(), fields));
        }
    }
    trial.nothing_crosses(actions).await
}

async fn changes_that_name_others_stay_in_their_field(trial: &mut Trial) -> Result<(), Failure> {
    let (hostile, mut start) = (trial.hostile.clone(), 1);
    let mut actions = Vec::new();
    for own in owned(trial) {
        let entity = trial.entity(&own.entity)?;
        for (name, value) in poisoned(entity, &hostile, &mut start) {
            let back = own.fields.get(&name).cloned().unwrap_or_default();
            for value in [value, back] {
                actions.push(Action::update(&own.entity, &own.id, Map::from_iter([(name.clone(), value)])));
            }
        }
    }
    trial.nothing_crosses(actions).await
}

async fn ids_that_the_layer_makes_cannot_be_chosen_where_tenants_share_keys(trial: &mut Trial) -> Result<(), Failure> {
    let mut actions = Vec::new();
    for (entity, fields) in drafts(trial, 7) {
        let made = entity
            .id_fields()
            .into_iter()
            .find(|path| entity.field(path).is_some_and(|field| field.default == Some(nagaya_design::Default::New)));
        let Some(made) = made.filter(|_| entity.wall != Wall::Key) else { continue };
        for theirs in trial.theirs.iter().filter(|theirs| theirs.entity == entity.name) {
            let Some(value) = values::json_at(&theirs.fields, made) else { continue };
            let mut fields = fields.clone();
            values::put_json(&mut fields, made, value.clone());
            actions.push(Action::Create(entity.name.clone(), fields));
        }
    }
    if actions.is_empty() {
        return Err(Failure::Nothing("no such ids"));
    }
    trial.all_refused(actions, &["invalid"]).await
}
