//! An attacker between two worlds, and what has to be the same in both.

use std::{collections::BTreeMap, fmt, panic::Location};

use nagaya_design::{Access, Design, Entity, Router, Wall};
use nagaya_store::{Item, Value};
use serde_json::{Map, Value as Json};

use super::json as values;
use super::{
    Engine, Options,
    action::{Action, Seen},
    door::{Door, Hand, UNASKED},
    lists,
    world::{self, Belonging, Maker, World},
};
use nagaya_tenancy::{Error, List, Tenant};

/// An attacker between two worlds.
pub(super) struct Trial {
    pub(super) design: Design,
    pub(super) options: Options,
    pub(super) attacker: String,
    pub(super) victims: Vec<String>,
    /// Where the others are at home.
    pub(super) lived_in: World,
    /// Where they have nothing but what is public.
    pub(super) bare: World,
    /// The attacker's way into each of them.
    hands: [Box<dyn Hand>; 2],
    /// What the attacker has, in both worlds.
    pub(super) own: Vec<Belonging>,
    /// What the others and the system have, where they are at home.
    pub(super) theirs: Vec<Belonging>,
    /// Lists by all patterns that tenants may use, with parameters of everybody's items.
    pub(super) lists: Vec<(Access, List)>,
    /// Texts that a careless layer would take for something else.
    pub(super) hostile: Vec<String>,
    /// What is stored where the others are at home.
    stored: Stored,
}

/// Items by table and key.
type Stored = BTreeMap<(usize, String, String), Item>;

impl Trial {
    pub(super) async fn open<E: Engine>(
        door: &dyn Door,
        design: &Design,
        engine: &E,
        options: Options,
        attacker: String,
    ) -> Result<Self, Failure> {
        let (lived_in, bare) = (World::open(design, engine).await?, World::open(design, engine).await?);
        let victims: Vec<String> = world::names(design)
            .into_iter()
            .filter(|name| *name != attacker && lived_in.house.tenant(&world::principal(name)).is_ok())
            .collect();
        let principal = world::principal(&attacker);
        let hands = [door.open(&lived_in.house, &principal).await, door.open(&bare.house, &principal).await];
        let mut trial = Trial {
            design: design.clone(),
            options,
            attacker,
            victims,
            lived_in,
            bare,
            hands,
            own: Vec::new(),
            theirs: Vec::new(),
            lists: Vec::new(),
            hostile: Vec::new(),
            stored: Stored::new(),
        };
        trial.furnish().await?;
        trial.stored = trial.look().await?;
        trial.lists = lists::lists(&trial);
        trial.hostile = trial.hostile();
        Ok(trial)
    }

    async fn furnish(&mut self) -> Result<(), Failure> {
        let tenants =
            |entity: &Entity| world::is_private(entity) || entity.wall == Wall::Public && entity.tenant.is_some();
        let public = |entity: &Entity| entity.wall == Wall::Public;
        for world in [&self.lived_in, &self.bare] {
            let home = std::ptr::eq(world, &self.lived_in);
            let own = self.handle(world)?;
            let own = world.furnish(&Maker::Tenant(&own), Some(&self.attacker), (0, 4), tenants).await?;
            let mut theirs = Vec::new();
            for (at, victim) in self.victims.iter().enumerate() {
                let tenant = world.others.tenant(&world::principal(victim))?;
                // The first two have as much as the attacker, the others something of each.
                let much = (at + 1, if at < 2 { 4 } else { 1 });
                let wanted = |entity: &Entity| tenants(entity) && (home || public(entity));
                theirs.extend(world.furnish(&Maker::Tenant(&tenant), Some(victim), much, wanted).await?);
            }
            let operator = world.others.operator("an attack on the walls", &world::principal(""));
            let systems = |entity: &Entity| !tenants(entity) && (home || public(entity));
            theirs.extend(world.furnish(&Maker::Operator(&operator), None, (900, 2), systems).await?);
            if home {
                (self.own, self.theirs) = (own, theirs);
            } else if own.len() != self.own.len() {
                return Err(Failure::new("the attacker cannot make the same things in both worlds"));
            }
        }
        for entity in self.design.entities.iter().filter(|entity| tenants(entity)) {
            holds(self.own.iter().any(|own| own.entity == entity.name), || {
                format!("no {} can be made from the design's examples", entity.name)
            })?;
        }
        Ok(())
    }

    pub(super) fn handle(&self, world: &World) -> Result<Tenant, Failure> {
        Ok(world.house.tenant(&world::principal(&self.attacker))?)
    }

    /// The attacker's handle for what is done only where the others are at home.
    pub(super) fn aside(&self) -> Result<Tenant, Failure> {
        Ok(self.lived_in.aside.tenant(&world::principal(&self.attacker))?)
    }

    pub(super) fn entity(&self, name: &str) -> Result<&Entity, Failure> {
        self.design.entity(name).ok_or_else(|| Failure::new(format!("there is no entity {name}")))
    }

    /// What others than the attacker have behind a wall.
    pub(super) fn hidden(&self) -> impl Iterator<Item = &Belonging> {
        self.theirs
            .iter()
            .filter(|each| self.design.entity(&each.entity).is_some_and(|entity| entity.wall != Wall::Public))
    }

    /// Does something in both worlds, and gets the same answer.
    pub(super) async fn same(&self, action: &Action) -> Result<Seen, Failure> {
        let [home, bare] = &self.hands;
        let alarms = || self.lived_in.house.breaches() + self.bare.house.breaches();
        let before = alarms();
        let unasked = || Seen { code: UNASKED.to_owned(), text: String::new() };
        let one = home.ask(action).await.unwrap_or_else(unasked);
        let other = bare.ask(action).await.unwrap_or_else(unasked);
        holds(one == other, || {
            let (with, without) = difference(&one.text, &other.text);
            format!("{action:?}\nwith the others at home: {} {with}\nwithout them: {} {without}", one.code, other.code)
        })?;
        holds(alarms() == before, || format!("{action:?} sets off an alarm"))?;
        Ok(one)
    }

    /// As many of these as the options ask for.
    pub(super) fn some<T>(&self, all: impl IntoIterator<Item = T>) -> Vec<T> {
        let every = self.options.one_in.max(1);
        let mut all: Vec<T> = all.into_iter().collect();
        let start = (self.options.seed % every as u64) as usize % all.len().max(1);
        all.drain(..start);
        all.into_iter().step_by(every).collect()
    }

    /// Does all this in both worlds: all answers are the same, and the others' items stay as they are.
    pub(super) async fn nothing_crosses(&mut self, actions: impl IntoIterator<Item = Action>) -> Result<(), Failure> {
        for action in self.some(actions) {
            self.same(&action).await?;
        }
        self.untouched().await
    }

    /// Does all this in both worlds: each is refused with one of these codes, and nothing at all is written.
    pub(super) async fn all_refused(
        &mut self,
        actions: impl IntoIterator<Item = Action>,
        codes: &[&str],
    ) -> Result<(), Failure> {
        for action in self.some(actions) {
            let seen = self.same(&action).await?;
            let kept = seen.code == "walled" && action.rewrites_audit(&self.design);
            holds(kept || seen.code == UNASKED || codes.contains(&seen.code.as_str()), || {
                format!("{action:?}\nshould be refused as {codes:?}, and gives {seen:?}")
            })?;
        }
        let now = self.look().await?;
        let changed = now.iter().find(|(key, item)| self.stored.get(*key) != Some(item)).map(|(_, item)| item);
        let gone = self.stored.iter().find(|(key, _)| !now.contains_key(*key)).map(|(_, item)| item);
        holds(now == self.stored, || format!("what was refused was done: {changed:?} new, {gone:?} gone"))
    }

    /// What the others have stored is as it was; what is new or different is the attacker's.
    pub(super) async fn untouched(&mut self) -> Result<(), Failure> {
        let now = self.look().await?;
        let (router, partitions) = (Router::new(&self.design), self.partitions());
        let keys: std::collections::BTreeSet<_> = now.keys().chain(self.stored.keys()).collect();
        for key in keys {
            let (before, after) = (self.stored.get(key), now.get(key));
            if before != after {
                for item in [before, after].into_iter().flatten() {
                    self.is_own(&router, &partitions, key.0, item)?;
                }
            }
        }
        self.stored = now;
        Ok(())
    }

    /// An item carries the attacker's tenant, in its field, its key and its index attributes.
    fn is_own(&self, router: &Router<'_>, partitions: &[String], table: usize, item: &Item) -> Result<(), Failure> {
        let wrong = |reason: &str| Failure::new(format!("{reason}: {item:?}"));
        let fields = json(item);
        let (_, partition, sort) = self.place(table, item);
        let Some(routed) = router.route(&self.design.tables[table].id, &partition, &sort) else {
            // One of the layer's own.
            let foreign = partitions.iter().find(|theirs| mentions(item, theirs));
            return holds(foreign.is_none(), || format!("the layer's own {item:?} names {foreign:?}"));
        };
        let entity = self.entity(routed.entity)?;
        let tenant = entity.tenant.as_deref().and_then(|path| values::json_at(&fields, path)).and_then(Json::as_str);
        if tenant != Some(self.attacker.as_str()) {
            return Err(wrong("the attacker changed an item of somebody else's"));
        }
        for (attribute, expected) in self.design.derived(entity, &fields) {
            let expected = expected.map_err(|unfit| wrong(&unfit.to_string()))?;
            let found = item.get(&attribute).and_then(Value::as_str);
            if found != expected.as_deref() {
                return Err(wrong(&format!("`{attribute}` is not what the fields give")));
            }
        }
        Ok(())
    }

    /// The partitions that are the others' alone.
    fn partitions(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (at, partition, _) in self.stored.keys() {
            let table = &self.design.tables[*at];
            let key_walled = |entity: &&Entity| entity.wall == Wall::Key && self.design.table_of(entity).id == table.id;
            let names = self.design.entities.iter().filter(key_walled).filter_map(|entity| {
                let path = entity.tenant.as_deref()?;
                let rendered = |name: &String| entity.key.partition.render(&[(path, name.as_str())]).ok();
                Some(self.victims.iter().filter_map(rendered).collect::<Vec<_>>())
            });
            if !found.contains(partition) && names.flatten().any(|theirs| theirs == *partition) {
                found.push(partition.clone());
            }
        }
        found
    }

    /// The stored item of a belonging.
    pub(super) fn item_of(&self, belonging: &Belonging) -> Result<&Item, Failure> {
        let entity = self.entity(&belonging.entity)?;
        let mut fields = belonging.fields.clone();
        if let (Some(tenant), Some(path)) = (&belonging.tenant, &entity.tenant) {
            values::put_json(&mut fields, path, tenant.as_str().into());
        }
        let key = entity.key.render(&fields).map_err(|unfit| Failure::new(unfit.to_string()))?;
        let found = self.stored.get(&(entity.table, key.partition, key.sort));
        found.ok_or_else(|| Failure::new(format!("{belonging:?} is not stored")))
    }

    async fn look(&self) -> Result<Stored, Failure> {
        let items = self.lived_in.stored().await?;
        Ok(items.into_iter().map(|(table, item)| (self.place(table, &item), item)).collect())
    }

    fn place(&self, table: usize, item: &Item) -> (usize, String, String) {
        let key = &self.design.tables[table].key;
        let text = |attribute: &str| item.get(attribute).and_then(Value::as_str).unwrap_or_default().to_owned();
        (table, text(&key.partition), text(&key.sort))
    }

    fn hostile(&self) -> Vec<String> {
        let mut texts: Vec<String> = self.victims.iter().take(4).cloned().collect();
        for victim in self.victims.iter().take(2) {
            texts.push(format!("{}#{victim}", self.attacker));
            texts.push(format!("x#{}#{victim}", self.design.tenant.field));
        }
        texts.extend(self.partitions().into_iter().take(2));
        let keys = self.hidden().take(60).step_by(7).filter_map(|each| self.item_of(each).ok());
        texts.extend(keys.filter_map(|item| {
            let table = self.design.tables.iter().find(|table| item.get(&table.key.sort).is_some())?;
            item.get(&table.key.sort)?.as_str().map(str::to_owned)
        }));
        let fixed = [
            "",
            "#",
            "%",
            "%23",
            "x#y",
            "../x",
            "*",
            "~",
            "\u{0}",
            "a\nb",
            "%unique-user",
            "\u{10ffff}",
            "é",
            "e\u{301}",
        ];
        texts.extend(fixed.map(str::to_owned));
        texts.push("x".repeat(3_000));
        texts
    }
}

/// Two texts from a little before where they part.
fn difference<'t>(one: &'t str, other: &'t str) -> (&'t str, &'t str) {
    let parts = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    let start = (0..=parts.saturating_sub(100)).rev().find(|at| one.is_char_boundary(*at)).unwrap_or(0);
    let end = |text: &str| (start..=text.len().min(start + 400)).rev().find(|at| text.is_char_boundary(*at));
    (&one[start..end(one).unwrap_or(start)], &other[start..end(other).unwrap_or(start)])
}

/// An item's attributes as JSON.
pub(super) fn json(item: &Item) -> Map<String, Json> {
    item.iter().map(|(name, value)| (name.to_owned(), values::to_json(value))).collect()
}

/// Whether a text is among the values of an item.
fn mentions(item: &Item, text: &str) -> bool {
    fn is_in(value: &Json, text: &str) -> bool {
        match value {
            Json::String(found) => found == text,
            Json::Array(values) => values.iter().any(|value| is_in(value, text)),
            Json::Object(values) => values.values().any(|value| is_in(value, text)),
            _ => false,
        }
    }
    json(item).values().any(|value| is_in(value, text))
}

/// Why a case did not pass, and where.
#[derive(Debug)]
pub(super) enum Failure {
    /// The design has nothing to try the case on: this is what it has.
    Nothing(&'static str),
    Broken {
        reason: String,
        at: &'static Location<'static>,
    },
}

impl Failure {
    #[track_caller]
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Failure::Broken { reason: reason.into(), at: Location::caller() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Nothing(reason) => f.write_str(reason),
            Failure::Broken { reason, at } => {
                let short: String = reason.chars().take(1_500).collect();
                write!(f, "{short}\n         at {}:{}", at.file(), at.line())
            }
        }
    }
}

impl From<Error> for Failure {
    #[track_caller]
    fn from(error: Error) -> Self {
        Failure::new(format!("unexpected error `{}`: {error}", error.code()))
    }
}

impl From<nagaya_store::Error> for Failure {
    #[track_caller]
    fn from(error: nagaya_store::Error) -> Self {
        Failure::new(format!("unexpected error of the store `{}`: {error}", error.code()))
    }
}

/// The claim holds.
#[track_caller]
pub(super) fn holds(claim: bool, otherwise: impl FnOnce() -> String) -> Result<(), Failure> {
    if claim { Ok(()) } else { Err(Failure::new(otherwise())) }
}
