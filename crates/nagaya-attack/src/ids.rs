//! Ids of others, and ids that are meant to become another key than they should.

use serde_json::Map;

use super::{
    action::Action,
    cases,
    door::UNASKED,
    trial::{Failure, Trial},
};

cases! {
    ids_of_others_are_not_there,
    ids_of_others_are_not_there_under_other_names,
    ids_with_delimiters_stay_in_their_place,
    ids_of_the_wrong_length_are_nobodys,
}

/// Everything that can be done with an id.
fn with(entity: &str, id: &[String]) -> Vec<Action> {
    vec![
        Action::get(entity, id),
        Action::GetMany(vec![(entity.to_owned(), id.to_vec())]),
        Action::update(entity, id, Map::new()),
        Action::Update(entity.to_owned(), id.to_vec(), Map::new(), Some(1)),
        Action::Update(entity.to_owned(), id.to_vec(), Map::new(), Some(99)),
        Action::Delete(entity.to_owned(), id.to_vec(), Some(99)),
    ]
}

async fn ids_of_others_are_not_there(trial: &mut Trial) -> Result<(), Failure> {
    // An id that the attacker has too is the attacker's own.
    let is_own = |entity: &str, id: &[String]| trial.own.iter().any(|own| own.entity == entity && own.id == id);
    let theirs: Vec<_> = trial.theirs.iter().filter(|each| !is_own(&each.entity, &each.id)).cloned().collect();
    let hidden: Vec<_> = trial.hidden().filter(|each| !is_own(&each.entity, &each.id)).cloned().collect();
    for each in trial.some(&hidden) {
        for action in with(&each.entity, &each.id).into_iter().chain([Action::delete(&each.entity, &each.id)]) {
            let seen = trial.same(&action).await?;
            let missing = matches!(action, Action::GetMany(_)) && seen.text == "none";
            if !missing && !matches!(seen.code.as_str(), "not_found" | "walled" | UNASKED) {
                return Err(Failure::new(format!("{action:?} gives {seen:?}")));
            }
        }
    }
    let all = theirs.iter().filter(|each| !each.id.is_empty()).take(90);
    let many = all
        .map(|each| (each.entity.clone(), each.id.clone()))
        .filter(|(entity, _)| trial.design.entity(entity).is_some_and(super::world::is_private));
    let many = Action::GetMany(many.collect());
    trial.nothing_crosses([many]).await?;
    // What is public is read by all and written by its owner.
    for each in trial.some(theirs) {
        let public = trial.entity(&each.entity)?.wall == nagaya_design::Wall::Public;
        if public {
            trial.same(&Action::get(&each.entity, &each.id)).await?;
            for action in [Action::update(&each.entity, &each.id, Map::new()), Action::delete(&each.entity, &each.id)] {
                let seen = trial.same(&action).await?;
                if !matches!(seen.code.as_str(), "not_found" | "walled" | UNASKED) {
                    return Err(Failure::new(format!("{action:?} gives {seen:?}")));
                }
            }
        }
    }
    trial.untouched().await
}

async fn ids_of_others_are_not_there_under_other_names(trial: &mut Trial) -> Result<(), Failure> {
    let mut actions = Vec::new();
    for each in trial.hidden() {
        for entity in trial.design.entities.iter().filter(|entity| entity.id_fields().len() == each.id.len()) {
            actions.push(Action::get(&entity.name, &each.id));
        }
    }
    trial.nothing_crosses(actions).await
}

async fn ids_with_delimiters_stay_in_their_place(trial: &mut Trial) -> Result<(), Failure> {
    let hostile = trial.hostile.clone();
    let mut actions = Vec::new();
    for own in first_of_each(trial) {
        for at in 0..own.1.len() {
            for text in &hostile {
                for forged in [text.clone(), format!("{}{text}", own.1[at]), format!("{text}{}", own.1[at])] {
                    let mut id = own.1.clone();
                    id[at] = forged;
                    actions.push(Action::get(&own.0, &id));
                }
                let mut id = own.1.clone();
                id[at].clone_from(text);
                actions.push(Action::update(&own.0, &id, Map::new()));
                actions.push(Action::delete(&own.0, &id));
            }
        }
    }
    trial.nothing_crosses(actions).await
}

async fn ids_of_the_wrong_length_are_nobodys(trial: &mut Trial) -> Result<(), Failure> {
    let victim = trial.victims.first().cloned().unwrap_or_default();
    let mut actions = Vec::new();
    for (entity, id) in first_of_each(trial) {
        let longer = [vec![victim.clone()], id.clone()].concat();
        let after = [id.clone(), vec![victim.clone()]].concat();
        let shorter = id[..id.len().saturating_sub(1)].to_vec();
        for id in [longer, after].into_iter().chain(Some(shorter).filter(|_| !id.is_empty())) {
            actions.push(Action::get(&entity, &id));
            actions.push(Action::update(&entity, &id, Map::new()));
            actions.push(Action::delete(&entity, &id));
        }
    }
    trial.all_refused(actions, &["not_found"]).await
}

/// An id of the attacker's own for each entity.
fn first_of_each(trial: &Trial) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for own in &trial.own {
        if found.iter().all(|(entity, _)| *entity != own.entity) {
            found.push((own.entity.clone(), own.id.clone()));
        }
    }
    found
}
