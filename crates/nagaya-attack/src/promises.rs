//! Uniqueness and references as oracles, and write sets that reach for others.

use nagaya_design::{Entity, Wall};
use serde_json::{Map, Value as Json};

use super::json as values;
use super::{
    action::Action,
    cases,
    door::UNASKED,
    fields, forge,
    trial::{Failure, Trial, holds},
};

cases! {
    values_that_others_have_are_free,
    references_to_others_are_references_to_nothing,
    sets_that_name_another_tenant_do_nothing,
    sets_that_name_others_items_do_nothing,
}

async fn values_that_others_have_are_free(trial: &mut Trial) -> Result<(), Failure> {
    let mut actions = Vec::new();
    for (entity, fields) in fields::drafts(trial, 8) {
        for unique in entity.unique.iter().filter(|unique| unique.within_tenant) {
            for theirs in trial.theirs.iter().filter(|theirs| theirs.entity == entity.name).take(6) {
                let mut fields = fields.clone();
                for path in &unique.fields {
                    if let Some(value) = values::json_at(&theirs.fields, path) {
                        values::put_json(&mut fields, path, value.clone());
                    }
                }
                actions.push(Action::Create(entity.name.clone(), fields.clone()));
                if let Some(own) = trial.own.iter().find(|own| own.entity == entity.name) {
                    let patch = unique.fields.iter().filter_map(|path| Some((path.clone(), fields.get(path)?.clone())));
                    actions.push(Action::update(&own.entity, &own.id, patch.collect()));
                }
            }
        }
    }
    if actions.is_empty() {
        return Err(Failure::Nothing("nothing unique within a tenant"));
    }
    trial.nothing_crosses(actions).await
}

async fn references_to_others_are_references_to_nothing(trial: &mut Trial) -> Result<(), Failure> {
    let mut tried = false;
    let drafts: Vec<(Entity, Map<String, Json>)> =
        fields::drafts(trial, 9).into_iter().map(|(entity, fields)| (entity.clone(), fields)).collect();
    for (entity, fields) in trial.some(drafts) {
        for field in entity.fields.iter().filter(|field| entity.tenant.as_deref() != Some(field.name.as_str())) {
            let Some(target) = field.reference.as_ref().map(|reference| reference.entity.clone()) else { continue };
            let is_own = |id: &[String]| trial.own.iter().any(|own| own.entity == target && own.id == id);
            let of_target = trial.theirs.iter().filter(|theirs| theirs.entity == target && !is_own(&theirs.id));
            let theirs: Vec<String> = of_target.filter_map(|theirs| theirs.id.first().cloned()).take(4).collect();
            let Some(nothing) = forge::vary(field, 77_777) else { continue };
            let create = |value: Json| {
                let mut fields = fields.clone();
                fields.insert(field.name.clone(), value);
                Action::Create(entity.name.clone(), fields)
            };
            let expected = trial.same(&create(nothing)).await?;
            holds(["no_reference", UNASKED].contains(&expected.code.as_str()), || {
                format!("{} refers to nothing: {expected:?}", entity.name)
            })?;
            for id in theirs {
                // An id that the attacker has taken since is the attacker's own.
                if trial.same(&Action::get(&target, std::slice::from_ref(&id))).await?.code == "ok" {
                    continue;
                }
                tried = true;
                let seen = trial.same(&create(id.into())).await?;
                holds(seen == expected, || {
                    format!("{}.{} to others: {seen:?}\nto nothing: {expected:?}", entity.name, field.name)
                })?;
            }
        }
    }
    if !tried {
        return Err(Failure::Nothing("no references"));
    }
    trial.untouched().await
}

async fn sets_that_name_another_tenant_do_nothing(trial: &mut Trial) -> Result<(), Failure> {
    let victim = trial.victims.first().cloned().unwrap_or_default();
    let mut actions = Vec::new();
    for (entity, fields) in fields::drafts(trial, 10) {
        let fine = Action::Create(entity.name.clone(), fields.clone());
        let mut forged = fields;
        values::put_json(&mut forged, entity.tenant.as_deref().unwrap_or_default(), victim.as_str().into());
        let forged = Action::Create(entity.name.clone(), forged);
        actions.push(Action::Set(vec![fine.clone(), forged.clone()]));
        actions.push(Action::Set(vec![forged, fine]));
    }
    trial.all_refused(actions, &["invalid"]).await
}

async fn sets_that_name_others_items_do_nothing(trial: &mut Trial) -> Result<(), Failure> {
    let mut actions = Vec::new();
    for (entity, fields) in fields::drafts(trial, 11) {
        let fine = Action::Create(entity.name.clone(), fields);
        let Some(theirs) = trial.theirs.iter().find(|each| each.entity == entity.name) else { continue };
        let (name, id) = (&theirs.entity, &theirs.id);
        // An id that the attacker has too is the attacker's own.
        let is_own = trial.same(&Action::get(name, id)).await?.code == "ok" && entity.wall != Wall::Public;
        if is_own {
            continue;
        }
        actions.push(Action::Set(vec![fine.clone(), Action::update(name, id, Map::new())]));
        actions.push(Action::Set(vec![fine, Action::delete(name, id)]));
    }
    // What can be referred to is not deleted in a set, whosever it is.
    trial.all_refused(actions, &["not_found", "invalid"]).await
}
