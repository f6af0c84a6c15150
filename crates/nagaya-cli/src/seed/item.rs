//! Items in the making: from an entity and a number to fields that hang together.

use std::collections::HashMap;

use nagaya_design::{Default, Design, Entity, Field, Type};
use nagaya_seed::{DAY, Person, Rng, SeedContext};
use serde_json::{Map, Value as Json};

use super::{
    links::{is_people, words},
    plan::Task,
    value::fits,
};

/// How far back the data goes.
pub(super) const DAYS: i64 = 90;

/// An item before it is made.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    pub(super) fields: Map<String, Json>,
    /// When it came to be, in milliseconds since 1970.
    pub(super) moment: i64,
    /// What its id is made of where the store layer makes it.
    pub(super) bits: u128,
}

/// What all items have in common.
#[derive(Debug)]
pub(super) struct Scene<'d> {
    pub(super) design: &'d Design,
    pub(super) seed: u64,
    /// The day that the data leads up to, in milliseconds since 1970.
    pub(super) until: i64,
    /// This day.
    pub(super) today: i64,
    pub(super) tenants: Vec<String>,
    /// What there is already, by entity and tenant; of no tenant what operators have made.
    pub(super) made: HashMap<(String, Option<usize>), Vec<Draft>>,
}

impl Scene<'_> {
    /// The n-th item of a tenant, or of none; another one for each attempt. `None` if something that it needs is not there.
    pub(super) fn draft(&self, task: &Task<'_>, tenant: Option<usize>, n: usize, attempt: usize) -> Option<Draft> {
        let name = tenant.and_then(|tenant| self.tenants.get(tenant)).map_or("", String::as_str);
        let rng = Rng::new(self.seed, &[name, &task.entity.name], [n, attempt]);
        let person = self.person(tenant, n, attempt);
        let mut maker = Maker {
            scene: self,
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
        maker.fill()?;
        Some(Draft { fields: maker.fields, moment: maker.moment, bits: maker.bits })
    }

    /// What the data of the first tenant depends on.
    pub(super) fn context(&self, items: usize) -> SeedContext<'_> {
        SeedContext { seed: self.seed, tenants: &self.tenants, index: 0, until: self.until, items }
    }

    /// What there is of an entity for somebody: the tenant's own, or what belongs to nobody.
    pub(super) fn known(&self, entity: &str, tenant: Option<usize>) -> &[Draft] {
        let of = |tenant: Option<usize>| self.made.get(&(entity.to_owned(), tenant)).map(Vec::as_slice);
        of(tenant).or_else(|| of(None)).unwrap_or_default()
    }

    /// A person of a tenant.
    fn person(&self, tenant: Option<usize>, n: usize, attempt: usize) -> Person {
        let mut start = Rng::new(self.seed, &["people"], [tenant.map_or(0, |tenant| tenant + 1), 0]);
        // Attempts go where nobody is yet.
        Person::numbered(start.below(1_000) + n + attempt * 100_000)
    }
}

/// Makes one item.
pub(super) struct Maker<'s> {
    pub(super) scene: &'s Scene<'s>,
    pub(super) task: &'s Task<'s>,
    pub(super) tenant: Option<usize>,
    pub(super) n: usize,
    pub(super) attempt: usize,
    pub(super) rng: Rng,
    /// Whom it is about.
    pub(super) person: Person,
    pub(super) moment: i64,
    /// What its id is made of where the store layer makes it.
    pub(super) bits: u128,
    /// What it is linked to, by the name of the link.
    pub(super) chosen: Vec<(String, &'s Draft)>,
    /// What it has so far.
    pub(super) fields: Map<String, Json>,
}

impl Maker<'_> {
    /// Gives the item all of its fields. First its states, which say what else it has; then what it is linked to, which says
    /// when it can have come to be and whom it is about; last the names that are made of the rest.
    fn fill(&mut self) -> Option<()> {
        let entity = self.task.entity;
        self.bits = self.rng.bits();
        self.happen();
        if self.is_about_its_tenant() {
            self.person = self.scene.person(self.tenant, 0, 0);
        }
        // An operator says whose an item is; everybody else's are their own.
        let tenant = entity.tenant.as_deref().filter(|_| self.tenant.is_some());
        let given = |field: &&Field| Some(field.name.as_str()) == tenant;
        let (states, others): (Vec<&Field>, Vec<&Field>) =
            entity.fields.iter().filter(|field| !given(field)).partition(|field| is_state(field));
        for field in states {
            self.add(field)?;
        }
        let mut mirrored = self.link()?;
        let (ids, others): (Vec<&Field>, Vec<&Field>) =
            others.into_iter().partition(|field| self.is_made_of_the_rest(field));
        for field in others.into_iter().chain(ids) {
            // A link that is not there is none that has been forgotten.
            let decided = field.optional && self.task.links.contains_key(&field.name);
            let set_by_the_layer = is_of_deletion(entity, field) || field.since.is_some();
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

    /// Adds a field, unless it is one that this item does not have. `None` if there is no value for it.
    fn add(&mut self, field: &Field) -> Option<()> {
        if !field.optional || self.has(field) {
            let value = self.value(field)?;
            self.fields.insert(field.name.clone(), value);
        }
        Some(())
    }

    /// Chooses when the item came to be: in the last months, or as long ago as such items live.
    fn happen(&mut self) {
        let lives = self.task.entity.ttl_after.and_then(|seconds| i64::try_from(seconds).ok());
        let back = lives.map_or(DAYS * DAY, |seconds| seconds.saturating_mul(1_000).min(DAYS * DAY));
        // Tenants and their people are there before what they do.
        let least = match self.task.entity.name.as_str() {
            _ if self.task.entity.id_fields().is_empty() => back - back / 10,
            name if is_people(name) => back / 3,
            _ => 1,
        };
        self.moment = self.scene.until - self.rng.between(least, back);
    }

    /// Chooses what the item is linked to; what is copied from there is the result. `None` if that is not there.
    fn link(&mut self) -> Option<Map<String, Json>> {
        let (task, scene) = (self.task, self.scene);
        let mut mirrored = Map::new();
        for field in task.entity.fields.iter().filter(|field| !is_of_deletion(task.entity, field)) {
            let Some(link) = task.links.get(&field.name) else { continue };
            let known = scene.known(&link.entity, self.tenant);
            let one_each = self.is_one_each(field);
            if known.is_empty() || field.optional && !one_each && !self.has(field) {
                if link.declared && !field.optional {
                    return None;
                }
                continue;
            }
            // Two links to one kind of thing are to the same one.
            let to_the_same = |name: &str| {
                !is_doer(&field.name)
                    && !is_doer(name)
                    && task.links.get(name).is_some_and(|each| each.entity == link.entity)
            };
            let same = self.chosen.iter().find(|(name, _)| to_the_same(name));
            let other = match same.map(|(_, other)| *other) {
                Some(same) => same,
                None if one_each => known.get(self.n)?,
                None => self.one_of(known)?,
            };
            let Some(value) = other.fields.get(&link.field).filter(|value| fits(field, value)) else { continue };
            self.fields.insert(field.name.clone(), value.clone());
            self.chosen.push((field.name.clone(), other));
            if self.is_its_id(field) {
                mirrored.clone_from(&other.fields);
            }
            if is_people(&link.entity) && link.entity != task.entity.name && !is_doer(&field.name) {
                self.person = person_of(&other.fields).unwrap_or_else(|| self.person.clone());
            }
        }
        // Nothing is older than what it belongs to, and what repeats another thing is as old as that.
        if let Some(latest) = self.chosen.iter().map(|(_, other)| other.moment).max() {
            if !mirrored.is_empty() {
                self.moment = latest;
            } else if latest > self.moment {
                self.moment = latest + self.rng.between(0, (scene.until - latest).max(0));
            }
        }
        Some(mirrored)
    }

    /// One of the items that are there. Early ones have more that belongs to them; and more items change nothing about those
    /// that a smaller number gives.
    pub(super) fn one_of<'k>(&mut self, known: &'k [Draft]) -> Option<&'k Draft> {
        let near = known.len().min((self.n + 1).max(10));
        self.rng.pick(&known[..near])
    }

    /// Whether an item is told apart from others by nothing but this link, and perhaps an instant: it repeats what the other
    /// one says.
    fn is_its_id(&self, link: &Field) -> bool {
        self.tells_apart(link, &self.task.entity.id_fields())
    }

    /// Whether there is one item for each of those that a link can be to.
    fn is_one_each(&self, link: &Field) -> bool {
        let unique = |fields: &[String]| self.tells_apart(link, &fields.iter().map(String::as_str).collect::<Vec<_>>());
        self.is_its_id(link) || self.task.entity.unique.iter().any(|each| unique(&each.fields))
    }

    /// Whether of the fields that tell items apart this link is the only one that can.
    fn tells_apart(&self, link: &Field, fields: &[&str]) -> bool {
        let entity = self.task.entity;
        let says_nothing = |path: &&str| {
            *path == link.name
                || entity.tenant.as_deref() == Some(*path)
                || entity.field(path).is_some_and(|field| matches!(field.kind, Type::Timestamp(_) | Type::Date))
        };
        fields.contains(&link.name.as_str()) && fields.iter().all(says_nothing)
    }

    /// Whether a field is an id that says what the item is.
    fn is_made_of_the_rest(&self, field: &Field) -> bool {
        matches!(field.kind, Type::String)
            && field.default.is_none()
            && self.task.entity.id_fields().contains(&field.name.as_str())
    }

    /// Whether whom the item is about is its tenant: where tenants are people, or there is one item for each.
    fn is_about_its_tenant(&self) -> bool {
        let entity = self.task.entity;
        let tenant = entity.tenant.as_deref().unwrap_or_default();
        let mut words = words(tenant).into_iter();
        entity.id_fields().is_empty()
            || words.any(|word| is_people(&word) || matches!(word.as_str(), "creator" | "owner"))
    }
}

fn is_state(field: &Field) -> bool {
    matches!(field.kind, Type::Boolean) || !field.one_of().is_empty()
}

/// Who an item is.
fn person_of(fields: &Map<String, Json>) -> Option<Person> {
    let text = |name: &str| fields.get(name)?.as_str().map(str::to_owned);
    let name = ["name", "displayName", "fullName"].into_iter().find_map(text)?;
    Some(Person { name, email: text("email")? })
}

/// Whether a field tells that an item is deleted, which no new item is. What also tells other things is not meant.
fn is_of_deletion(entity: &Entity, field: &Field) -> bool {
    entity.soft_delete.as_ref().is_some_and(|soft| [&soft.at, &soft.by].contains(&&Some(field.name.clone())))
}

/// Whether a link is to whoever has done something, who is not whom the item is about.
fn is_doer(name: &str) -> bool {
    name.ends_with("By")
}

/// Takes the value at a dotted path out.
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

/// Whether the store layer makes this field, and takes it from nobody else.
pub(super) fn is_made_by_the_layer(entity: &Entity, field: &Field) -> bool {
    entity.wall != nagaya_design::Wall::Key
        && field.default == Some(Default::New)
        && entity.id_fields().contains(&field.name.as_str())
}
