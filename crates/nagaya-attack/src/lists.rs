//! Access patterns: parameters of others, patterns of operators, partitions that tenants share.

use nagaya_design::{Access, Returns, Wall};
use nagaya_store::{Item, Store as _, Write, WriteSet};
use serde_json::{Map, Value as Json};

use super::json as values;
use super::{
    action::Action,
    cases,
    forge::{self, as_text},
    trial::{Failure, Trial, holds, json},
    world::{Belonging, NOW, World},
};
use nagaya_tenancy::List;

cases! {
    every_pattern_answers_as_if_the_others_were_not_there,
    a_tenant_among_the_parameters_is_refused,
    parameters_with_delimiters_stay_in_their_place,
    what_is_the_operators_is_walled,
    pages_of_a_shared_partition_do_not_show_how_much_others_have_in_it,
}

/// A list by an access pattern, with the parameters that an item has; `None` when it lacks one.
pub(super) fn list_of(trial: &Trial, access: &Access, fields: &Map<String, Json>) -> Option<List> {
    let mut list = List::by(&access.name);
    for parameter in trial.design.parameters(access) {
        if parameter.from_token || !parameter.required {
            continue;
        }
        list = list.with(&parameter.name, as_text(values::json_at(fields, &parameter.field)?));
    }
    Some(list)
}

/// Lists by all patterns that tenants may use, with parameters of everybody's items.
pub(super) fn lists(trial: &Trial) -> Vec<(Access, List)> {
    let mut found = Vec::new();
    for access in trial.design.accesses.iter().filter(|access| trial.design.wall_of(access) != Wall::System) {
        let entity = &trial.design.entities[access.entity].name;
        let mut asked: Vec<List> = Vec::new();
        for each in trial.own.iter().chain(&trial.theirs).filter(|each| each.entity == *entity) {
            let list = list_of(trial, access, &each.fields);
            asked.extend(list.filter(|list| !asked.contains(list)));
        }
        found.extend(asked.into_iter().take(4).map(|list| (access.clone(), list)));
    }
    found
}

async fn every_pattern_answers_as_if_the_others_were_not_there(trial: &mut Trial) -> Result<(), Failure> {
    let mut actions = Vec::new();
    for (access, list) in trial.lists.clone() {
        if access.returns == Returns::Many {
            actions.extend([1, 2].map(|limit| Action::List(list.clone().limit(limit))));
            actions.push(Action::List(list.clone().limit(2).descending(!access.descending)));
        }
        actions.push(Action::List(list));
    }
    trial.nothing_crosses(actions).await
}

async fn a_tenant_among_the_parameters_is_refused(trial: &mut Trial) -> Result<(), Failure> {
    let victim = trial.victims.first().cloned().unwrap_or_default();
    let mut actions = Vec::new();
    for (access, list) in trial.lists.clone() {
        for parameter in trial.design.parameters(&access).iter().filter(|parameter| parameter.from_token) {
            actions.push(Action::List(list.clone().with(&parameter.name, &victim)));
        }
        let table = &trial.design.tables[trial.design.entities[access.entity].table];
        actions.push(Action::List(list.clone().with("%owner", &victim)));
        if trial.design.parameters(&access).iter().all(|parameter| parameter.name != table.key.partition) {
            actions.push(Action::List(list.with(&table.key.partition, &victim)));
        }
    }
    trial.all_refused(actions, &["invalid"]).await
}

async fn parameters_with_delimiters_stay_in_their_place(trial: &mut Trial) -> Result<(), Failure> {
    let hostile = trial.hostile.clone();
    let mut actions = Vec::new();
    for access in trial.design.accesses.iter().filter(|access| trial.design.wall_of(access) != Wall::System) {
        let entity = &trial.design.entities[access.entity].name;
        let Some(own) = trial.own.iter().find(|own| own.entity == *entity) else { continue };
        let parameters = trial.design.parameters(access);
        for forged in parameters.iter().filter(|parameter| !parameter.from_token) {
            for text in &hostile {
                let mut list = List::by(&access.name).with(&forged.name, text);
                for other in parameters.iter().filter(|other| other.required && !other.from_token) {
                    if let Some(value) =
                        values::json_at(&own.fields, &other.field).filter(|_| other.name != forged.name)
                    {
                        list = list.with(&other.name, as_text(value));
                    }
                }
                actions.push(Action::List(list));
            }
        }
    }
    trial.nothing_crosses(actions).await
}

async fn what_is_the_operators_is_walled(trial: &mut Trial) -> Result<(), Failure> {
    let mut actions = Vec::new();
    for access in trial.design.accesses.iter().filter(|access| trial.design.wall_of(access) == Wall::System) {
        let entity = &trial.design.entities[access.entity].name;
        let of_others = trial.theirs.iter().find(|each| each.entity == *entity);
        let list = of_others.and_then(|each| list_of(trial, access, &each.fields));
        actions.push(Action::List(list.unwrap_or_else(|| List::by(&access.name))));
    }
    for each in trial.theirs.iter().filter(|each| each.tenant.is_none()) {
        let (entity, id) = (&each.entity, &each.id);
        if trial.entity(entity)?.wall == Wall::System {
            actions.push(Action::get(entity, id));
            actions.push(Action::GetMany(vec![(entity.clone(), id.clone())]));
        }
        // What is public and nobody's all read, and only an operator writes.
        actions.push(Action::Create(entity.clone(), each.fields.clone()));
        actions.push(Action::update(entity, id, Map::new()));
        actions.push(Action::delete(entity, id));
        actions.push(Action::Set(vec![Action::delete(entity, id)]));
    }
    if actions.is_empty() {
        return Err(Failure::Nothing("nothing for operators only"));
    }
    trial.all_refused(actions, &["walled"]).await
}

async fn pages_of_a_shared_partition_do_not_show_how_much_others_have_in_it(trial: &mut Trial) -> Result<(), Failure> {
    let mut tried = false;
    for access in trial.design.accesses.clone() {
        if trial.design.wall_of(&access) != Wall::Attribute {
            continue;
        }
        let entity = trial.design.entities[access.entity].name.clone();
        let mut own = trial.own.iter().filter(|own| own.entity == entity);
        let found = own.find_map(|own| Some((own.clone(), list_of(trial, &access, &own.fields)?)));
        let theirs = trial.theirs.iter().find(|each| each.entity == entity);
        let (Some((own, list)), Some(theirs)) = (found, theirs) else { continue };
        let crowd = crowd(trial, &access, &own, theirs, &list)?;
        if crowd.is_empty() {
            continue;
        }
        tried = true;
        write(&trial.lived_in, trial, &entity, &crowd, false).await?;
        let mut seen = Ok(());
        for limit in [1, 2, 50] {
            for descending in [false, true] {
                let action = Action::List(list.clone().limit(limit).descending(descending));
                seen = seen.and(trial.same(&action).await.map(drop));
            }
        }
        write(&trial.lived_in, trial, &entity, &crowd, true).await?;
        seen?;
    }
    if !tried {
        return Err(Failure::Nothing("no partition that tenants share"));
    }
    trial.untouched().await
}

/// How many items of others a shared partition gets: more than the layer reads at once.
const CROWD: usize = 250;

/// Items of somebody else's in the partition that a list asks for.
fn crowd(
    trial: &Trial,
    access: &Access,
    own: &Belonging,
    theirs: &Belonging,
    list: &List,
) -> Result<Vec<Item>, Failure> {
    let entity = trial.entity(&own.entity)?;
    let table = trial.design.table_of(entity);
    let mut items = Vec::new();
    for n in 0..CROWD {
        let mut fields = json(trial.item_of(theirs)?);
        // Under the parameters of the list, and otherwise different.
        for parameter in trial.design.parameters(access).iter().filter(|parameter| parameter.required) {
            if let Some(value) = values::json_at(&own.fields, &parameter.field).filter(|_| !parameter.from_token) {
                values::put_json(&mut fields, &parameter.field, value.clone());
            }
        }
        let fixed: Vec<_> = trial.design.parameters(access).into_iter().map(|parameter| parameter.field).collect();
        let tenant = entity.tenant.as_deref();
        for path in entity.id_fields() {
            if let Some(field) = entity.field(path).filter(|_| !fixed.iter().any(|fixed| fixed == path)) {
                let value = forge::vary(field, 5_000 + n).or_else(|| field.instant(NOW + n as i64 * 1_000));
                if let Some(value) = value.filter(|_| tenant != Some(path)) {
                    values::put_json(&mut fields, path, value);
                }
            }
        }
        for (attribute, value) in trial.design.derived(entity, &fields) {
            let value = value.map_err(|unfit| Failure::new(unfit.to_string()))?;
            match value {
                Some(value) => drop(fields.insert(attribute, value.into())),
                None => drop(fields.remove(&attribute)),
            }
        }
        items.push(fields.into_iter().map(|(name, value)| (name, values::to_store(value))).collect::<Item>());
    }
    let keys = |item: &Item| (item.get(&table.key.partition).cloned(), item.get(&table.key.sort).cloned());
    items.dedup_by(|one, other| keys(one) == keys(other));
    holds(items.len() == CROWD || items.len() <= 1, || format!("{list:?} cannot be crowded: {}", items.len()))?;
    // Where the parameters are the whole key, there is room for one only.
    Ok(if items.len() == CROWD { items } else { Vec::new() })
}

async fn write(world: &World, trial: &Trial, entity: &str, items: &[Item], away: bool) -> Result<(), Failure> {
    let table = trial.design.table_of(trial.entity(entity)?);
    let name = table.physical_name(&trial.design.name);
    let key = nagaya_store::KeySchema::strings(&table.key.partition, &table.key.sort);
    for some in items.chunks(25) {
        let writes = some.iter().filter_map(|item| {
            let key = key.key_of(item)?;
            Some(if away { Write::delete(&name, key) } else { Write::put(&name, item.clone()) })
        });
        world.store.write(writes.collect::<WriteSet>()).await?;
    }
    Ok(())
}
