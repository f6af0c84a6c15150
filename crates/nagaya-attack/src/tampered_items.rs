//! Items that were written into the store without the data layer.

use nagaya_design::{AccessPattern, Entity, ResultKind, Wall};
use nagaya_store::{Item, Key, Write};
use serde_json::{Map, Value as Json};

use super::json;
use super::{
    action::{Action, Observation},
    cases,
    environment::{Environment, OwnedItem},
    fields, lists,
    scenario::{Failure, Scenario, expect, expect_tried, item_to_json},
    values,
};

cases! {
    an_item_of_another_tenant_in_the_callers_partition_is_a_breach,
    an_item_of_another_tenant_in_the_callers_index_partition_is_a_breach,
    an_item_whose_key_does_not_match_its_fields_is_a_breach,
    an_item_with_a_wrong_discriminator_is_a_breach,
    items_with_keys_of_internal_records_are_not_listed,
}

/// An item that the suite inserted into the populated environment.
struct InsertedItem {
    table: String,
    key: Key,
    item: Item,
}

impl InsertedItem {
    /// Inserts an item; returns it with the one that it replaced.
    async fn put(
        environment: &Environment,
        scenario: &Scenario,
        entity: &Entity,
        item: Item,
    ) -> Result<(Self, Option<Item>), Failure> {
        let table = scenario.design.table_of(entity);
        let schema = nagaya_store::KeySchema::strings(&table.key.partition, &table.key.sort);
        let key = schema.key_of(&item).ok_or_else(|| Failure::new(format!("{item:?} has no key")))?;
        let table = table.physical_name(&scenario.design.name);
        let before = environment.store.get(&table, &key).await?;
        environment.store.write(Write::put(&table, item.clone()).into()).await?;
        Ok((InsertedItem { table, key, item }, before))
    }

    /// Removes it again; it has to be unchanged.
    async fn remove(self, environment: &Environment, before: Option<Item>) -> Result<(), Failure> {
        let found = environment.store.get(&self.table, &self.key).await?;
        expect(found.as_ref() == Some(&self.item), || format!("the inserted {:?} became {found:?}", self.item))?;
        let write = match before {
            Some(item) => Write::put(&self.table, item),
            None => Write::delete(&self.table, self.key),
        };
        environment.store.write(write.into()).await?;
        Ok(())
    }
}

/// Performs an action while the item is there: it has to fail as a breach, without details.
async fn expect_breach(scenario: &Scenario, action: &Action) -> Result<(), Failure> {
    let attacker_layer = &scenario.populated.probe;
    let before = attacker_layer.breaches();
    let seen = action.perform(&scenario.probe()?).await;
    let expected = Observation::from_answer(Err(nagaya_tenancy::ErrorKind::Breach.into()));
    expect(seen == expected, || format!("{action:?} gives {seen:?}"))?;
    expect(attacker_layer.breaches() == before + 1, || {
        format!("{action:?} counts {} breaches", attacker_layer.breaches() - before)
    })
}

/// Inserts an item, performs actions that all have to fail as a breach, and removes the item.
async fn expect_breaches(
    scenario: &Scenario,
    entity: &Entity,
    item: Item,
    actions: Vec<Action>,
) -> Result<(), Failure> {
    let (inserted, before) = InsertedItem::put(&scenario.populated, scenario, entity, item).await?;
    let mut detected = Ok(());
    // Writing entries of the audit is refused before anything is read.
    for action in actions.into_iter().filter(|action| !action.writes_audit(&scenario.design)) {
        if detected.is_ok() {
            detected = expect_breach(scenario, &action).await;
        }
    }
    let gone = inserted.remove(&scenario.populated, before).await;
    detected.and(gone)
}

/// Everything that touches a single item.
fn item_actions(entity: &str, id: &[String]) -> Vec<Action> {
    vec![
        Action::get(entity, id),
        Action::GetMany(vec![(entity.to_owned(), id.to_vec())]),
        Action::update(entity, id, Map::new()),
        Action::delete(entity, id),
    ]
}

/// Items of others behind walls in keys, one for each entity and each of two victims.
fn victims_items(scenario: &Scenario) -> Vec<(Entity, OwnedItem)> {
    let mut found: Vec<(Entity, OwnedItem)> = Vec::new();
    for each in scenario
        .walled_items()
        .filter(|each| scenario.victims.iter().take(2).any(|name| each.tenant.as_ref() == Some(name)))
    {
        let Some(entity) = scenario.design.entity(&each.entity).filter(|entity| entity.wall == Wall::Key) else {
            continue;
        };
        if found.iter().all(|(_, other)| (&other.entity, &other.tenant) != (&each.entity, &each.tenant)) {
            found.push((entity.clone(), each.clone()));
        }
    }
    scenario.sample(found)
}

/// The attributes of an item as if it were the attacker's.
fn attributes_for_attacker(scenario: &Scenario, entity: &Entity, item: &Item) -> Vec<(String, Option<String>)> {
    let mut fields = item_to_json(item);
    json::set_at_path(&mut fields, entity.tenant.as_deref().unwrap_or_default(), scenario.attacker.as_str().into());
    let derived = scenario.design.derived_attributes(entity, &fields);
    derived.into_iter().filter_map(|(name, value)| Some((name, value.ok()?))).collect()
}

/// Lists of an entity that read its table or one of its indexes, by walls that are in the key.
fn walled_lists(
    scenario: &Scenario,
    entity: &Entity,
    mapping: Option<usize>,
    fields: &Map<String, Json>,
) -> Vec<Action> {
    let accesses = scenario.design.access_patterns_of(entity).filter(|access| access.mapping == mapping);
    // Of several, a pattern for one item may give another.
    let walled =
        accesses.filter(|access| scenario.design.wall_of(access) == Wall::Key && access.returns != ResultKind::One);
    // An item that the filter excludes is not returned, so it is no breach.
    let shown = walled.filter(|access| access.filter.as_ref().is_none_or(|filter| filter.is_satisfied_by(fields)));
    shown.filter_map(|access| Some(Action::List(lists::list_of(scenario, access, fields)?.limit(1_000)))).collect()
}

async fn an_item_of_another_tenant_in_the_callers_partition_is_a_breach(
    scenario: &mut Scenario,
) -> Result<(), Failure> {
    let mut tried = false;
    for (entity, others_items) in victims_items(scenario) {
        let key = scenario.design.table_of(&entity).key.clone();
        // Where the partition attribute is the tenant itself, such an item cannot be.
        if entity.tenant.as_deref() == Some(key.partition.as_str()) {
            continue;
        }
        tried = true;
        let mut item = scenario.stored_item_of(&others_items)?.clone();
        for (attribute, value) in attributes_for_attacker(scenario, &entity, &item) {
            if attribute == key.partition || attribute == key.sort {
                item.insert(&attribute, value.unwrap_or_default());
            }
        }
        let fields = item_to_json(&item);
        let lists = walled_lists(scenario, &entity, None, &fields);
        let actions = item_actions(&entity.name, &others_items.id).into_iter().chain(lists).collect();
        expect_breaches(scenario, &entity, item, actions).await?;
    }
    expect_tried(tried, "the tenant itself as the partition")?;
    scenario.expect_only_attacker_items_changed().await
}

async fn an_item_of_another_tenant_in_the_callers_index_partition_is_a_breach(
    scenario: &mut Scenario,
) -> Result<(), Failure> {
    let mut tried = false;
    for (entity, others_items) in victims_items(scenario) {
        for (at, mapping) in entity.indexes.iter().enumerate().filter(|(_, mapping)| mapping.wall == Wall::Key) {
            let index = scenario.design.table_of(&entity).indexes[mapping.index].key.clone();
            if entity.field(&index.partition).is_some() {
                continue;
            }
            let mut item = scenario.stored_item_of(&others_items)?.clone();
            for (attribute, value) in attributes_for_attacker(scenario, &entity, &item) {
                if let Some(value) = value.filter(|_| attribute == index.partition || attribute == index.sort) {
                    item.insert(&attribute, value);
                }
            }
            let lists = walled_lists(scenario, &entity, Some(at), &item_to_json(&item));
            if item == *scenario.stored_item_of(&others_items)? || lists.is_empty() {
                continue;
            }
            tried = true;
            expect_breaches(scenario, &entity, item, lists).await?;
        }
    }
    expect_tried(tried, "no index with attributes of its own behind a wall in the key")?;
    scenario.expect_only_attacker_items_changed().await
}

async fn an_item_whose_key_does_not_match_its_fields_is_a_breach(scenario: &mut Scenario) -> Result<(), Failure> {
    let mut tried = false;
    for own in scenario.sample(fields::own_item_of_each_entity(scenario).into_iter().cloned()) {
        let entity = scenario.entity(&own.entity)?.clone();
        let key = scenario.design.table_of(&entity).key.clone();
        let is_plain = |path: &&str| !path.contains('.') && entity.field(path).is_some();
        let Some(path) = entity.id_fields().into_iter().rfind(is_plain).map(str::to_owned) else { continue };
        if entity.field(&key.sort).is_some() || entity.field(&key.partition).is_some() {
            continue;
        }
        let item = scenario.stored_item_of(&own)?.clone();
        let mut fields = item_to_json(&item);
        let Some(other) = entity.field(&path).and_then(|field| values::nth_value(field, 4_321)) else { continue };
        fields.insert(path.clone(), other.clone());
        let mut tampered = item;
        for (attribute, value) in scenario.design.derived_attributes(&entity, &fields) {
            if let Some(value) = value.ok().flatten().filter(|_| attribute == key.partition || attribute == key.sort) {
                tampered.insert(&attribute, value);
            }
        }
        tried = true;
        let at = entity.id_fields().into_iter().position(|field| field == path).unwrap_or_default();
        let mut id = own.id.clone();
        id[at] = values::as_text(&other);
        expect_breaches(scenario, &entity, tampered, item_actions(&entity.name, &id)).await?;
    }
    expect_tried(tried, "no keys besides its fields")?;
    scenario.expect_only_attacker_items_changed().await
}

async fn an_item_with_a_wrong_discriminator_is_a_breach(scenario: &mut Scenario) -> Result<(), Failure> {
    let mut tried = false;
    for own in scenario.sample(fields::own_item_of_each_entity(scenario).into_iter().cloned()) {
        let entity = scenario.entity(&own.entity)?.clone();
        let Some(discriminator) = scenario.design.table_of(&entity).discriminator.clone() else { continue };
        tried = true;
        let item = scenario.stored_item_of(&own)?.clone().with(&discriminator, "something else");
        expect_breaches(scenario, &entity, item, item_actions(&entity.name, &own.id)).await?;
    }
    expect_tried(tried, "no discriminators")?;
    scenario.expect_only_attacker_items_changed().await
}

async fn items_with_keys_of_internal_records_are_not_listed(scenario: &mut Scenario) -> Result<(), Failure> {
    let mut tried = false;
    for (n, (entity, others_items)) in victims_items(scenario).into_iter().enumerate() {
        let key = scenario.design.table_of(&entity).key.clone();
        let own = attributes_for_attacker(scenario, &entity, scenario.stored_item_of(&others_items)?);
        let partition = own.iter().find(|(name, _)| *name == key.partition).and_then(|(_, value)| value.clone());
        for sort in ["%unique-x", "%zzz", "%deleting", "%audit"].iter().skip(n % 4).take(1) {
            let mut item = scenario.stored_item_of(&others_items)?.clone();
            // In every index of the attacker's as well.
            for (attribute, value) in &own {
                if let Some(value) = value {
                    item.insert(attribute, value.as_str());
                }
            }
            item.insert(&key.partition, partition.clone().unwrap_or_default());
            item.insert(&key.sort, *sort);
            let of_table = |access: &AccessPattern| scenario.design.entities[access.entity].table == entity.table;
            let everywhere: Vec<Action> = scenario
                .lists
                .iter()
                .filter(|(access, _)| of_table(access))
                .map(|(_, list)| Action::List(list.clone().limit(100)))
                .collect();
            let (inserted, before) = InsertedItem::put(&scenario.populated, scenario, &entity, item).await?;
            tried = true;
            let mut seen = Ok(());
            for action in scenario.sample(everywhere) {
                if seen.is_ok() {
                    seen = scenario.expect_same_answer(&action).await.map(drop);
                }
            }
            inserted.remove(&scenario.populated, before).await?;
            seen?;
        }
    }
    expect_tried(tried, "no walls in keys")?;
    scenario.expect_only_attacker_items_changed().await
}
