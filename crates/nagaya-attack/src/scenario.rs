//! An attacker in two environments, and what has to be the same in both.

use std::{collections::BTreeMap, fmt, panic::Location};

use nagaya_design::{AccessPattern, Design, Entity, KeyRouter, Wall};
use nagaya_store::{Item, Value};
use serde_json::{Map, Value as Json};

use super::json;
use super::{
    Engine, Options, Outcome,
    action::{Action, FurtherRoute, Observation},
    environment::{self, Creator, Environment, OwnedItem},
    gateway::{AttackClient, Gateway, UNSUPPORTED},
    lists,
};
use nagaya_tenancy::{Error, List, Tenant};

/// An attacker in two environments.
pub(super) struct Scenario {
    pub(super) design: Design,
    pub(super) options: Options,
    pub(super) attacker: String,
    pub(super) victims: Vec<String>,
    /// Where the other tenants have items.
    pub(super) populated: Environment,
    /// Where they have public items only.
    pub(super) bare: Environment,
    /// The attacker's client in each of them.
    clients: [Box<dyn AttackClient>; 2],
    /// Whether their gateway has rules of its own.
    has_rules: bool,
    /// The attacker's items, in both environments.
    pub(super) own_items: Vec<OwnedItem>,
    /// The items of the other tenants and of the system, in the populated environment.
    pub(super) others_items: Vec<OwnedItem>,
    /// Lists by all patterns that tenants may use, with parameters of all items.
    pub(super) lists: Vec<(AccessPattern, List)>,
    /// Texts that a careless layer would misread.
    pub(super) hostile_texts: Vec<String>,
    /// All items of the populated environment.
    stored: Stored,
}

/// Items by table and key.
type Stored = BTreeMap<(usize, String, String), Item>;

impl Scenario {
    pub(super) async fn open<E: Engine>(
        gateway: &dyn Gateway,
        design: &Design,
        engine: &E,
        options: Options,
        attacker: String,
    ) -> Result<Self, Failure> {
        let (populated, bare) = (Environment::open(design, engine).await?, Environment::open(design, engine).await?);
        let victims: Vec<String> = environment::names(design)
            .into_iter()
            .filter(|name| *name != attacker && populated.attacker_layer.tenant(&environment::principal(name)).is_ok())
            .collect();
        let principal = environment::principal(&attacker);
        let clients = [
            gateway.open(&populated.attacker_layer, &principal).await,
            gateway.open(&bare.attacker_layer, &principal).await,
        ];
        let mut scenario = Scenario {
            design: design.clone(),
            options,
            attacker,
            victims,
            populated,
            bare,
            clients,
            has_rules: gateway.has_rules(),
            own_items: Vec::new(),
            others_items: Vec::new(),
            lists: Vec::new(),
            hostile_texts: Vec::new(),
            stored: Stored::new(),
        };
        scenario.populate().await?;
        scenario.stored = scenario.snapshot().await?;
        scenario.lists = lists::lists(&scenario);
        scenario.hostile_texts = scenario.hostile_texts();
        Ok(scenario)
    }

    async fn populate(&mut self) -> Result<(), Failure> {
        let tenants =
            |entity: &Entity| environment::is_private(entity) || entity.wall == Wall::Public && entity.tenant.is_some();
        let public = |entity: &Entity| entity.wall == Wall::Public;
        for environment in [&self.populated, &self.bare] {
            let home = std::ptr::eq(environment, &self.populated);
            let own = self.handle(environment)?;
            let own = environment.populate(&Creator::Tenant(&own), Some(&self.attacker), (0, 4), tenants).await?;
            let mut others_items = Vec::new();
            for (at, victim) in self.victims.iter().enumerate() {
                let tenant = environment.others.tenant(&environment::principal(victim))?;
                // The first two have as much as the attacker, the others something of each.
                let much = (at + 1, if at < 2 { 4 } else { 1 });
                let wanted = |entity: &Entity| tenants(entity) && (home || public(entity));
                others_items.extend(environment.populate(&Creator::Tenant(&tenant), Some(victim), much, wanted).await?);
            }
            let operator = environment.others.operator("an attack on the walls", &environment::principal(""));
            let systems = |entity: &Entity| !tenants(entity) && (home || public(entity));
            others_items.extend(environment.populate(&Creator::Operator(&operator), None, (900, 2), systems).await?);
            if home {
                (self.own_items, self.others_items) = (own, others_items);
            } else if own.len() != self.own_items.len() {
                return Err(Failure::new("the attacker cannot create the same items in both environments"));
            }
        }
        for entity in self.design.entities.iter().filter(|entity| tenants(entity)) {
            expect(self.own_items.iter().any(|own| own.entity == entity.name), || {
                format!("no {} can be made from the design's examples", entity.name)
            })?;
        }
        Ok(())
    }

    pub(super) fn handle(&self, environment: &Environment) -> Result<Tenant, Failure> {
        Ok(environment.attacker_layer.tenant(&environment::principal(&self.attacker))?)
    }

    /// The attacker's handle for what is done in the populated environment only.
    pub(super) fn probe(&self) -> Result<Tenant, Failure> {
        Ok(self.populated.probe.tenant(&environment::principal(&self.attacker))?)
    }

    pub(super) fn entity(&self, name: &str) -> Result<&Entity, Failure> {
        self.design.entity(name).ok_or_else(|| Failure::new(format!("there is no entity {name}")))
    }

    /// The items of others that are behind a wall.
    pub(super) fn walled_items(&self) -> impl Iterator<Item = &OwnedItem> {
        self.others_items
            .iter()
            .filter(|each| self.design.entity(&each.entity).is_some_and(|entity| entity.wall != Wall::Public))
    }

    /// The access patterns that tenants may use.
    pub(super) fn tenant_patterns(&self) -> impl Iterator<Item = &AccessPattern> {
        self.design.access_patterns.iter().filter(|access| self.design.wall_of(access) != Wall::System)
    }

    /// Performs an action in both environments; the answers have to be equal.
    pub(super) async fn expect_same_answer(&self, action: &Action) -> Result<Observation, Failure> {
        let [home, bare] = &self.clients;
        let expect_breaches = || self.populated.attacker_layer.breaches() + self.bare.attacker_layer.breaches();
        let before = expect_breaches();
        let unsupported = || Observation { code: UNSUPPORTED.to_owned(), text: String::new() };
        let one = home.perform(action).await.unwrap_or_else(unsupported);
        let other = bare.perform(action).await.unwrap_or_else(unsupported);
        expect(one == other, || {
            let (with, without) = difference(&one.text, &other.text);
            format!("{action:?}\nwith the items of others: {} {with}\nwithout them: {} {without}", one.code, other.code)
        })?;
        expect(expect_breaches() == before, || format!("{action:?} is counted as a breach"))?;
        Ok(one)
    }

    /// What the attacker can call besides the entities and access patterns of the design.
    pub(super) fn further_routes(&self) -> Vec<FurtherRoute> {
        self.clients[0].further_routes()
    }

    /// A sample, as large as the options say.
    pub(super) fn sample<T>(&self, all: impl IntoIterator<Item = T>) -> Vec<T> {
        let every = self.options.one_in.max(1);
        let mut all: Vec<T> = all.into_iter().collect();
        let start = (self.options.seed % every as u64) as usize % all.len().max(1);
        all.drain(..start);
        all.into_iter().step_by(every).collect()
    }

    /// Performs actions in both environments: all answers are equal, and the items of others do not change.
    pub(super) async fn expect_isolated(&mut self, actions: impl IntoIterator<Item = Action>) -> Result<(), Failure> {
        for action in self.sample(actions) {
            self.expect_same_answer(&action).await?;
        }
        self.expect_only_attacker_items_changed().await
    }

    /// Performs actions in both environments: each is refused with one of these codes, and nothing is written.
    pub(super) async fn expect_refused(
        &mut self,
        actions: impl IntoIterator<Item = Action>,
        codes: &[&str],
    ) -> Result<(), Failure> {
        for action in self.sample(actions) {
            let seen = self.expect_same_answer(&action).await?;
            let kept = seen.code == "walled" && action.writes_audit(&self.design);
            let is_otherwise = self.has_rules && seen.code != "ok";
            expect(kept || is_otherwise || seen.code == UNSUPPORTED || codes.contains(&seen.code.as_str()), || {
                format!("{action:?}\nshould be refused as {codes:?}, and gives {seen:?}")
            })?;
        }
        let now = self.snapshot().await?;
        let changed = now.iter().find(|(key, item)| self.stored.get(*key) != Some(item)).map(|(_, item)| item);
        let gone = self.stored.iter().find(|(key, _)| !now.contains_key(*key)).map(|(_, item)| item);
        expect(now == self.stored, || format!("a refused action had an effect: {changed:?} new, {gone:?} gone"))
    }

    /// Takes what is stored now as the state that attacks may not change.
    pub(super) async fn refresh(&mut self) -> Result<(), Failure> {
        self.stored = self.snapshot().await?;
        Ok(())
    }

    /// The items of others are unchanged; new and changed items belong to the attacker.
    pub(super) async fn expect_only_attacker_items_changed(&mut self) -> Result<(), Failure> {
        let now = self.snapshot().await?;
        let (router, partitions) = (KeyRouter::new(&self.design), self.partitions());
        let keys: std::collections::BTreeSet<_> = now.keys().chain(self.stored.keys()).collect();
        for key in keys {
            let (before, after) = (self.stored.get(key), now.get(key));
            if before != after {
                for item in [before, after].into_iter().flatten() {
                    self.expect_own(&router, &partitions, key.0, item)?;
                }
            }
        }
        self.stored = now;
        Ok(())
    }

    /// An item belongs to the attacker by its field, its key and its index attributes.
    fn expect_own(
        &self,
        router: &KeyRouter<'_>,
        partitions: &[String],
        table: usize,
        item: &Item,
    ) -> Result<(), Failure> {
        let wrong = |reason: &str| Failure::new(format!("{reason}: {item:?}"));
        let fields = item_to_json(item);
        let (_, partition, sort) = self.location(table, item);
        let Some(routed) = router.route(&self.design.tables[table].id, &partition, &sort) else {
            // One of the layer's own.
            let foreign = partitions.iter().find(|others_items| mentions(item, others_items));
            return expect(foreign.is_none(), || format!("the layer's own {item:?} names {foreign:?}"));
        };
        let entity = self.entity(routed.entity)?;
        let tenant = entity.tenant.as_deref().and_then(|path| json::value_at(&fields, path)).and_then(Json::as_str);
        if tenant != Some(self.attacker.as_str()) {
            return Err(wrong("the attacker changed an item of another tenant"));
        }
        for (attribute, expected) in self.design.derived_attributes(entity, &fields) {
            let expected = expected.map_err(|unfit| wrong(&unfit.to_string()))?;
            let found = item.get(&attribute).and_then(Value::as_str);
            if found != expected.as_deref() {
                return Err(wrong(&format!("`{attribute}` is not what the fields give")));
            }
        }
        Ok(())
    }

    /// The partitions that belong to other tenants only.
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
            if !found.contains(partition) && names.flatten().any(|others_items| others_items == *partition) {
                found.push(partition.clone());
            }
        }
        found
    }

    /// The stored item.
    pub(super) fn stored_item_of(&self, belonging: &OwnedItem) -> Result<&Item, Failure> {
        let entity = self.entity(&belonging.entity)?;
        let mut fields = belonging.fields.clone();
        if let (Some(tenant), Some(path)) = (&belonging.tenant, &entity.tenant) {
            json::set_at_path(&mut fields, path, tenant.as_str().into());
        }
        let key = entity.key.render(&fields).map_err(|unfit| Failure::new(unfit.to_string()))?;
        let found = self.stored.get(&(entity.table, key.partition, key.sort));
        found.ok_or_else(|| Failure::new(format!("{belonging:?} is not stored")))
    }

    async fn snapshot(&self) -> Result<Stored, Failure> {
        let items = self.populated.stored().await?;
        Ok(items.into_iter().map(|(table, item)| (self.location(table, &item), item)).collect())
    }

    fn location(&self, table: usize, item: &Item) -> (usize, String, String) {
        let key = &self.design.tables[table].key;
        let text = |attribute: &str| item.get(attribute).and_then(Value::as_str).unwrap_or_default().to_owned();
        (table, text(&key.partition), text(&key.sort))
    }

    fn hostile_texts(&self) -> Vec<String> {
        let mut texts: Vec<String> = self.victims.iter().take(4).cloned().collect();
        for victim in self.victims.iter().take(2) {
            texts.push(format!("{}#{victim}", self.attacker));
            texts.push(format!("x#{}#{victim}", self.design.tenant.field));
        }
        texts.extend(self.partitions().into_iter().take(2));
        let keys = self.walled_items().take(60).step_by(7).filter_map(|each| self.stored_item_of(each).ok());
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

/// Two texts, from shortly before the first difference.
fn difference<'t>(one: &'t str, other: &'t str) -> (&'t str, &'t str) {
    let parts = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    let start = (0..=parts.saturating_sub(100)).rev().find(|at| one.is_char_boundary(*at)).unwrap_or(0);
    let end = |text: &str| (start..=text.len().min(start + 400)).rev().find(|at| text.is_char_boundary(*at));
    (&one[start..end(one).unwrap_or(start)], &other[start..end(other).unwrap_or(start)])
}

/// The item that has these fields, the tenant among them, as the layer would store it.
pub(super) fn item_with_fields(design: &Design, entity: &Entity, fields: &Map<String, Json>) -> Result<Item, Failure> {
    let mut item: Item = fields.iter().map(|(name, value)| (name.clone(), json::to_store(value.clone()))).collect();
    for (attribute, value) in design.derived_attributes(entity, fields) {
        match value.map_err(|unfit| Failure::new(unfit.to_string()))? {
            Some(value) => item.insert(&attribute, value),
            None => drop(item.remove(&attribute)),
        }
    }
    if let Some((attribute, value)) = design.table_of(entity).discriminator.as_ref().zip(entity.discriminator.as_ref())
    {
        item.insert(attribute, value.as_str());
    }
    Ok(item)
}

/// An item's attributes as JSON.
pub(super) fn item_to_json(item: &Item) -> Map<String, Json> {
    item.iter().map(|(name, value)| (name.to_owned(), json::to_json(value))).collect()
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
    item_to_json(item).values().any(|value| is_in(value, text))
}

/// Why a case failed, and where.
#[derive(Debug)]
pub(super) enum Failure {
    /// The design has nothing for the case: what it has instead.
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

impl From<Failure> for Outcome {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Nothing(instead) => Outcome::Skipped(instead),
            Failure::Broken { .. } => Outcome::Failed(failure.to_string()),
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

/// Checks a condition.
#[track_caller]
pub(super) fn expect(claim: bool, otherwise: impl FnOnce() -> String) -> Result<(), Failure> {
    if claim { Ok(()) } else { Err(Failure::new(otherwise())) }
}

/// Checks that the design has something that the case can attack; `instead` is what it has otherwise.
pub(super) fn expect_tried(tried: bool, instead: &'static str) -> Result<(), Failure> {
    if tried { Ok(()) } else { Err(Failure::Nothing(instead)) }
}
