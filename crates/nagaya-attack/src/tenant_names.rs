//! Who is a tenant at all, and who is whom.

use std::collections::BTreeMap;

use nagaya_design::Wall;
use nagaya_store::Value;

use super::json;
use super::{
    cases,
    environment::principal,
    scenario::{Failure, Scenario, expect, item_to_json},
};

cases! {
    an_empty_name_and_the_system_tenant_get_no_handle,
    a_name_longer_than_any_key_gets_no_handle_or_reaches_nothing,
    similar_names_share_no_partition,
}

async fn an_empty_name_and_the_system_tenant_get_no_handle(scenario: &mut Scenario) -> Result<(), Failure> {
    let system = scenario.design.tenant.system.clone();
    for name in std::iter::once(String::new()).chain(system) {
        let refused = scenario.populated.probe.tenant(&principal(&name)).map(drop).map_err(|error| error.code());
        expect(refused == Err("bad_tenant"), || format!("{name:?} gets a handle: {refused:?}"))?;
        let operator = scenario.populated.probe.operator("an attack on the walls", &principal("t1"));
        let refused = operator.as_tenant(&name).map(drop).map_err(|error| error.code());
        expect(refused == Err("bad_tenant"), || format!("an operator gets a handle of {name:?}: {refused:?}"))?;
    }
    Ok(())
}

async fn a_name_longer_than_any_key_gets_no_handle_or_reaches_nothing(scenario: &mut Scenario) -> Result<(), Failure> {
    let name = format!("{}{}", scenario.attacker, "x".repeat(3_000));
    let Ok(tenant) = scenario.populated.probe.tenant(&principal(&name)) else { return Ok(()) };
    for each in scenario.walled_items() {
        let id: Vec<&str> = each.id.iter().map(String::as_str).collect();
        let found = tenant.get(&each.entity, &id).await;
        expect(found.is_err(), || format!("it finds {each:?}"))?;
    }
    Ok(())
}

async fn similar_names_share_no_partition(scenario: &mut Scenario) -> Result<(), Failure> {
    let mut owners: BTreeMap<(usize, String), String> = BTreeMap::new();
    for each in scenario.own_items.iter().chain(&scenario.others_items) {
        let entity = scenario.entity(&each.entity)?;
        let Some(path) = entity.tenant.as_deref().filter(|_| entity.wall == Wall::Key) else { continue };
        let item = scenario.stored_item_of(each)?;
        let attribute = &scenario.design.table_of(entity).key.partition;
        let partition = item.get(attribute).and_then(Value::as_str).unwrap_or_default().to_owned();
        let tenant = json::value_at(&item_to_json(item), path).and_then(|tenant| Some(tenant.as_str()?.to_owned()));
        let tenant = tenant.ok_or_else(|| Failure::new(format!("{item:?} has no tenant")))?;
        expect(each.tenant.as_ref() == Some(&tenant), || format!("{item:?} should be of {:?}", each.tenant))?;
        let owner = owners.entry((entity.table, partition)).or_insert_with(|| tenant.clone());
        expect(*owner == tenant, || format!("{owner:?} and {tenant:?} share the partition of {item:?}"))?;
    }
    Ok(())
}
