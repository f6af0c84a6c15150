//! Building items: from an entity and a number to consistent fields.

use std::collections::HashMap;

use nagaya_design::{DefaultValue, Design, Entity, Field, FieldType};
use nagaya_seed::{DAY_MILLIS, Person, Rng, SeedContext};
use serde_json::{Map, Value as Json};

use super::{
    links::{is_people, words},
    plan::Task,
    value::fits,
};

/// How many days back the data goes.
pub(super) const HISTORY_DAYS: i64 = 90;

/// An item that is not written yet.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    pub(super) fields: Map<String, Json>,
    /// When it was created, in milliseconds since 1970.
    pub(super) moment: i64,
    /// Random bits for the id, if the tenancy layer generates it.
    pub(super) bits: u128,
}

/// The state of a run.
#[derive(Debug)]
pub(super) struct SeedState<'d> {
    pub(super) design: &'d Design,
    pub(super) seed: u64,
    /// The last day of the data, in milliseconds since 1970.
    pub(super) until: i64,
    /// Today, in milliseconds since 1970.
    pub(super) today: i64,
    pub(super) tenants: Vec<String>,
    /// The items so far, by entity and tenant; those of operators have no tenant.
    pub(super) made: HashMap<(String, Option<usize>), Vec<Draft>>,
}

impl SeedState<'_> {
    /// Builds the n-th item of a tenant, or of no tenant; each attempt gives another item. `None` if it needs an item to refer
    /// to, and there is none.
    pub(super) fn draft(&self, task: &Task<'_>, tenant: Option<usize>, n: usize, attempt: usize) -> Option<Draft> {
        let name = tenant.and_then(|tenant| self.tenants.get(tenant)).map_or("", String::as_str);
        let rng = Rng::new(self.seed, &[name, &task.entity.name], [n, attempt]);
        let person = self.person(tenant, n, attempt);
        let mut builder = ItemBuilder {
            state: self,
            task,
            tenant,
            n,
            attempt,
            rng,
            person,
            moment: self.until,
            bits: 0,
            chosen: Vec::new(),
            fields: Map::new(),
        };
        builder.fill()?;
        Some(Draft { fields: builder.fields, moment: builder.moment, bits: builder.bits })
    }

    /// The input of seeders for the first tenant.
    pub(super) fn context(&self, items: usize) -> SeedContext<'_> {
        SeedContext { seed: self.seed, tenants: &self.tenants, index: 0, until: self.until, items }
    }

    /// The items of an entity that a tenant can refer to: its own, or those of no tenant.
    pub(super) fn known(&self, entity: &str, tenant: Option<usize>) -> &[Draft] {
        let of = |tenant: Option<usize>| self.made.get(&(entity.to_owned(), tenant)).map(Vec::as_slice);
        of(tenant).or_else(|| of(None)).unwrap_or_default()
    }

    /// A person of a tenant.
    fn person(&self, tenant: Option<usize>, n: usize, attempt: usize) -> Person {
        let mut start = Rng::new(self.seed, &["people"], [tenant.map_or(0, |tenant| tenant + 1), 0]);
        // Each attempt takes other people.
        Person::numbered(start.below(1_000) + n + attempt * 100_000)
    }
}

/// Builds one item.
pub(super) struct ItemBuilder<'s> {
    pub(super) state: &'s SeedState<'s>,
    pub(super) task: &'s Task<'s>,
    pub(super) tenant: Option<usize>,
    pub(super) n: usize,
    pub(super) attempt: usize,
    pub(super) rng: Rng,
    /// The person that it is about.
    pub(super) person: Person,
    pub(super) moment: i64,
    /// Random bits for the id, if the tenancy layer generates it.
    pub(super) bits: u128,
    /// The items that it refers to, by the name of the link.
    pub(super) chosen: Vec<(String, &'s Draft)>,
    /// Its fields so far.
    pub(super) fields: Map<String, Json>,
}

impl ItemBuilder<'_> {
    /// Sets all fields: first states, which decide about other fields; then links, which limit the creation time and the person;
    /// finally the ids that are built from other fields.
    fn fill(&mut self) -> Option<()> {
        let entity = self.task.entity;
        self.bits = self.rng.bits();
        self.choose_creation_time();
        if self.describes_tenant() {
            self.person = self.state.person(self.tenant, 0, 0);
        }
        // Only an operator sets the tenant of an item.
        let tenant = entity.tenant.as_deref().filter(|_| self.tenant.is_some());
        let given = |field: &&Field| Some(field.name.as_str()) == tenant;
        let (states, others): (Vec<&Field>, Vec<&Field>) =
            entity.fields.iter().filter(|field| !given(field)).partition(|field| is_state(field));
        for field in states {
            self.add(field)?;
        }
        let mut mirrored = self.link()?;
        let (ids, others): (Vec<&Field>, Vec<&Field>) =
            others.into_iter().partition(|field| self.is_descriptive_id(field));
        for field in others.into_iter().chain(ids) {
            // An optional link may be missing.
            let decided = field.optional && self.task.links.contains_key(&field.name);
            let set_by_the_layer = is_soft_delete_field(entity, field) || field.since.is_some();
            if decided || self.fields.contains_key(&field.name) || set_by_the_layer {
                continue;
            }
            match mirrored.remove(&field.name).filter(|value| fits(field, value)) {
                Some(value) => drop(self.fields.insert(field.name.clone(), value)),
                None => self.add(field)?,
            }
        }
        if let Some(tenant) = tenant {
            remove(&mut self.fields, tenant);
        }
        Some(())
    }

    /// Adds a field, if the item has it. `None` if there is no value for it.
    fn add(&mut self, field: &Field) -> Option<()> {
        if !field.optional || self.has(field) {
            let value = self.value(field)?;
            self.fields.insert(field.name.clone(), value);
        }
        Some(())
    }

    /// Chooses the creation time: in the last months, or within the lifetime of such items.
    fn choose_creation_time(&mut self) {
        let lives = self.task.entity.ttl_after.and_then(|seconds| i64::try_from(seconds).ok());
        let back = lives
            .map_or(HISTORY_DAYS * DAY_MILLIS, |seconds| seconds.saturating_mul(1_000).min(HISTORY_DAYS * DAY_MILLIS));
        // Tenants and people are older than what they create.
        let least = match self.task.entity.name.as_str() {
            _ if self.task.entity.id_fields().is_empty() => back - back / 10,
            name if is_people(name) => back / 3,
            _ => 1,
        };
        self.moment = self.state.until - self.rng.between(least, back);
    }

    /// Chooses the items that this one refers to; gives the values that are copied from them. `None` if a required reference of
    /// the design has nothing to refer to.
    fn link(&mut self) -> Option<Map<String, Json>> {
        let (task, state) = (self.task, self.state);
        let mut mirrored = Map::new();
        for field in task.entity.fields.iter().filter(|field| !is_soft_delete_field(task.entity, field)) {
            let Some(link) = task.links.get(&field.name) else { continue };
            // A mail has the owner of its mailbox.
            if task.entity.owner.as_ref() == Some(&field.name)
                && let Some(owner) = self.chosen.iter().find_map(|(_, other)| other.fields.get(&field.name))
                && fits(field, owner)
            {
                let owner = owner.clone();
                self.fields.insert(field.name.clone(), owner);
                continue;
            }
            let known = state.known(&link.entity, self.tenant);
            let has_one_item_per_target = self.has_one_item_per_target(field);
            if known.is_empty() || field.optional && !has_one_item_per_target && !self.has(field) {
                if link.declared && !field.optional {
                    return None;
                }
                continue;
            }
            // Two links to one entity refer to the same item, unless one of them is to an actor (`…By`).
            let to_the_same = |name: &str| {
                !is_actor_field(&field.name)
                    && !is_actor_field(name)
                    && task.links.get(name).is_some_and(|each| each.entity == link.entity)
            };
            let same = self.chosen.iter().find(|(name, _)| to_the_same(name));
            let other = match same.map(|(_, other)| *other) {
                Some(same) => same,
                None if has_one_item_per_target => known.get(self.n)?,
                None => self.one_of(known)?,
            };
            let Some(value) = other.fields.get(&link.field).filter(|value| fits(field, value)) else { continue };
            self.fields.insert(field.name.clone(), value.clone());
            self.chosen.push((field.name.clone(), other));
            if self.is_whole_id(field) {
                mirrored.clone_from(&other.fields);
            }
            if is_people(&link.entity) && link.entity != task.entity.name && !is_actor_field(&field.name) {
                self.person = person_of(&other.fields).unwrap_or_else(|| self.person.clone());
            }
        }
        // An item is not older than what it belongs to, and as old as what it repeats.
        if let Some(latest) = self.chosen.iter().map(|(_, other)| other.moment).max() {
            if !mirrored.is_empty() {
                self.moment = latest;
            } else if latest > self.moment {
                self.moment = latest + self.rng.between(0, (state.until - latest).max(0));
            }
        }
        Some(mirrored)
    }

    /// One of the existing items. Early ones are chosen more often, and a larger number of items leaves earlier choices
    /// unchanged.
    pub(super) fn one_of<'k>(&mut self, known: &'k [Draft]) -> Option<&'k Draft> {
        let near = known.len().min((self.n + 1).max(10));
        self.rng.pick(&known[..near])
    }

    /// Whether only this link, and perhaps a time, identifies an item: it repeats the other item.
    fn is_whole_id(&self, link: &Field) -> bool {
        self.is_only_identifier(link, &self.task.entity.id_fields())
    }

    /// Whether there is one item for each target of a link.
    fn has_one_item_per_target(&self, link: &Field) -> bool {
        let unique =
            |fields: &[String]| self.is_only_identifier(link, &fields.iter().map(String::as_str).collect::<Vec<_>>());
        self.is_whole_id(link) || self.task.entity.unique.iter().any(|each| unique(&each.fields))
    }

    /// Whether this link alone identifies an item: the other fields are its tenant or times.
    fn is_only_identifier(&self, link: &Field, fields: &[&str]) -> bool {
        let entity = self.task.entity;
        let is_not_identifying = |path: &&str| {
            *path == link.name
                || entity.tenant.as_deref() == Some(*path)
                || entity
                    .field(path)
                    .is_some_and(|field| matches!(field.field_type, FieldType::Timestamp(_) | FieldType::Date))
        };
        fields.contains(&link.name.as_str()) && fields.iter().all(is_not_identifying)
    }

    /// Whether a field is an id in words, built from other fields.
    fn is_descriptive_id(&self, field: &Field) -> bool {
        matches!(field.field_type, FieldType::String)
            && field.default.is_none()
            && self.task.entity.id_fields().contains(&field.name.as_str())
    }

    /// Whether the person of the item is its tenant: tenants are people, or each has one item.
    fn describes_tenant(&self) -> bool {
        let entity = self.task.entity;
        let tenant = entity.tenant.as_deref().unwrap_or_default();
        let mut words = words(tenant).into_iter();
        entity.id_fields().is_empty()
            || words.any(|word| is_people(&word) || matches!(word.as_str(), "creator" | "owner"))
    }
}

fn is_state(field: &Field) -> bool {
    matches!(field.field_type, FieldType::Boolean) || !field.choices().is_empty()
}

/// The person that an item describes.
fn person_of(fields: &Map<String, Json>) -> Option<Person> {
    let text = |name: &str| fields.get(name)?.as_str().map(str::to_owned);
    let name = ["name", "displayName", "fullName"].into_iter().find_map(text)?;
    Some(Person { name, email: text("email")? })
}

/// Whether a field marks deleted items only, which no new item is.
fn is_soft_delete_field(entity: &Entity, field: &Field) -> bool {
    entity.soft_delete.as_ref().is_some_and(|soft| [&soft.at, &soft.by].contains(&&Some(field.name.clone())))
}

/// Whether a link refers to an actor, who is not the person that the item is about.
fn is_actor_field(name: &str) -> bool {
    name.ends_with("By")
}

/// Removes the value at a dotted path.
fn remove(fields: &mut Map<String, Json>, path: &str) {
    match path.split_once('.') {
        None => drop(fields.remove(path)),
        Some((first, rest)) => {
            if let Some(Json::Object(inner)) = fields.get_mut(first) {
                remove(inner, rest);
            }
        }
    }
}

/// Whether the tenancy layer sets this field, and no tenant can.
pub(super) fn is_set_by_tenancy(entity: &Entity, field: &Field) -> bool {
    entity.wall != nagaya_design::Wall::Key
        && field.default == Some(DefaultValue::New)
        && entity.id_fields().contains(&field.name.as_str())
}
