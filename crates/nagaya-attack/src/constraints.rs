//! Uniqueness and references as oracles, and write sets that name others' items.

use nagaya_design::{DefaultValue, Entity, Field, Wall};
use serde_json::{Map, Value as Json};

use super::json;
use super::{
    action::Action,
    cases, fields,
    gateway::UNSUPPORTED,
    scenario::{Failure, Scenario, expect, expect_tried},
    values,
};

cases! {
    unique_values_of_other_tenants_are_free,
    references_to_items_of_other_tenants_are_not_found,
    change_sets_with_another_tenant_are_refused,
    change_sets_with_items_of_other_tenants_are_refused,
}

async fn unique_values_of_other_tenants_are_free(scenario: &mut Scenario) -> Result<(), Failure> {
    let mut actions = Vec::new();
    for (entity, fields) in fields::writable_entities_with_fields(scenario, 8) {
        for unique in entity.unique.iter().filter(|unique| unique.within_tenant) {
            for others_items in
                scenario.others_items.iter().filter(|others_items| others_items.entity == entity.name).take(6)
            {
                let mut fields = fields.clone();
                for path in &unique.fields {
                    if let Some(value) = json::value_at(&others_items.fields, path) {
                        json::set_at_path(&mut fields, path, value.clone());
                    }
                }
                actions.push(Action::Create(entity.name.clone(), fields.clone()));
                if let Some(own) = scenario.own_items.iter().find(|own| own.entity == entity.name) {
                    let patch = unique.fields.iter().filter_map(|path| Some((path.clone(), fields.get(path)?.clone())));
                    actions.push(Action::update(&own.entity, &own.id, patch.collect()));
                }
            }
        }
    }
    expect_tried(!actions.is_empty(), "nothing unique within a tenant")?;
    scenario.expect_isolated(actions).await
}

async fn references_to_items_of_other_tenants_are_not_found(scenario: &mut Scenario) -> Result<(), Failure> {
    let mut tried = false;
    let drafts: Vec<(Entity, Map<String, Json>)> = fields::writable_entities_with_fields(scenario, 9)
        .into_iter()
        .map(|(entity, fields)| (entity.clone(), fields))
        .collect();
    for (entity, fields) in scenario.sample(drafts) {
        // The tenant and the caller come from the token.
        let is_chosen = |field: &&Field| {
            entity.tenant.as_deref() != Some(field.name.as_str()) && field.default != Some(DefaultValue::Caller)
        };
        for field in entity.fields.iter().filter(is_chosen) {
            let Some(target) = field.reference.as_ref().map(|reference| reference.entity.clone()) else { continue };
            let is_own = |id: &[String]| scenario.own_items.iter().any(|own| own.entity == target && own.id == id);
            let of_target = scenario
                .others_items
                .iter()
                .filter(|others_items| others_items.entity == target && !is_own(&others_items.id));
            let others_items: Vec<String> =
                of_target.filter_map(|others_items| others_items.id.first().cloned()).take(4).collect();
            let Some(nothing) = values::nth_value(field, 77_777) else { continue };
            let create = |value: Json| Action::create_with(&entity, &fields, &field.name, value);
            let expected = scenario.expect_same_answer(&create(nothing)).await?;
            expect(["no_reference", UNSUPPORTED].contains(&expected.code.as_str()), || {
                format!("{} refers to nothing: {expected:?}", entity.name)
            })?;
            for id in others_items {
                // An id that the attacker has taken since is the attacker's own.
                if scenario.expect_same_answer(&Action::get(&target, std::slice::from_ref(&id))).await?.code == "ok" {
                    continue;
                }
                tried = true;
                let seen = scenario.expect_same_answer(&create(id.into())).await?;
                expect(seen == expected, || {
                    format!("{}.{} to others: {seen:?}\nto nothing: {expected:?}", entity.name, field.name)
                })?;
            }
        }
    }
    expect_tried(tried, "no references")?;
    scenario.expect_only_attacker_items_changed().await
}

async fn change_sets_with_another_tenant_are_refused(scenario: &mut Scenario) -> Result<(), Failure> {
    let victim = scenario.victims.first().cloned().unwrap_or_default();
    let mut actions = Vec::new();
    for (entity, fields) in fields::writable_entities_with_fields(scenario, 10) {
        let tenant = entity.tenant.as_deref().unwrap_or_default();
        let forged = Action::create_with(entity, &fields, tenant, victim.as_str().into());
        let fine = Action::Create(entity.name.clone(), fields);
        actions.push(Action::Set(vec![fine.clone(), forged.clone()]));
        actions.push(Action::Set(vec![forged, fine]));
    }
    scenario.expect_refused(actions, &["invalid"]).await
}

async fn change_sets_with_items_of_other_tenants_are_refused(scenario: &mut Scenario) -> Result<(), Failure> {
    let mut actions = Vec::new();
    for (entity, fields) in fields::writable_entities_with_fields(scenario, 11) {
        let fine = Action::Create(entity.name.clone(), fields);
        let Some(others_items) = scenario.others_items.iter().find(|each| each.entity == entity.name) else { continue };
        let (name, id) = (&others_items.entity, &others_items.id);
        // An id that the attacker has too is the attacker's own.
        let is_own =
            scenario.expect_same_answer(&Action::get(name, id)).await?.code == "ok" && entity.wall != Wall::Public;
        if is_own {
            continue;
        }
        actions.push(Action::Set(vec![fine.clone(), Action::update(name, id, Map::new())]));
        actions.push(Action::Set(vec![fine, Action::delete(name, id)]));
    }
    // A change set cannot delete an item that others may refer to, even if it belongs to the caller.
    scenario.expect_refused(actions, &["not_found", "invalid"]).await
}
