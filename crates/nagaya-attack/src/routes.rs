//! Routes of a gateway besides those of the design, such as the custom routes of a system.

use serde_json::{Map, Value as Json};

use super::{
    action::{Action, FurtherRoute},
    cases,
    environment::OwnedItem,
    json,
    scenario::{Failure, Scenario, expect_tried},
    values::as_text,
};

cases! {
    further_routes_reach_no_other_tenant,
}

/// Hostile texts that each parameter of a path gets.
const TEXTS: usize = 8;

async fn further_routes_reach_no_other_tenant(scenario: &mut Scenario) -> Result<(), Failure> {
    let routes = scenario.further_routes();
    expect_tried(!routes.is_empty(), "no routes besides those of its entities and access patterns")?;
    let items = items_to_name(scenario);
    let victim = scenario.victims.first().cloned().unwrap_or_default();
    let mut actions = Vec::new();
    for route in &routes {
        for item in &items {
            let values: Vec<String> = route.parameters.iter().map(|name| value_of(scenario, item, name)).collect();
            let body = route.body.as_ref().map(|example| body_about(scenario, item, example));
            actions.push(Action::Call(route.clone(), values.clone(), body.clone()));
            // A tenant in the body counts for nothing.
            if let Some(mut body) = body {
                json::set_at_path(&mut body, &scenario.design.tenant.field, victim.as_str().into());
                actions.push(Action::Call(route.clone(), values, Some(body)));
            }
        }
        actions.extend(hostile_calls(scenario, route));
    }
    scenario.expect_isolated(actions).await
}

/// An item of each entity and each of two others, and one of the attacker.
fn items_to_name(scenario: &Scenario) -> Vec<OwnedItem> {
    let mut found: Vec<OwnedItem> = Vec::new();
    let owners = scenario.victims.iter().take(2).chain([&scenario.attacker]);
    let is_wanted = |item: &&OwnedItem| owners.clone().any(|owner| item.tenant.as_ref() == Some(owner));
    for item in scenario.others_items.iter().chain(&scenario.own_items).filter(is_wanted) {
        if found.iter().all(|other| (&other.entity, &other.tenant) != (&item.entity, &item.tenant)) {
            found.push(item.clone());
        }
    }
    found
}

/// The value of a parameter for an item: the field of this name, of the item or of another one of its tenant, or its id.
fn value_of(scenario: &Scenario, item: &OwnedItem, name: &str) -> String {
    let found = field_of(scenario, item, name).map(as_text);
    found.or_else(|| item.id.last().cloned()).filter(|value| !value.is_empty()).unwrap_or_else(|| "x".to_owned())
}

/// A body whose members have the values of an item, or of another one of its tenant, where there are such fields.
fn body_about(scenario: &Scenario, item: &OwnedItem, example: &Map<String, Json>) -> Map<String, Json> {
    let value =
        |(name, example): (&String, &Json)| (name.clone(), field_of(scenario, item, name).unwrap_or(example).clone());
    example.iter().map(value).collect()
}

fn field_of<'s>(scenario: &'s Scenario, item: &'s OwnedItem, name: &str) -> Option<&'s Json> {
    let mut of_tenant =
        scenario.others_items.iter().chain(&scenario.own_items).filter(|each| each.tenant == item.tenant);
    json::value_at(&item.fields, name).or_else(|| of_tenant.find_map(|each| json::value_at(&each.fields, name)))
}

/// Calls with texts that a careless server would misread.
fn hostile_calls(scenario: &Scenario, route: &FurtherRoute) -> Vec<Action> {
    let body = &route.body;
    let texts = scenario.hostile_texts.iter().filter(|text| !text.is_empty()).take(TEXTS);
    let calls = texts.flat_map(|text| {
        (0..route.parameters.len()).map(move |at| {
            let mut values = vec!["x".to_owned(); route.parameters.len()];
            values[at].clone_from(text);
            values
        })
    });
    calls.map(|values| Action::Call(route.clone(), values, body.clone())).collect()
}
