//! Items that somebody wrote into the store around the layer.

use nagaya_design::{Access, Entity, Returns, Wall};
use nagaya_store::{Item, Key, Store as _, Write};
use serde_json::{Map, Value as Json};

use super::json as values;
use super::{
    action::{Action, Seen},
    cases, fields, forge, lists,
    trial::{Failure, Trial, holds, json},
    world::{Belonging, World},
};

cases! {
    an_item_of_another_tenant_in_ones_own_partition_is_a_breach,
    an_item_in_an_index_of_ones_own_is_a_breach_when_it_is_anothers,
    an_item_under_a_key_that_its_fields_do_not_give_is_a_breach,
    an_item_of_another_kind_is_a_breach,
    look_alikes_of_the_layers_own_items_are_not_listed,
}

/// An item planted in the world where the others are at home.
struct Plant {
    table: String,
    key: Key,
    item: Item,
}

impl Plant {
    /// Plants an item over what may be there; gives back what was.
    async fn put(world: &World, trial: &Trial, entity: &Entity, item: Item) -> Result<(Self, Option<Item>), Failure> {
        let table = trial.design.table_of(entity);
        let schema = nagaya_store::KeySchema::strings(&table.key.partition, &table.key.sort);
        let key = schema.key_of(&item).ok_or_else(|| Failure::new(format!("{item:?} has no key")))?;
        let table = table.physical_name(&trial.design.name);
        let before = world.store.get(&table, &key).await?;
        world.store.write(Write::put(&table, item.clone()).into()).await?;
        Ok((Plant { table, key, item }, before))
    }

    /// Takes it away again; it has to be there as it was planted.
    async fn away(self, world: &World, before: Option<Item>) -> Result<(), Failure> {
        let found = world.store.get(&self.table, &self.key).await?;
        holds(found.as_ref() == Some(&self.item), || format!("the planted {:?} became {found:?}", self.item))?;
        let write = match before {
            Some(item) => Write::put(&self.table, item),
            None => Write::delete(&self.table, self.key),
        };
        world.store.write(write.into()).await?;
        Ok(())
    }
}

/// Does something with the planted item around: an alarm, an error that tells nothing, and no result.
async fn alarm(trial: &Trial, action: &Action) -> Result<(), Failure> {
    let house = &trial.lived_in.aside;
    let before = house.breaches();
    let seen = action.perform(&trial.aside()?).await;
    let expected = Seen::of(Err(nagaya_tenancy::ErrorKind::Breach.into()));
    holds(seen == expected, || format!("{action:?} gives {seen:?}"))?;
    holds(house.breaches() == before + 1, || format!("{action:?} counts {} alarms", house.breaches() - before))
}

/// Plants an item, does all this, each of which has to be an alarm, and takes the item away.
async fn alarms(trial: &Trial, entity: &Entity, item: Item, actions: Vec<Action>) -> Result<(), Failure> {
    let (plant, before) = Plant::put(&trial.lived_in, trial, entity, item).await?;
    let mut alarmed = Ok(());
    // What cannot be changed at all is refused before anything is read.
    for action in actions.into_iter().filter(|action| !action.rewrites_audit(&trial.design)) {
        if alarmed.is_ok() {
            alarmed = alarm(trial, &action).await;
        }
    }
    let gone = plant.away(&trial.lived_in, before).await;
    alarmed.and(gone)
}

/// Everything that touches a single item.
fn touching(entity: &str, id: &[String]) -> Vec<Action> {
    vec![
        Action::get(entity, id),
        Action::GetMany(vec![(entity.to_owned(), id.to_vec())]),
        Action::update(entity, id, Map::new()),
        Action::delete(entity, id),
    ]
}

/// Items of others behind walls in keys, one for each entity and each of two victims.
fn others(trial: &Trial) -> Vec<(Entity, Belonging)> {
    let mut found: Vec<(Entity, Belonging)> = Vec::new();
    for each in
        trial.hidden().filter(|each| trial.victims.iter().take(2).any(|name| each.tenant.as_ref() == Some(name)))
    {
        let Some(entity) = trial.design.entity(&each.entity).filter(|entity| entity.wall == Wall::Key) else {
            continue;
        };
        if found.iter().all(|(_, other)| (&other.entity, &other.tenant) != (&each.entity, &each.tenant)) {
            found.push((entity.clone(), each.clone()));
        }
    }
    trial.some(found)
}

/// The attributes of an item as if it were the attacker's.
fn as_own(trial: &Trial, entity: &Entity, item: &Item) -> Vec<(String, Option<String>)> {
    let mut fields = json(item);
    values::put_json(&mut fields, entity.tenant.as_deref().unwrap_or_default(), trial.attacker.as_str().into());
    let derived = trial.design.derived(entity, &fields);
    derived.into_iter().filter_map(|(name, value)| Some((name, value.ok()?))).collect()
}

/// Lists of an entity that read its table or one of its indexes, by walls that are in the key.
fn walled_lists(trial: &Trial, entity: &Entity, mapping: Option<usize>, fields: &Map<String, Json>) -> Vec<Action> {
    let accesses = trial.design.accesses_of(entity).filter(|access| access.mapping == mapping);
    // Of several, a pattern for one item may give another.
    let walled = accesses.filter(|access| trial.design.wall_of(access) == Wall::Key && access.returns != Returns::One);
    // What a filter leaves out does not come back, so it is no alarm.
    let shown = walled.filter(|access| access.filter.as_ref().is_none_or(|filter| filter.holds(fields)));
    shown.filter_map(|access| Some(Action::List(lists::list_of(trial, access, fields)?.limit(1_000)))).collect()
}

async fn an_item_of_another_tenant_in_ones_own_partition_is_a_breach(trial: &mut Trial) -> Result<(), Failure> {
    let mut tried = false;
    for (entity, theirs) in others(trial) {
        let key = trial.design.table_of(&entity).key.clone();
        // Where the partition attribute is the tenant itself, such an item cannot be.
        if entity.tenant.as_deref() == Some(key.partition.as_str()) {
            continue;
        }
        tried = true;
        let mut item = trial.item_of(&theirs)?.clone();
        for (attribute, value) in as_own(trial, &entity, &item) {
            if attribute == key.partition || attribute == key.sort {
                item.insert(&attribute, value.unwrap_or_default());
            }
        }
        let fields = json(&item);
        let lists = walled_lists(trial, &entity, None, &fields);
        let actions = touching(&entity.name, &theirs.id).into_iter().chain(lists).collect();
        alarms(trial, &entity, item, actions).await?;
    }
    if !tried {
        return Err(Failure::Nothing("the tenant itself as the partition"));
    }
    trial.untouched().await
}

async fn an_item_in_an_index_of_ones_own_is_a_breach_when_it_is_anothers(trial: &mut Trial) -> Result<(), Failure> {
    let mut tried = false;
    for (entity, theirs) in others(trial) {
        for (at, mapping) in entity.indexes.iter().enumerate().filter(|(_, mapping)| mapping.wall == Wall::Key) {
            let index = trial.design.table_of(&entity).indexes[mapping.index].key.clone();
            if entity.field(&index.partition).is_some() {
                continue;
            }
            let mut item = trial.item_of(&theirs)?.clone();
            for (attribute, value) in as_own(trial, &entity, &item) {
                if let Some(value) = value.filter(|_| attribute == index.partition || attribute == index.sort) {
                    item.insert(&attribute, value);
                }
            }
            let lists = walled_lists(trial, &entity, Some(at), &json(&item));
            if item == *trial.item_of(&theirs)? || lists.is_empty() {
                continue;
            }
            tried = true;
            alarms(trial, &entity, item, lists).await?;
        }
    }
    if !tried {
        return Err(Failure::Nothing("no index with attributes of its own behind a wall in the key"));
    }
    trial.untouched().await
}

async fn an_item_under_a_key_that_its_fields_do_not_give_is_a_breach(trial: &mut Trial) -> Result<(), Failure> {
    let mut tried = false;
    for own in trial.some(fields::owned(trial).into_iter().cloned()) {
        let entity = trial.entity(&own.entity)?.clone();
        let key = trial.design.table_of(&entity).key.clone();
        let is_plain = |path: &&str| !path.contains('.') && entity.field(path).is_some();
        let Some(path) = entity.id_fields().into_iter().rfind(is_plain).map(str::to_owned) else { continue };
        if entity.field(&key.sort).is_some() || entity.field(&key.partition).is_some() {
            continue;
        }
        let item = trial.item_of(&own)?.clone();
        let mut fields = json(&item);
        let Some(other) = entity.field(&path).and_then(|field| forge::vary(field, 4_321)) else { continue };
        fields.insert(path.clone(), other.clone());
        let mut planted = item;
        for (attribute, value) in trial.design.derived(&entity, &fields) {
            if let Some(value) = value.ok().flatten().filter(|_| attribute == key.partition || attribute == key.sort) {
                planted.insert(&attribute, value);
            }
        }
        tried = true;
        let at = entity.id_fields().into_iter().position(|field| field == path).unwrap_or_default();
        let mut id = own.id.clone();
        id[at] = forge::as_text(&other);
        alarms(trial, &entity, planted, touching(&entity.name, &id)).await?;
    }
    if !tried {
        return Err(Failure::Nothing("no keys besides its fields"));
    }
    trial.untouched().await
}

async fn an_item_of_another_kind_is_a_breach(trial: &mut Trial) -> Result<(), Failure> {
    let mut tried = false;
    for own in trial.some(fields::owned(trial).into_iter().cloned()) {
        let entity = trial.entity(&own.entity)?.clone();
        let Some(discriminator) = trial.design.table_of(&entity).discriminator.clone() else { continue };
        tried = true;
        let item = trial.item_of(&own)?.clone().with(&discriminator, "something else");
        alarms(trial, &entity, item, touching(&entity.name, &own.id)).await?;
    }
    if !tried {
        return Err(Failure::Nothing("no discriminators"));
    }
    trial.untouched().await
}

async fn look_alikes_of_the_layers_own_items_are_not_listed(trial: &mut Trial) -> Result<(), Failure> {
    let mut tried = false;
    for (n, (entity, theirs)) in others(trial).into_iter().enumerate() {
        let key = trial.design.table_of(&entity).key.clone();
        let own = as_own(trial, &entity, trial.item_of(&theirs)?);
        let partition = own.iter().find(|(name, _)| *name == key.partition).and_then(|(_, value)| value.clone());
        for sort in ["%unique-x", "%zzz", "%deleting", "%audit"].iter().skip(n % 4).take(1) {
            let mut item = trial.item_of(&theirs)?.clone();
            // In every index of the attacker's as well.
            for (attribute, value) in &own {
                if let Some(value) = value {
                    item.insert(attribute, value.as_str());
                }
            }
            item.insert(&key.partition, partition.clone().unwrap_or_default());
            item.insert(&key.sort, *sort);
            let of_table = |access: &Access| trial.design.entities[access.entity].table == entity.table;
            let everywhere: Vec<Action> = trial
                .lists
                .iter()
                .filter(|(access, _)| of_table(access))
                .map(|(_, list)| Action::List(list.clone().limit(100)))
                .collect();
            let (plant, before) = Plant::put(&trial.lived_in, trial, &entity, item).await?;
            tried = true;
            let mut seen = Ok(());
            for action in trial.some(everywhere) {
                if seen.is_ok() {
                    seen = trial.same(&action).await.map(drop);
                }
            }
            plant.away(&trial.lived_in, before).await?;
            seen?;
        }
    }
    if !tried {
        return Err(Failure::Nothing("no walls in keys"));
    }
    trial.untouched().await
}
