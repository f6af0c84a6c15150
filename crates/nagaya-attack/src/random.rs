//! Attacks in no order, each with what the ones before left behind.

use nagaya_design::Wall;
use serde_json::{Map, Value as Json};

use super::{
    action::Action,
    cases, fields,
    forge::{self, Luck},
    trial::{Failure, Trial},
};

cases! {
    random_attacks_see_nothing_and_change_nothing,
}

async fn random_attacks_see_nothing_and_change_nothing(trial: &mut Trial) -> Result<(), Failure> {
    let mut luck = Luck::new(trial.options.seed);
    for step in 0..trial.options.steps {
        let Some(action) = attack(trial, &mut luck) else { continue };
        trial.same(&action).await?;
        if step % 50 == 49 {
            trial.untouched().await?;
        }
    }
    trial.untouched().await
}

/// Some attack; `None` when there is nothing to attack with.
fn attack(trial: &Trial, luck: &mut Luck) -> Option<Action> {
    match luck.below(8) {
        0 | 1 => change(trial, luck),
        2 => Some(Action::Set((0..1 + luck.below(3)).filter_map(|_| change(trial, luck)).collect())),
        3 => {
            let (entity, id) = target(trial, luck)?;
            Some(Action::get(&entity, &id))
        }
        4 => Some(Action::GetMany((0..1 + luck.below(4)).filter_map(|_| target(trial, luck)).collect())),
        _ => {
            let (_, list) = luck.pick(&trial.lists)?;
            let list = list.clone().limit(1 + luck.below(4));
            Some(Action::List(if luck.below(4) == 0 { list.descending(luck.below(2) == 0) } else { list }))
        }
    }
}

fn change(trial: &Trial, luck: &mut Luck) -> Option<Action> {
    if luck.below(3) == 0 {
        let drafts = fields::drafts(trial, 20 + luck.below(20));
        let (entity, fields) = luck.pick(&drafts)?;
        let mut fields = fields.clone();
        for field in &entity.fields {
            let chosen = luck.below(4) == 0 && fields.contains_key(&field.name) && field.reference.is_none();
            // What is shared by all tenants tells who was first; those numbers nobody else has.
            let shared = entity.wall != Wall::Key || entity.unique.iter().any(|unique| !unique.within_tenant);
            if let Some(value) = forge::vary(field, 60_000 + luck.below(6)).filter(|_| chosen && !shared) {
                fields.insert(field.name.clone(), value);
            }
        }
        return Some(Action::Create(entity.name.clone(), fields));
    }
    let (entity, id) = target(trial, luck)?;
    let expected = [None, None, Some(1), Some(2)][luck.below(4)];
    if luck.below(4) == 0 {
        return Some(Action::Delete(entity, id, expected));
    }
    Some(Action::Update(entity.clone(), id, patch(trial, luck, &entity), expected))
}

/// An id of somebody's, perhaps with a part of somebody else's.
fn target(trial: &Trial, luck: &mut Luck) -> Option<(String, Vec<String>)> {
    let from = if luck.below(2) == 0 { &trial.own } else { &trial.theirs };
    let each = luck.pick(from)?;
    let mut id = each.id.clone();
    if luck.below(5) == 0 {
        let at = luck.below(id.len());
        if let (Some(part), Some(text)) = (id.get_mut(at), luck.pick(&trial.hostile)) {
            part.clone_from(text);
        }
    }
    Some((each.entity.clone(), id))
}

fn patch(trial: &Trial, luck: &mut Luck, entity: &str) -> Map<String, Json> {
    let mut patch = Map::new();
    let Some(entity) = trial.design.entity(entity) else { return patch };
    for _ in 0..1 + luck.below(3) {
        let Some(field) = luck.pick(&entity.fields) else { continue };
        let value = match luck.below(5) {
            0 => Some(Json::Null),
            1 => trial
                .theirs
                .iter()
                .find(|each| each.entity == entity.name)
                .and_then(|each| each.fields.get(&field.name).cloned()),
            2 => luck.pick(&trial.victims).map(|victim| victim.as_str().into()),
            _ => forge::vary(field, luck.below(5)),
        };
        let shared = entity.unique.iter().any(|unique| !unique.within_tenant && unique.fields.contains(&field.name));
        if let Some(value) = value.filter(|_| !shared) {
            patch.insert(field.name.clone(), value);
        }
    }
    patch
}
