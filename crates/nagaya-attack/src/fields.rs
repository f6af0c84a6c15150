//! Fields that name another tenant, and attributes that nobody may set.

use nagaya_design::{Entity, FieldType, Wall};
use serde_json::{Map, Value as Json, json};

use super::json;
use super::{
    action::Action,
    cases,
    environment::OwnedItem,
    scenario::{Failure, Scenario, expect_tried},
    values,
};

cases! {
    a_tenant_in_the_fields_is_refused,
    a_tenant_in_a_change_is_refused,
    managed_attributes_cannot_be_set,
    managed_attributes_cannot_be_changed,
    keys_and_immutable_fields_cannot_be_changed,
    created_fields_with_hostile_texts_reach_no_other_tenant,
    updated_fields_with_hostile_texts_reach_no_other_tenant,
    generated_ids_cannot_be_chosen_if_tenants_share_keys,
}

/// The entities that the attacker may write, each with fields for the n-th item of it.
pub(super) fn writable_entities_with_fields(scenario: &Scenario, n: usize) -> Vec<(&Entity, Map<String, Json>)> {
    let of = |name: &str, n: usize| {
        let mut ids = scenario.own_items.iter().filter(|own| own.entity == name);
        let first = ids.clone().next();
        ids.nth(n).or(first).map(|own| own.id.clone())
    };
    let written = |entity: &&Entity| entity.tenant.is_some() && entity.wall != Wall::System;
    let draft = |entity| {
        // Some entities have no n-th variation: use the first.
        let variations = [n, 0];
        let fields = variations.into_iter().find_map(|n| values::fields(entity, n, 0, &of));
        Some((entity, fields?))
    };
    scenario.design.entities.iter().filter(written).filter_map(draft).collect()
}

/// An own item of each entity.
pub(super) fn own_item_of_each_entity(scenario: &Scenario) -> Vec<&OwnedItem> {
    let mut found: Vec<&OwnedItem> = Vec::new();
    for own in &scenario.own_items {
        if found.iter().all(|each| each.entity != own.entity) {
            found.push(own);
        }
    }
    found
}

async fn a_tenant_in_the_fields_is_refused(scenario: &mut Scenario) -> Result<(), Failure> {
    let names: Vec<String> = scenario.victims.iter().take(3).chain([&scenario.attacker]).cloned().collect();
    let mut actions = Vec::new();
    for (entity, fields) in writable_entities_with_fields(scenario, 7) {
        for name in &names {
            for value in [json!(name), json!([name]), json!({ "S": name }), Json::Null] {
                let tenant = entity.tenant.as_deref().unwrap_or_default();
                actions.push(Action::create_with(entity, &fields, tenant, value));
            }
        }
    }
    scenario.expect_refused(actions, &["invalid"]).await
}

async fn a_tenant_in_a_change_is_refused(scenario: &mut Scenario) -> Result<(), Failure> {
    let names: Vec<String> = scenario.victims.iter().take(3).cloned().collect();
    let mut actions = Vec::new();
    for own in own_item_of_each_entity(scenario) {
        let path = scenario.entity(&own.entity)?.tenant.clone().unwrap_or_default();
        for name in &names {
            for value in [json!(name), Json::Null, json!({ "S": name })] {
                actions.push(Action::set(own, &path, value));
            }
        }
    }
    scenario.expect_refused(actions, &["invalid"]).await
}

/// The attributes of an entity's items that are no fields, each with the value that an item of others has.
fn managed_attributes(scenario: &Scenario, entity: &Entity) -> Result<Vec<(String, Json)>, Failure> {
    let foreign = scenario.walled_items().find(|each| each.entity == entity.name);
    let foreign = foreign.map(|each| scenario.stored_item_of(each)).transpose()?;
    let table = scenario.design.table_of(entity);
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
    let value = |name: &str| foreign.and_then(|item| item.get(name)).map_or_else(|| json!("x"), json::to_json);
    Ok(names.into_iter().map(|name| (name.clone(), value(&name))).collect())
}

async fn managed_attributes_cannot_be_set(scenario: &mut Scenario) -> Result<(), Failure> {
    let mut actions = Vec::new();
    for (entity, fields) in writable_entities_with_fields(scenario, 7) {
        for (name, foreign) in managed_attributes(scenario, entity)? {
            actions.push(Action::create_with(entity, &fields, &name, foreign));
        }
    }
    scenario.expect_refused(actions, &["invalid"]).await
}

async fn managed_attributes_cannot_be_changed(scenario: &mut Scenario) -> Result<(), Failure> {
    let mut actions = Vec::new();
    for own in own_item_of_each_entity(scenario) {
        let entity = scenario.entity(&own.entity)?;
        for (name, foreign) in managed_attributes(scenario, entity)? {
            actions.extend([foreign, json!(99)].map(|value| Action::set(own, &name, value)));
        }
    }
    scenario.expect_refused(actions, &["invalid"]).await
}

async fn keys_and_immutable_fields_cannot_be_changed(scenario: &mut Scenario) -> Result<(), Failure> {
    let mut actions = Vec::new();
    for own in own_item_of_each_entity(scenario) {
        let entity = scenario.entity(&own.entity)?;
        for field in entity.fields.iter().filter(|field| field.immutable || entity.is_key_field(&field.name)) {
            let other = values::different_value(field, own.fields.get(&field.name));
            for value in other.into_iter().chain([Json::Null]) {
                // A field that the item does not have cannot be removed.
                let is_change = own.fields.contains_key(&field.name) || !value.is_null();
                if is_change && own.fields.get(&field.name) != Some(&value) {
                    actions.push(Action::set(own, &field.name, value));
                }
            }
        }
    }
    scenario.expect_refused(actions, &["invalid"]).await
}

/// Text fields with hostile texts that they accept, a few for each field.
fn fields_with_hostile_texts(entity: &Entity, hostile_texts: &[String], start: &mut usize) -> Vec<(String, Json)> {
    let mut found = Vec::new();
    for field in entity.fields.iter().filter(|field| entity.tenant.as_deref() != Some(field.name.as_str())) {
        // A caller who chooses a key that tenants share learns whether it is taken.
        let tells = entity.wall == Wall::Attribute && entity.is_key_field(&field.name);
        let values: Vec<Json> = match &field.field_type {
            FieldType::String if !tells => hostile_texts.iter().map(|text| json!(text)).collect(),
            FieldType::Map(inner) if inner.is_empty() => {
                hostile_texts.iter().map(|text| json!({ text.as_str(): text })).collect()
            }
            FieldType::List(None) => hostile_texts.iter().map(|text| json!([text])).collect(),
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

async fn created_fields_with_hostile_texts_reach_no_other_tenant(scenario: &mut Scenario) -> Result<(), Failure> {
    let (hostile_texts, mut start) = (scenario.hostile_texts.clone(), 0);
    let mut actions = Vec::new();
    for (entity, fields) in writable_entities_with_fields(scenario, 7) {
        for (name, value) in fields_with_hostile_texts(entity, &hostile_texts, &mut start) {
            actions.push(Action::create_with(entity, &fields, &name, value));
        }
    }
    scenario.expect_isolated(actions).await
}

async fn updated_fields_with_hostile_texts_reach_no_other_tenant(scenario: &mut Scenario) -> Result<(), Failure> {
    let (hostile_texts, mut start) = (scenario.hostile_texts.clone(), 1);
    let mut actions = Vec::new();
    for own in own_item_of_each_entity(scenario) {
        let entity = scenario.entity(&own.entity)?;
        for (name, value) in fields_with_hostile_texts(entity, &hostile_texts, &mut start) {
            let back = own.fields.get(&name).cloned().unwrap_or_default();
            actions.extend([value, back].map(|value| Action::set(own, &name, value)));
        }
    }
    scenario.expect_isolated(actions).await
}

async fn generated_ids_cannot_be_chosen_if_tenants_share_keys(scenario: &mut Scenario) -> Result<(), Failure> {
    let mut actions = Vec::new();
    for (entity, fields) in writable_entities_with_fields(scenario, 7) {
        let made = entity.id_fields().into_iter().find(|path| {
            entity.field(path).is_some_and(|field| field.default == Some(nagaya_design::DefaultValue::New))
        });
        let Some(made) = made.filter(|_| entity.wall != Wall::Key) else { continue };
        for others_items in scenario.others_items.iter().filter(|others_items| others_items.entity == entity.name) {
            let Some(value) = json::value_at(&others_items.fields, made) else { continue };
            actions.push(Action::create_with(entity, &fields, made, value.clone()));
        }
    }
    expect_tried(!actions.is_empty(), "no such ids")?;
    scenario.expect_refused(actions, &["invalid"]).await
}
