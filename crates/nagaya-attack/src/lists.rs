//! Access patterns: parameters of others, patterns of operators, partitions that tenants share.

use nagaya_design::{AccessPattern, ResultKind, Wall};
use nagaya_store::{Item, Write, WriteSet};
use serde_json::{Map, Value as Json};

use super::json;
use super::{
    action::Action,
    cases,
    environment::{Environment, NOW_MILLIS, OwnedItem},
    scenario::{Failure, Scenario, expect, expect_tried, item_to_json, item_with_fields},
    values::{self, as_text},
};
use nagaya_tenancy::List;

cases! {
    lists_are_the_same_with_and_without_other_tenants,
    a_tenant_among_the_parameters_is_refused,
    parameters_with_delimiters_reach_no_other_tenant,
    items_and_lists_of_operators_are_refused,
    pages_of_a_shared_partition_do_not_reveal_the_number_of_items_of_others,
}

/// A list by an access pattern, with the parameters that an item has; `None` when it lacks one.
pub(super) fn list_of(scenario: &Scenario, access: &AccessPattern, fields: &Map<String, Json>) -> Option<List> {
    let mut list = List::by(&access.name);
    for parameter in scenario.design.parameters(access) {
        if parameter.from_token || !parameter.required {
            continue;
        }
        list = list.with(&parameter.name, as_text(json::value_at(fields, &parameter.field)?));
    }
    Some(list)
}

/// Lists by all patterns that tenants may use, with parameters of everybody's items.
pub(super) fn lists(scenario: &Scenario) -> Vec<(AccessPattern, List)> {
    let mut found = Vec::new();
    for access in scenario.tenant_patterns() {
        let entity = &scenario.design.entities[access.entity].name;
        let mut asked: Vec<List> = Vec::new();
        for each in scenario.own_items.iter().chain(&scenario.others_items).filter(|each| each.entity == *entity) {
            let list = list_of(scenario, access, &each.fields);
            asked.extend(list.filter(|list| !asked.contains(list)));
        }
        found.extend(asked.into_iter().take(4).map(|list| (access.clone(), list)));
    }
    found
}

async fn lists_are_the_same_with_and_without_other_tenants(scenario: &mut Scenario) -> Result<(), Failure> {
    let mut actions = Vec::new();
    for (access, list) in scenario.lists.clone() {
        if access.returns == ResultKind::Many {
            actions.extend([1, 2].map(|limit| Action::List(list.clone().limit(limit))));
            actions.push(Action::List(list.clone().limit(2).descending(!access.descending)));
        }
        actions.push(Action::List(list));
    }
    scenario.expect_isolated(actions).await
}

async fn a_tenant_among_the_parameters_is_refused(scenario: &mut Scenario) -> Result<(), Failure> {
    let victim = scenario.victims.first().cloned().unwrap_or_default();
    let mut actions = Vec::new();
    for (access, list) in scenario.lists.clone() {
        for parameter in scenario.design.parameters(&access).iter().filter(|parameter| parameter.from_token) {
            actions.push(Action::List(list.clone().with(&parameter.name, &victim)));
        }
        let table = &scenario.design.tables[scenario.design.entities[access.entity].table];
        actions.push(Action::List(list.clone().with("%owner", &victim)));
        if scenario.design.parameters(&access).iter().all(|parameter| parameter.name != table.key.partition) {
            actions.push(Action::List(list.with(&table.key.partition, &victim)));
        }
    }
    scenario.expect_refused(actions, &["invalid"]).await
}

async fn parameters_with_delimiters_reach_no_other_tenant(scenario: &mut Scenario) -> Result<(), Failure> {
    let hostile_texts = scenario.hostile_texts.clone();
    let mut actions = Vec::new();
    for access in scenario.tenant_patterns() {
        let entity = &scenario.design.entities[access.entity].name;
        let Some(own) = scenario.own_items.iter().find(|own| own.entity == *entity) else { continue };
        let parameters = scenario.design.parameters(access);
        for forged in parameters.iter().filter(|parameter| !parameter.from_token) {
            for text in &hostile_texts {
                let mut list = List::by(&access.name).with(&forged.name, text);
                for other in parameters.iter().filter(|other| other.required && !other.from_token) {
                    if let Some(value) = json::value_at(&own.fields, &other.field).filter(|_| other.name != forged.name)
                    {
                        list = list.with(&other.name, as_text(value));
                    }
                }
                actions.push(Action::List(list));
            }
        }
    }
    scenario.expect_isolated(actions).await
}

async fn items_and_lists_of_operators_are_refused(scenario: &mut Scenario) -> Result<(), Failure> {
    let mut actions = Vec::new();
    for access in
        scenario.design.access_patterns.iter().filter(|access| scenario.design.wall_of(access) == Wall::System)
    {
        let entity = &scenario.design.entities[access.entity].name;
        let of_others = scenario.others_items.iter().find(|each| each.entity == *entity);
        let list = of_others.and_then(|each| list_of(scenario, access, &each.fields));
        actions.push(Action::List(list.unwrap_or_else(|| List::by(&access.name))));
    }
    for each in scenario.others_items.iter().filter(|each| each.tenant.is_none()) {
        let (entity, id) = (&each.entity, &each.id);
        if scenario.entity(entity)?.wall == Wall::System {
            actions.push(Action::get(entity, id));
            actions.push(Action::GetMany(vec![(entity.clone(), id.clone())]));
        }
        // Public items without a tenant are read by all and written by operators only.
        actions.push(Action::Create(entity.clone(), each.fields.clone()));
        actions.push(Action::update(entity, id, Map::new()));
        actions.push(Action::delete(entity, id));
        actions.push(Action::Set(vec![Action::delete(entity, id)]));
    }
    expect_tried(!actions.is_empty(), "nothing for operators only")?;
    scenario.expect_refused(actions, &["walled"]).await
}

async fn pages_of_a_shared_partition_do_not_reveal_the_number_of_items_of_others(
    scenario: &mut Scenario,
) -> Result<(), Failure> {
    let mut tried = false;
    for access in scenario.design.access_patterns.clone() {
        if scenario.design.wall_of(&access) != Wall::Attribute {
            continue;
        }
        let entity = scenario.design.entities[access.entity].name.clone();
        let mut own = scenario.own_items.iter().filter(|own| own.entity == entity);
        let found = own.find_map(|own| Some((own.clone(), list_of(scenario, &access, &own.fields)?)));
        let others_items = scenario.others_items.iter().find(|each| each.entity == entity);
        let (Some((own, list)), Some(others_items)) = (found, others_items) else { continue };
        let filler_items = filler_items(scenario, &access, &own, others_items, &list)?;
        if filler_items.is_empty() {
            continue;
        }
        tried = true;
        write_directly(&scenario.populated, scenario, &entity, &filler_items, false).await?;
        let mut seen = Ok(());
        for limit in [1, 2, 50] {
            for descending in [false, true] {
                let action = Action::List(list.clone().limit(limit).descending(descending));
                seen = seen.and(scenario.expect_same_answer(&action).await.map(drop));
            }
        }
        write_directly(&scenario.populated, scenario, &entity, &filler_items, true).await?;
        seen?;
    }
    expect_tried(tried, "no partition that tenants share")?;
    scenario.expect_only_attacker_items_changed().await
}

/// How many items of others a shared partition gets: more than the layer reads at once.
const FILLER_ITEM_COUNT: usize = 250;

/// Items of another tenant in the partition that a list reads.
fn filler_items(
    scenario: &Scenario,
    access: &AccessPattern,
    own: &OwnedItem,
    others_items: &OwnedItem,
    list: &List,
) -> Result<Vec<Item>, Failure> {
    let entity = scenario.entity(&own.entity)?;
    let table = scenario.design.table_of(entity);
    let mut items = Vec::new();
    for n in 0..FILLER_ITEM_COUNT {
        let mut fields = item_to_json(scenario.stored_item_of(others_items)?);
        // Under the parameters of the list, and otherwise different.
        for parameter in scenario.design.parameters(access).iter().filter(|parameter| parameter.required) {
            if let Some(value) = json::value_at(&own.fields, &parameter.field).filter(|_| !parameter.from_token) {
                json::set_at_path(&mut fields, &parameter.field, value.clone());
            }
        }
        let fixed: Vec<_> = scenario.design.parameters(access).into_iter().map(|parameter| parameter.field).collect();
        let tenant = entity.tenant.as_deref();
        for path in entity.id_fields() {
            if let Some(field) = entity.field(path).filter(|_| !fixed.iter().any(|fixed| fixed == path)) {
                let value = values::nth_value(field, 5_000 + n)
                    .or_else(|| field.timestamp_value(NOW_MILLIS + n as i64 * 1_000));
                if let Some(value) = value.filter(|_| tenant != Some(path)) {
                    json::set_at_path(&mut fields, path, value);
                }
            }
        }
        items.push(item_with_fields(&scenario.design, entity, &fields)?);
    }
    let keys = |item: &Item| (item.get(&table.key.partition).cloned(), item.get(&table.key.sort).cloned());
    items.dedup_by(|one, other| keys(one) == keys(other));
    expect(items.len() == FILLER_ITEM_COUNT || items.len() <= 1, || {
        format!("{list:?} cannot be crowded: {}", items.len())
    })?;
    // Where the parameters are the whole key, there is room for one only.
    Ok(if items.len() == FILLER_ITEM_COUNT { items } else { Vec::new() })
}

async fn write_directly(
    environment: &Environment,
    scenario: &Scenario,
    entity: &str,
    items: &[Item],
    delete: bool,
) -> Result<(), Failure> {
    let table = scenario.design.table_of(scenario.entity(entity)?);
    let name = table.physical_name(&scenario.design.name);
    let key = nagaya_store::KeySchema::strings(&table.key.partition, &table.key.sort);
    for some in items.chunks(25) {
        let writes = some.iter().filter_map(|item| {
            let key = key.key_of(item)?;
            Some(if delete { Write::delete(&name, key) } else { Write::put(&name, item.clone()) })
        });
        environment.store.write(writes.collect::<WriteSet>()).await?;
    }
    Ok(())
}
