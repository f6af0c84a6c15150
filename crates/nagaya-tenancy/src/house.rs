//! A design on a store: where handles come from.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use nagaya_design::{Access, Design, Entity, KeyAttributes, Parameter, Table};
use nagaya_store::{Clock, ErrorKind as StoreErrorKind, Health, Key, Store, TableSpec};
use serde_json::Value as Json;

use crate::{
    Error, ErrorKind, Ids, Operator, Principal, Settings, Tenant, Visitor, blueprint::Blueprint, guard::Scope,
    referers, referers::Referer, room::Room, table_specs,
};

/// A design that runs on a store. Gives out handles, and never the store.
#[derive(Debug, Clone)]
pub struct Nagaya {
    design: Arc<Design>,
    /// Replaced in all clones at once when another generation of a table is used.
    house: Arc<RwLock<Arc<House>>>,
}

/// What all handles share.
pub(crate) struct House {
    pub(crate) design: Arc<Design>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) settings: Settings,
    blueprints: HashMap<String, Arc<Blueprint>>,
    /// The parameters of each access pattern.
    pub(crate) parameters: HashMap<String, Vec<Parameter>>,
    /// What refers to each entity.
    referers: HashMap<String, Vec<Referer>>,
    /// The table that takes what operators do, by its name in the store.
    log_table: (String, KeyAttributes),
    counts: Arc<Counts>,
}

/// What is counted since this process started, whatever generation is used.
#[derive(Debug, Default)]
struct Counts {
    breaches: AtomicU64,
    /// Entries that operators have left.
    logged: AtomicU64,
}

impl fmt::Debug for House {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "House({})", self.design.name)
    }
}

impl House {
    fn new(design: Arc<Design>, store: Arc<dyn Store>, settings: Settings, counts: Arc<Counts>) -> Self {
        let table_name = |table: &Table| settings.table_name(&design, table);
        let blueprint = |entity: &Entity| {
            let table = table_name(&design.tables[entity.table]);
            (entity.name.clone(), Arc::new(Blueprint::new(&design, entity, table)))
        };
        let blueprints = design.entities.iter().map(blueprint).collect();
        let parameters = |access: &Access| (access.name.clone(), design.parameters(access));
        let parameters = design.accesses.iter().map(parameters).collect();
        let referers =
            design.entities.iter().map(|entity| (entity.name.clone(), referers::referers(&design, entity))).collect();
        let log = design.audit_entity().map_or(0, |entity| entity.table);
        let log_table = design.tables.get(log).map(|table| (table_name(table), table.key.clone()));
        // A design without a table has nothing that an operator could do.
        let no_table = || (String::new(), KeyAttributes { partition: String::new(), sort: String::new() });
        let log_table = log_table.unwrap_or_else(no_table);
        House { design, store, settings, blueprints, parameters, referers, log_table, counts }
    }

    fn with_generation(&self, table: &str, generation: u32) -> Self {
        let mut settings = self.settings.clone();
        settings.generations.insert(table.to_owned(), generation);
        House::new(Arc::clone(&self.design), Arc::clone(&self.store), settings, Arc::clone(&self.counts))
    }

    /// Its tables, as the store should have them.
    pub(crate) fn tables(&self) -> Vec<TableSpec> {
        let mut tables = table_specs(&self.design, &self.design.name);
        for (spec, table) in tables.iter_mut().zip(&self.design.tables) {
            spec.name = self.settings.table_name(&self.design, table);
        }
        tables
    }

    pub(crate) fn blueprint(&self, entity: &str) -> Result<&Arc<Blueprint>, Error> {
        self.blueprints.get(entity).ok_or_else(|| ErrorKind::NoEntity(entity.to_owned()).into())
    }

    /// What refers to an entity.
    pub(crate) fn referers(&self, blueprint: &Blueprint) -> &[Referer] {
        self.referers.get(blueprint.name()).map_or(&[], Vec::as_slice)
    }

    /// An entity of each table in which something can be referred to.
    pub(crate) fn referred_tables(&self) -> Vec<&Arc<Blueprint>> {
        let mut found: Vec<&Arc<Blueprint>> = Vec::new();
        for blueprint in self.blueprints.values().filter(|blueprint| blueprint.referred) {
            if found.iter().all(|each| each.table != blueprint.table) {
                found.push(blueprint);
            }
        }
        found
    }

    /// An entity of a table in which items expire, best one whose partition is the tenant's own.
    pub(crate) fn expiring(&self) -> Option<&Blueprint> {
        let mut found: Vec<_> = self.blueprints.values().filter(|blueprint| blueprint.ttl.is_some()).collect();
        found.sort_by_key(|blueprint| (blueprint.entity.wall != nagaya_design::Wall::Key, blueprint.name().to_owned()));
        found.first().map(|blueprint| &***blueprint)
    }

    /// The table that takes what operators do: that of the audit, else the first one.
    pub(crate) fn log_table(&self) -> (&str, &KeyAttributes) {
        (&self.log_table.0, &self.log_table.1)
    }

    /// A number that is greater with each entry of an operator.
    pub(crate) fn next_logged(&self) -> u64 {
        self.counts.logged.fetch_add(1, Ordering::Relaxed)
    }

    /// An item came back that is behind another wall: somebody wrote around the walls.
    pub(crate) fn breach(&self, blueprint: &Blueprint) -> Error {
        self.counts.breaches.fetch_add(1, Ordering::Relaxed);
        tracing::error!(entity = blueprint.name(), table = blueprint.table, "an item is behind another wall");
        ErrorKind::Breach.into()
    }
}

impl Nagaya {
    /// A design on a store, with settings of its own making.
    pub fn open(design: Design, store: impl Store + 'static) -> Self {
        Nagaya::open_with(design, store, Settings::default())
    }

    /// A design on a store.
    pub fn open_with(design: Design, store: impl Store + 'static, settings: Settings) -> Self {
        let (design, counts) = (Arc::new(design), Arc::default());
        Nagaya::of(&Arc::new(House::new(design, Arc::new(store), settings, counts)))
    }

    pub(crate) fn house(&self) -> Arc<House> {
        Arc::clone(&self.house.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn of(house: &Arc<House>) -> Self {
        Nagaya { design: Arc::clone(&house.design), house: Arc::new(RwLock::new(Arc::clone(house))) }
    }

    /// The same, with this generation of a table: what is written there nobody sees who uses another one.
    pub fn generation(&self, table: &str, generation: u32) -> Self {
        Nagaya::of(&Arc::new(self.house().with_generation(table, generation)))
    }

    /// Uses this generation of a table from now on, also in all clones of this value. Handles that are there go on with
    /// the one that they have.
    pub fn switch(&self, table: &str, generation: u32) {
        let mut house = self.house.write().unwrap_or_else(PoisonError::into_inner);
        *house = Arc::new(house.with_generation(table, generation));
    }

    /// The generation of a table that is used.
    pub fn generation_of(&self, table: &str) -> u32 {
        self.house().settings.generations.get(table).copied().unwrap_or(1)
    }

    /// Makes the tables and indexes that are missing.
    pub async fn ensure(&self) -> Result<(), Error> {
        let house = self.house();
        Ok(house.store.ensure(&house.tables()).await?)
    }

    /// The tables that are not there, by the names that they should have. Makes none.
    pub async fn missing_tables(&self) -> Result<Vec<String>, Error> {
        let house = self.house();
        let mut missing = Vec::new();
        for table in house.tables() {
            match house.store.get(&table.name, &Key::new("%probe", "%probe")).await {
                Ok(_) => {}
                Err(error) if matches!(error.kind(), StoreErrorKind::NoTable(_)) => missing.push(table.name),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(missing)
    }

    /// Asks the store for something that is not there: whether it answers at all.
    pub async fn answers(&self) -> Result<(), Error> {
        let house = self.house();
        house.store.get(house.log_table().0, &Key::new("%probe", "%probe")).await?;
        Ok(())
    }

    /// Whether the store can serve, as far as its engine knows without a call.
    pub fn store_health(&self) -> Health {
        self.house().store.health()
    }

    /// What tells the time here.
    pub fn clock(&self) -> Clock {
        self.house().settings.clock.clone()
    }

    /// What makes ids here.
    pub fn ids(&self) -> Ids {
        self.house().settings.ids.clone()
    }

    /// The design that runs.
    pub fn design(&self) -> &Design {
        &self.design
    }

    /// How many items have come back from behind another wall: anything but 0 is an alarm.
    pub fn breaches(&self) -> u64 {
        self.house().counts.breaches.load(Ordering::Relaxed)
    }

    /// The handle of a tenant's user: it reaches what is the tenant's and what is public, and nothing else.
    pub fn tenant(&self, principal: &Principal) -> Result<Tenant, Error> {
        self.enter(principal.clone())
    }

    /// The same for a principal that nobody else needs.
    pub fn enter(&self, principal: Principal) -> Result<Tenant, Error> {
        let tenant = &principal.tenant;
        let design = &self.design;
        let is_system = design.tenant.system.as_deref() == Some(&**tenant);
        if tenant.is_empty() || is_system || !self.fits(tenant) {
            return Err(ErrorKind::BadTenant.into());
        }
        let scope = Scope::Tenant(tenant.clone());
        let house = self.house();
        Ok(Tenant(Room { house, scope, principal, reason: None }))
    }

    /// The handle of somebody who works for the system itself: it alone reaches behind system walls, and every use of it
    /// is audited with the reason. Without a reason it reaches nothing.
    pub fn operator(&self, reason: impl Into<String>, principal: &Principal) -> Operator {
        let house = self.house();
        Operator(Room { house, scope: Scope::Operator, principal: principal.clone(), reason: Some(reason.into()) })
    }

    /// The handle of somebody who is not known: it reads what is public, and nothing else.
    pub fn visitor(&self, principal: Principal) -> Visitor {
        Visitor(Room { house: self.house(), scope: Scope::Visitor, principal, reason: None })
    }

    /// Whether a name is one that the tenant field of some entity takes.
    fn fits(&self, tenant: &str) -> bool {
        let value = Json::from(tenant);
        let mut fields = self
            .design
            .entities
            .iter()
            .filter_map(|entity| entity.implied_tenant(entity.wall).and_then(|path| entity.field(path)));
        let mut any = false;
        fields.any(|field| {
            any = true;
            let mut problems = Vec::new();
            field.check(&value, &field.name, &mut problems);
            problems.is_empty()
        }) || !any
    }
}
