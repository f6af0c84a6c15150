//! Items in the making: from an entity and a number to fields that hang together.

use std::collections::HashMap;

use nagaya_design::{Default, Design, Entity, Field, Type};
use serde_json::{Map, Value as Json};

use super::{
    links::{is_people, words},
    luck::Luck,
    people::Person,
    plan::Task,
    value::fits,
};

pub(super) const DAY: i64 = 86_400_000;
/// How far back the data goes.
const DAYS: i64 = 90;

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
        let luck = Luck::of(self.seed, &[name, &task.entity.name], [n, attempt]);
        let person = self.somebody(tenant, n, attempt);
        let mut maker = Maker {
            scene: self,
            task,
            tenant,
            n,
            attempt,
            luck,
            person,
            moment: self.until,
            bits: 0,
            fields: Map::new(),
        };
        maker.fill()?;
        Some(Draft { fields: maker.fields, moment: maker.moment, bits: maker.bits })
    }

    /// What there is of an entity for somebody: the tenant's own, or what belongs to nobody.
    pub(super) fn known(&self, entity: &str, tenant: Option<usize>) -> &[Draft] {
        let of = |tenant: Option<usize>| self.made.get(&(entity.to_owned(), tenant)).map(Vec::as_slice);
        of(tenant).or_else(|| of(None)).unwrap_or_default()
    }

    /// A person of a tenant.
    fn somebody(&self, tenant: Option<usize>, n: usize, attempt: usize) -> Person {
        let mut start = Luck::of(self.seed, &["people"], [tenant.map_or(0, |tenant| tenant + 1), 0]);
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
    pub(super) luck: Luck,
    /// Whom it is about.
    pub(super) person: Person,
    pub(super) moment: i64,
    /// What its id is made of where the store layer makes it.
    pub(super) bits: u128,
    /// What it has so far.
    pub(super) fields: Map<String, Json>,
}

impl Maker<'_> {
    /// Gives the item all of its fields. First its states, which say what else it has; then what it is linked to, which says
    /// when it can have come to be and whom it is about; last the names that are made of the rest.
    fn fill(&mut self) -> Option<()> {
        let entity = self.task.entity;
        self.bits = self.luck.bits();
        self.happen();
        if self.is_about_its_tenant() {
            self.person = self.scene.somebody(self.tenant, 0, 0);
        }
        let tenant = entity.tenant.as_deref();
        let given = |field: &&Field| Some(field.name.as_str()) == tenant;
        let (states, others): (Vec<&Field>, Vec<&Field>) =
            entity.fields.iter().filter(|field| !given(field)).partition(|field| is_state(field));
        for field in states {
            self.add(field)?;
        }
        let mut mirrored = self.link()?;
        let (ids, others): (Vec<&Field>, Vec<&Field>) = others.into_iter().partition(|field| self.is_made_of_the_rest(field));
        for field in others.into_iter().chain(ids) {
            // A link that is not there is none that has been forgotten.
            let decided = field.optional && self.task.links.contains_key(&field.name);
            if decided || self.fields.contains_key(&field.name) || self.is_of_deletion(field) {
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
        self.moment = self.scene.until - self.luck.between(1, back);
    }

    /// Chooses what the item is linked to; what is copied from there is the result. `None` if that is not there.
    fn link(&mut self) -> Option<Map<String, Json>> {
        let (entity, scene) = (self.task.entity, self.scene);
        let mut mirrored = Map::new();
        let mut latest = None;
        for field in &entity.fields {
            let Some(link) = self.task.links.get(&field.name) else { continue };
            let known = scene.known(&link.entity, self.tenant);
            let own = self.is_the_only_link_of_its_id(field);
            if known.is_empty() || !own && field.optional && !self.has(field) {
                if link.declared && !field.optional {
                    return None;
                }
                continue;
            }
            // There is one for each of the others, and no more.
            let other = if own { known.get(self.n)? } else { self.one_of(known)? };
            let Some(value) = other.fields.get(&link.field).filter(|value| fits(field, value)) else {
                continue;
            };
            self.fields.insert(field.name.clone(), value.clone());
            latest = latest.max(Some(other.moment));
            if own {
                mirrored = other.fields.clone();
                self.moment = other.moment;
                latest = None;
            }
            if is_people(&link.entity) {
                self.person = person_of(&other.fields).unwrap_or_else(|| self.person.clone());
            }
        }
        // Nothing is older than what it belongs to.
        if let Some(latest) = latest.filter(|latest| *latest > self.moment) {
            self.moment = latest + self.luck.between(0, (scene.until - latest).max(0));
        }
        Some(mirrored)
    }

    /// One of the items that are there. Early ones have more that belongs to them; and more items change nothing about those
    /// that a smaller number gives.
    pub(super) fn one_of<'k>(&mut self, known: &'k [Draft]) -> Option<&'k Draft> {
        let near = known.len().min((self.n + 1).max(10));
        self.luck.pick(&known[..near])
    }

    /// Whether an item is told apart from others by nothing but this link, and perhaps an instant: there is one for each of
    /// the other items, and it repeats what they say.
    fn is_the_only_link_of_its_id(&self, field: &Field) -> bool {
        let entity = self.task.entity;
        let ids = entity.id_fields();
        let says_nothing = |path: &&str| {
            *path == field.name
                || entity.tenant.as_deref() == Some(*path)
                || entity.field(path).is_some_and(|field| matches!(field.kind, Type::Timestamp(_) | Type::Date))
        };
        ids.contains(&field.name.as_str()) && ids.iter().all(says_nothing)
    }

    /// Whether a field is an id that says what the item is.
    fn is_made_of_the_rest(&self, field: &Field) -> bool {
        matches!(field.kind, Type::String)
            && field.default.is_none()
            && self.task.entity.id_fields().contains(&field.name.as_str())
    }

    /// Whether a field tells that an item is deleted, which no new item is. What can also tell something else is given a
    /// value.
    fn is_of_deletion(&self, field: &Field) -> bool {
        self.task.entity.soft_delete.as_ref().is_some_and(|soft| {
            let name = Some(field.name.as_str());
            name == soft.at.as_deref() || name == soft.by.as_deref()
        })
    }

    /// Whether whom the item is about is its tenant: where tenants are people, or there is one item for each.
    fn is_about_its_tenant(&self) -> bool {
        let entity = self.task.entity;
        let tenant = entity.tenant.as_deref().unwrap_or_default();
        let mut words = words(tenant).into_iter();
        entity.id_fields().is_empty() || words.any(|word| is_people(&word) || matches!(word.as_str(), "creator" | "owner"))
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
