//! What all sessions share: the design compiled for work, the store, and the settings.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use nagaya_design::{AccessParameter, AccessPattern, Design, Entity, KeyAttributes, Table};
use nagaya_store::{Item, Store, TableSpec};
use tokio::sync::{Mutex, MutexGuard};

use crate::{
    Error, ErrorKind, Settings, compiled::CompiledEntity, read::Referrer, table_specs, write::PruningPosition,
};

/// A design, its store and the settings.
pub(crate) struct TenancyState {
    pub(crate) design: Arc<Design>,
    /// Everything reads from it; only `write/commit.rs` writes to it.
    pub(crate) store: Arc<dyn Store>,
    pub(crate) settings: Settings,
    pub(crate) entities: HashMap<String, Arc<CompiledEntity>>,
    /// The parameters of each access pattern.
    pub(crate) parameters: HashMap<String, Vec<AccessParameter>>,
    /// The fields that refer to each entity.
    referrers: HashMap<String, Vec<Referrer>>,
    operator_log_table: OperatorLogTable,
    shared: Arc<SharedState>,
}

/// What all generations of the tables and all tasks of this process share.
#[derive(Debug, Default)]
pub(crate) struct SharedState {
    /// Breaches since this process started.
    breaches: AtomicU64,
    /// Held while entries are appended to the operator log.
    operator_log_turn: Mutex<()>,
    /// Where the removal of expired entries of the operator log goes on; `None`: at its beginning.
    pruning: std::sync::Mutex<Option<PruningPosition>>,
}

/// The table of the operator log.
#[derive(Debug)]
pub(crate) struct OperatorLogTable {
    /// Its name in the store.
    pub(crate) name: String,
    pub(crate) key: KeyAttributes,
    /// The attribute with the time of expiry, where the table has one.
    pub(crate) ttl: Option<String>,
}

impl fmt::Debug for TenancyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TenancyState({})", self.design.name)
    }
}

impl TenancyState {
    pub(crate) fn new(
        design: Arc<Design>,
        store: Arc<dyn Store>,
        settings: Settings,
        shared: Arc<SharedState>,
    ) -> Self {
        let table_name = |table: &Table| settings.table_name(&design, table);
        let compile = |entity: &Entity| {
            let table = table_name(&design.tables[entity.table]);
            (entity.name.clone(), Arc::new(CompiledEntity::new(&design, entity, table)))
        };
        let entities = design.entities.iter().map(compile).collect();
        let parameters = |access: &AccessPattern| (access.name.clone(), design.parameters(access));
        let parameters = design.access_patterns.iter().map(parameters).collect();
        let referrers = |entity: &Entity| (entity.name.clone(), Referrer::all(&design, entity));
        let referrers = design.entities.iter().map(referrers).collect();
        let log = design.audit_entity().map_or(0, |entity| entity.table);
        let operator_log_table = design.tables.get(log).map(|table| OperatorLogTable {
            name: table_name(table),
            key: table.key.clone(),
            ttl: table.ttl.clone(),
        });
        // A design without a table has nothing that an operator could do.
        let operator_log_table = operator_log_table.unwrap_or_else(|| OperatorLogTable {
            name: String::new(),
            key: KeyAttributes { partition: String::new(), sort: String::new() },
            ttl: None,
        });
        TenancyState { design, store, settings, entities, parameters, referrers, operator_log_table, shared }
    }

    pub(crate) fn with_generation(&self, table: &str, generation: u32) -> Self {
        let mut settings = self.settings.clone();
        settings.generations.insert(table.to_owned(), generation);
        TenancyState::new(Arc::clone(&self.design), Arc::clone(&self.store), settings, Arc::clone(&self.shared))
    }

    /// The tables as the store should have them.
    pub(crate) fn tables(&self) -> Vec<TableSpec> {
        let mut tables = table_specs(&self.design, &self.design.name);
        for (spec, table) in tables.iter_mut().zip(&self.design.tables) {
            spec.name = self.settings.table_name(&self.design, table);
        }
        tables
    }

    pub(crate) fn compiled(&self, entity: &str) -> Result<&Arc<CompiledEntity>, Error> {
        self.entities.get(entity).ok_or_else(|| ErrorKind::NoEntity(entity.to_owned()).into())
    }

    /// The fields that refer to an entity.
    pub(crate) fn referrers(&self, compiled: &CompiledEntity) -> &[Referrer] {
        self.referrers.get(compiled.name()).map_or(&[], Vec::as_slice)
    }

    /// One entity of each table that has referenceable items.
    pub(crate) fn referenceable_tables(&self) -> Vec<&Arc<CompiledEntity>> {
        let mut found: Vec<&Arc<CompiledEntity>> = Vec::new();
        for compiled in self.entities.values().filter(|compiled| compiled.referenceable) {
            if found.iter().all(|each| each.table != compiled.table) {
                found.push(compiled);
            }
        }
        found
    }

    /// An entity of a table in which items expire, preferably one whose partition is the tenant's own.
    pub(crate) fn expiring(&self) -> Option<&CompiledEntity> {
        let mut found: Vec<_> = self.entities.values().filter(|compiled| compiled.ttl.is_some()).collect();
        found.sort_by_key(|compiled| (compiled.entity.wall != nagaya_design::Wall::Key, compiled.name().to_owned()));
        found.first().map(|compiled| &***compiled)
    }

    /// The table of the operator log: that of the audit entity, else the first one.
    pub(crate) fn operator_log_table(&self) -> &OperatorLogTable {
        &self.operator_log_table
    }

    /// Waits until no other task of this process appends to the operator log.
    pub(crate) async fn operator_log_turn(&self) -> MutexGuard<'_, ()> {
        self.shared.operator_log_turn.lock().await
    }

    /// Where the removal of expired entries of the operator log goes on.
    pub(crate) fn pruning_position(&self) -> std::sync::MutexGuard<'_, Option<PruningPosition>> {
        self.shared.pruning.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether writes of several partitions can be one set.
    pub(crate) fn cross_partition(&self) -> bool {
        self.store.capabilities().cross_partition
    }

    /// Counts an item that the store returned from behind another wall: something wrote around the walls.
    pub(crate) fn breach(&self, compiled: &CompiledEntity, item: &Item) -> Error {
        let (partition, sort) = self.key_in_logs(compiled, item);
        self.shared.breaches.fetch_add(1, Ordering::Relaxed);
        tracing::error!(
            entity = compiled.name(),
            table = compiled.table,
            partition,
            sort,
            "the store returned an item from behind another wall"
        );
        ErrorKind::Breach.into()
    }

    pub(crate) fn breaches(&self) -> u64 {
        self.shared.breaches.load(Ordering::Relaxed)
    }
}
