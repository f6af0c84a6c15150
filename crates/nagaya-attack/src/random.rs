//! Random attacks, each on what the ones before left behind.

use nagaya_design::Wall;
use nagaya_seed::Rng;
use serde_json::{Map, Value as Json};

use super::{
    action::Action,
    cases, fields,
    scenario::{Failure, Scenario},
    values,
};

cases! {
    random_attacks_see_nothing_and_change_nothing,
}

async fn random_attacks_see_nothing_and_change_nothing(scenario: &mut Scenario) -> Result<(), Failure> {
    let mut rng = Rng::new(scenario.options.seed, &[], [0; 2]);
    for step in 0..scenario.options.steps {
        let Some(action) = attack(scenario, &mut rng) else { continue };
        scenario.expect_same_answer(&action).await?;
        if step % 50 == 49 {
            scenario.expect_only_attacker_items_changed().await?;
        }
    }
    scenario.expect_only_attacker_items_changed().await
}

/// A random attack; `None` when the design has nothing for it.
fn attack(scenario: &Scenario, rng: &mut Rng) -> Option<Action> {
    match rng.below(8) {
        0 | 1 => change(scenario, rng),
        2 => Some(Action::Set((0..1 + rng.below(3)).filter_map(|_| change(scenario, rng)).collect())),
        3 => {
            let (entity, id) = target(scenario, rng)?;
            Some(Action::get(&entity, &id))
        }
        4 => Some(Action::GetMany((0..1 + rng.below(4)).filter_map(|_| target(scenario, rng)).collect())),
        _ => {
            let (_, list) = rng.pick(&scenario.lists)?;
            let list = list.clone().limit(1 + rng.below(4));
            Some(Action::List(if rng.below(4) == 0 { list.descending(rng.below(2) == 0) } else { list }))
        }
    }
}

fn change(scenario: &Scenario, rng: &mut Rng) -> Option<Action> {
    if rng.below(3) == 0 {
        let drafts = fields::writable_entities_with_fields(scenario, 20 + rng.below(20));
        let (entity, fields) = rng.pick(&drafts)?;
        let mut fields = fields.clone();
        for field in &entity.fields {
            let chosen = rng.below(4) == 0 && fields.contains_key(&field.name) && field.reference.is_none();
            // A value that all tenants share reveals that it is taken; no other tenant has these.
            let shared = entity.wall != Wall::Key || entity.unique.iter().any(|unique| !unique.within_tenant);
            if let Some(value) = values::nth_value(field, 60_000 + rng.below(6)).filter(|_| chosen && !shared) {
                fields.insert(field.name.clone(), value);
            }
        }
        return Some(Action::Create(entity.name.clone(), fields));
    }
    let (entity, id) = target(scenario, rng)?;
    let expected = [None, None, Some(1), Some(2)][rng.below(4)];
    if rng.below(4) == 0 {
        return Some(Action::Delete(entity, id, expected));
    }
    Some(Action::Update(entity.clone(), id, patch(scenario, rng, &entity), expected))
}

/// An id of any tenant, sometimes with a part replaced by a hostile text.
fn target(scenario: &Scenario, rng: &mut Rng) -> Option<(String, Vec<String>)> {
    let from = if rng.below(2) == 0 { &scenario.own_items } else { &scenario.others_items };
    let each = rng.pick(from)?;
    let mut id = each.id.clone();
    if rng.below(5) == 0 {
        let at = rng.below(id.len());
        if let (Some(part), Some(text)) = (id.get_mut(at), rng.pick(&scenario.hostile_texts)) {
            part.clone_from(text);
        }
    }
    Some((each.entity.clone(), id))
}

fn patch(scenario: &Scenario, rng: &mut Rng, entity: &str) -> Map<String, Json> {
    let mut patch = Map::new();
    let Some(entity) = scenario.design.entity(entity) else { return patch };
    for _ in 0..1 + rng.below(3) {
        let Some(field) = rng.pick(&entity.fields) else { continue };
        let value = match rng.below(5) {
            0 => Some(Json::Null),
            1 => scenario
                .others_items
                .iter()
                .find(|each| each.entity == entity.name)
                .and_then(|each| each.fields.get(&field.name).cloned()),
            2 => rng.pick(&scenario.victims).map(|victim| victim.as_str().into()),
            _ => values::nth_value(field, rng.below(5)),
        };
        let shared = entity.unique.iter().any(|unique| !unique.within_tenant && unique.fields.contains(&field.name));
        if let Some(value) = value.filter(|_| !shared) {
            patch.insert(field.name.clone(), value);
        }
    }
    patch
}
