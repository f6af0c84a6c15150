//! Attacks inside a tenant: on items of other users, on idempotency keys, and on ids that paths resolve.

use nagaya_design::{DefaultValue, Entity};
use nagaya_tenancy::{Principal, Tenant};
use serde_json::{Map, json};

use super::{
    action::Action,
    cases,
    environment::{self, OwnedItem},
    fields::writable_entities_with_fields,
    scenario::{Failure, Scenario, expect, expect_tried},
};

cases! {
    items_of_other_users_do_not_exist_for_a_handle_of_own_items,
    a_handle_of_own_items_makes_none_for_others,
    an_idempotency_key_gives_nothing_to_others_and_nothing_that_was_deleted,
    ids_that_paths_resolve_are_refused,
}

/// The name of another user of the attacker's tenant.
const COLLEAGUE: &str = "a colleague";

/// Another user of the attacker's tenant.
pub(super) fn colleague(scenario: &Scenario) -> Result<Tenant, Failure> {
    Ok(scenario.populated.probe.tenant(&Principal::new(scenario.attacker.as_str(), COLLEAGUE))?)
}

/// A user with the attacker's tenant and id, of another issuer.
pub(super) fn namesake(scenario: &Scenario) -> Result<Tenant, Failure> {
    let issuer = Some("https://elsewhere.example".into());
    let principal = Principal { issuer, ..environment::principal(&scenario.attacker) };
    Ok(scenario.populated.probe.tenant(&principal)?)
}

/// Items of the first user are hidden from a colleague whose roles are for own items.
async fn items_of_other_users_do_not_exist_for_a_handle_of_own_items(scenario: &mut Scenario) -> Result<(), Failure> {
    let handle = colleague(scenario)?.limited_to_own_items();
    let is_owned = |item: &&OwnedItem| {
        let field = scenario.design.entity(&item.entity).and_then(|entity| entity.owner.as_deref());
        field.is_some_and(|field| item.fields.get(field).is_some_and(|user| *user != COLLEAGUE))
    };
    let owned: Vec<OwnedItem> = scenario.own_items.iter().filter(is_owned).cloned().collect();
    expect_tried(!owned.is_empty(), "no items with an owner")?;
    for OwnedItem { entity, id, .. } in &owned {
        for action in [
            Action::get(entity, id),
            Action::update(entity, id, Map::new()),
            Action::Update(entity.clone(), id.clone(), Map::new(), Some(1)),
            Action::delete(entity, id),
            Action::Set(vec![Action::update(entity, id, Map::new())]),
        ] {
            let seen = action.perform(&handle).await;
            // Nobody changes audit entries.
            expect(matches!(seen.code.as_str(), "not_found" | "walled"), || format!("{action:?} gives {seen:?}"))?;
        }
    }
    for (access, list) in &scenario.lists {
        let entity = &scenario.design.entities[access.entity].name;
        let hidden = owned.iter().filter(|item| item.entity == *entity);
        let Ok(page) = handle.list(list).await else { continue };
        for item in hidden {
            let shown = page.records.iter().any(|record| record.id() == item.id);
            expect(!shown, || format!("{} shows {:?} of another user", access.name, item.id))?;
        }
        let is_limited = owned.iter().any(|item| item.entity == *entity);
        if let Some(count) = page.count.filter(|_| is_limited) {
            expect(count == 0, || format!("{} counts {count} items of others", access.name))?;
        }
    }
    scenario.expect_only_attacker_items_changed().await
}

/// Nobody gives an item to another user, or makes one in their name.
async fn a_handle_of_own_items_makes_none_for_others(scenario: &mut Scenario) -> Result<(), Failure> {
    let handle = scenario.probe()?.limited_to_own_items();
    let mut actions = Vec::new();
    for (entity, fields) in writable_entities_with_fields(scenario, 12) {
        let Some(owner) = entity.owner.as_deref() else { continue };
        actions.push(Action::create_with(entity, &fields, owner, COLLEAGUE.into()));
        let own = scenario.own_items.iter().filter(|own| own.entity == entity.name);
        actions.extend(own.take(1).map(|own| Action::set(own, owner, COLLEAGUE.into())));
    }
    expect_tried(!actions.is_empty(), "no items with an owner")?;
    for action in &actions {
        let seen = action.perform(&handle).await;
        // An item of somebody else does not exist for the handle.
        let is_refused = matches!(seen.code.as_str(), "invalid" | "no_reference" | "not_found");
        expect(is_refused, || format!("{action:?} gives {seen:?}"))?;
    }
    scenario.expect_only_attacker_items_changed().await
}

/// The same key and request of a colleague, of a user of another issuer with the same id, or of another tenant is another request, and a repetition shows nothing deleted.
async fn an_idempotency_key_gives_nothing_to_others_and_nothing_that_was_deleted(
    scenario: &mut Scenario,
) -> Result<(), Failure> {
    let (first, other) = (scenario.probe()?, colleague(scenario)?);
    let victim = scenario.victims.first().cloned().unwrap_or_default();
    let stranger = scenario.populated.probe.tenant(&environment::principal(&victim))?;
    let namesake = namesake(scenario)?;
    let mut tried = false;
    for (entity, fields) in generated_items(scenario) {
        let create = |tenant: &Tenant| {
            let set = tenant.change_set().create(&entity, fields.clone()).idempotent("an attack", b"the same request");
            set.commit()
        };
        let Ok(made) = create(&first).await else { continue };
        let Some(made) = made.into_iter().next().flatten() else { continue };
        tried = true;
        for tenant in [&other, &namesake, &stranger] {
            // It may be refused for other reasons, such as a unique value.
            let Ok(theirs) = create(tenant).await else { continue };
            let theirs = theirs.into_iter().next().flatten();
            let is_new = theirs.as_ref().is_some_and(|theirs| theirs.id() != made.id());
            expect(is_new, || format!("the key of another user gives {theirs:?}"))?;
            delete(tenant, &entity, &theirs.map(|theirs| theirs.id()).unwrap_or_default()).await;
        }
        if delete(&first, &entity, &made.id()).await {
            let repeated = create(&first).await.map_err(|error| error.code().to_owned());
            expect(repeated.as_ref().is_err_and(|code| code == "result_deleted"), || {
                format!("a repetition shows a deleted {entity}: {repeated:?}")
            })?;
        }
        // One entity is enough: the key is used for each of them then.
        break;
    }
    expect_tried(tried, "no items with generated ids")?;
    scenario.refresh().await
}

/// Entities of which everybody can create several items, with fields.
pub(super) fn generated_items(scenario: &Scenario) -> Vec<(String, Map<String, serde_json::Value>)> {
    let is_generated = |entity: &&Entity| {
        let is_new = |path: &&str| entity.field(path).is_some_and(|field| field.default == Some(DefaultValue::New));
        entity.id_fields().iter().any(is_new) && entity.unique.is_empty() && environment::is_private(entity)
    };
    let has_references = |entity: &Entity| entity.fields.iter().any(|field| field.reference.is_some());
    let all = writable_entities_with_fields(scenario, 5).into_iter().filter(|(entity, _)| is_generated(entity));
    let free = all.filter(|(entity, _)| !has_references(entity));
    let given = |entity: &Entity, mut fields: Map<String, serde_json::Value>| {
        for path in entity.id_fields() {
            fields.remove(path);
        }
        fields
    };
    free.map(|(entity, fields)| (entity.name.clone(), given(entity, fields))).collect()
}

async fn delete(tenant: &Tenant, entity: &str, id: &[String]) -> bool {
    let id: Vec<&str> = id.iter().map(String::as_str).collect();
    tenant.delete(entity, &id, None).await.is_ok()
}

async fn ids_that_paths_resolve_are_refused(scenario: &mut Scenario) -> Result<(), Failure> {
    let mut actions = Vec::new();
    for (entity, fields) in writable_entities_with_fields(scenario, 7) {
        for path in entity.id_fields().into_iter().filter(|path| entity.tenant.as_deref() != Some(*path)) {
            for dots in [".", ".."].map(|dots| json!(dots)) {
                if entity.field(path).is_some_and(|field| field.accepts(&dots)) {
                    actions.push(Action::create_with(entity, &fields, path, dots));
                }
            }
        }
    }
    expect_tried(!actions.is_empty(), "no such ids")?;
    scenario.expect_refused(actions, &["invalid", "no_reference"]).await
}
