//! Ids of others, and ids that are meant to become another key than they should.

use serde_json::Map;

use super::{
    action::Action,
    cases,
    environment::OwnedItem,
    fields,
    gateway::UNSUPPORTED,
    scenario::{Failure, Scenario},
};

cases! {
    ids_of_other_tenants_are_not_found,
    ids_of_other_tenants_are_not_found_in_other_entities,
    ids_with_delimiters_reach_no_other_tenant,
    ids_with_a_wrong_number_of_parts_are_not_found,
}

/// Everything that can be done with an id.
fn actions_with_id(entity: &str, id: &[String]) -> Vec<Action> {
    vec![
        Action::get(entity, id),
        Action::GetMany(vec![(entity.to_owned(), id.to_vec())]),
        Action::update(entity, id, Map::new()),
        Action::Update(entity.to_owned(), id.to_vec(), Map::new(), Some(1)),
        Action::Update(entity.to_owned(), id.to_vec(), Map::new(), Some(99)),
        Action::Delete(entity.to_owned(), id.to_vec(), Some(99)),
    ]
}

async fn ids_of_other_tenants_are_not_found(scenario: &mut Scenario) -> Result<(), Failure> {
    // An id that the attacker has too is the attacker's own.
    let is_own =
        |entity: &str, id: &[String]| scenario.own_items.iter().any(|own| own.entity == entity && own.id == id);
    let others_items: Vec<_> =
        scenario.others_items.iter().filter(|each| !is_own(&each.entity, &each.id)).cloned().collect();
    let walled_items: Vec<_> =
        scenario.walled_items().filter(|each| !is_own(&each.entity, &each.id)).cloned().collect();
    for each in scenario.sample(&walled_items) {
        for action in
            actions_with_id(&each.entity, &each.id).into_iter().chain([Action::delete(&each.entity, &each.id)])
        {
            let seen = scenario.expect_same_answer(&action).await?;
            let missing = matches!(action, Action::GetMany(_)) && seen.text == "none";
            if !missing && !matches!(seen.code.as_str(), "not_found" | "walled" | UNSUPPORTED) {
                return Err(Failure::new(format!("{action:?} gives {seen:?}")));
            }
        }
    }
    let all = others_items.iter().filter(|each| !each.id.is_empty()).take(90);
    let many = all
        .map(|each| (each.entity.clone(), each.id.clone()))
        .filter(|(entity, _)| scenario.design.entity(entity).is_some_and(super::environment::is_private));
    let many = Action::GetMany(many.collect());
    scenario.expect_isolated([many]).await?;
    // Public items are read by all callers and written by their owner.
    for each in scenario.sample(others_items) {
        let public = scenario.entity(&each.entity)?.wall == nagaya_design::Wall::Public;
        if public {
            scenario.expect_same_answer(&Action::get(&each.entity, &each.id)).await?;
            for action in [Action::update(&each.entity, &each.id, Map::new()), Action::delete(&each.entity, &each.id)] {
                let seen = scenario.expect_same_answer(&action).await?;
                if !matches!(seen.code.as_str(), "not_found" | "walled" | UNSUPPORTED) {
                    return Err(Failure::new(format!("{action:?} gives {seen:?}")));
                }
            }
        }
    }
    scenario.expect_only_attacker_items_changed().await
}

async fn ids_of_other_tenants_are_not_found_in_other_entities(scenario: &mut Scenario) -> Result<(), Failure> {
    let mut actions = Vec::new();
    for each in scenario.walled_items() {
        for entity in scenario.design.entities.iter().filter(|entity| entity.id_fields().len() == each.id.len()) {
            actions.push(Action::get(&entity.name, &each.id));
        }
    }
    scenario.expect_isolated(actions).await
}

async fn ids_with_delimiters_reach_no_other_tenant(scenario: &mut Scenario) -> Result<(), Failure> {
    let hostile_texts = scenario.hostile_texts.clone();
    let mut actions = Vec::new();
    for OwnedItem { entity, id: own, .. } in fields::own_item_of_each_entity(scenario) {
        for (at, part) in own.iter().enumerate() {
            for text in &hostile_texts {
                let forged = [text.clone(), format!("{part}{text}"), format!("{text}{part}")].map(|forged| {
                    let mut id = own.clone();
                    id[at] = forged;
                    id
                });
                actions.extend(forged.iter().map(|id| Action::get(entity, id)));
                actions.push(Action::update(entity, &forged[0], Map::new()));
                actions.push(Action::delete(entity, &forged[0]));
            }
        }
    }
    scenario.expect_isolated(actions).await
}

async fn ids_with_a_wrong_number_of_parts_are_not_found(scenario: &mut Scenario) -> Result<(), Failure> {
    let victim = scenario.victims.first().cloned().unwrap_or_default();
    let mut actions = Vec::new();
    for OwnedItem { entity, id, .. } in fields::own_item_of_each_entity(scenario) {
        let longer = [vec![victim.clone()], id.clone()].concat();
        let after = [id.clone(), vec![victim.clone()]].concat();
        let shorter = id[..id.len().saturating_sub(1)].to_vec();
        for id in [longer, after].into_iter().chain(Some(shorter).filter(|_| !id.is_empty())) {
            actions.push(Action::get(entity, &id));
            actions.push(Action::update(entity, &id, Map::new()));
            actions.push(Action::delete(entity, &id));
        }
    }
    scenario.expect_refused(actions, &["not_found"]).await
}
