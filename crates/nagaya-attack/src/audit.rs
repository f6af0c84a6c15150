//! Entries of the audit, recent and archived, which only the layer itself writes.

use nagaya_design::Entity;
use serde_json::{Map, Value as Json};

use super::{
    action::Action,
    cases,
    environment::OwnedItem,
    scenario::{Failure, Scenario, expect_tried},
    values,
};

cases! {
    entries_of_the_audit_cannot_be_forged_changed_or_deleted,
}

async fn entries_of_the_audit_cannot_be_forged_changed_or_deleted(scenario: &mut Scenario) -> Result<(), Failure> {
    let mut actions = Vec::new();
    for item in scenario.own_items.iter().chain(&scenario.others_items) {
        let entity = scenario.entity(&item.entity)?;
        if !scenario.design.holds_audit_entries(entity) {
            continue;
        }
        let OwnedItem { entity: name, id, .. } = item;
        let forged = Action::Create(name.clone(), forged(entity, item));
        actions.extend([Action::Set(vec![forged.clone()]), forged]);
        actions.extend([Action::update(name, id, Map::new()), Action::delete(name, id)]);
    }
    expect_tried(!actions.is_empty(), "no audit")?;
    scenario.expect_refused(actions, &["walled"]).await
}

/// The fields of an entry that there is not, and that otherwise is like this one.
fn forged(entity: &Entity, item: &OwnedItem) -> Map<String, Json> {
    let mut fields = item.fields.clone();
    if let Some(path) = &entity.tenant {
        values::remove(&mut fields, path);
    }
    for field in entity.fields.iter().filter(|field| entity.id_fields().contains(&field.name.as_str())) {
        fields.extend(values::nth_value(field, 9_999).map(|value| (field.name.clone(), value)));
    }
    fields
}
