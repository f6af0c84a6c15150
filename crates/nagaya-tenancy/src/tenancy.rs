//! A design on a store: where handles come from.

use std::{
    borrow::Cow,
    sync::{Arc, PoisonError, RwLock},
};

use nagaya_design::Design;
use nagaya_store::{Clock, ErrorKind as StoreErrorKind, Health, IntoShared, Key};

use crate::{
    Error, ErrorKind, IdGenerator, KeySet, Operator, Principal, Settings, Tenant, Visitor, scope::Scope,
    session::Session, state::TenancyState,
};

/// A design that runs on a store. It gives out handles, and never the store.
#[derive(Debug, Clone)]
pub struct Nagaya {
    design: Arc<Design>,
    /// Replaced in all clones at once when another generation of a table is used.
    state: Arc<RwLock<Arc<TenancyState>>>,
}

impl Nagaya {
    /// A design on a store, with the default settings.
    pub fn open(design: Design, store: impl IntoShared) -> Self {
        Nagaya::open_with(design, store, Settings::default())
    }

    /// A design on a store.
    pub fn open_with(design: Design, store: impl IntoShared, settings: Settings) -> Self {
        let (design, shared) = (Arc::new(design), Arc::default());
        Nagaya::from_state(&Arc::new(TenancyState::new(design, store.into_shared(), settings, shared)))
    }

    pub(crate) fn state(&self) -> Arc<TenancyState> {
        Arc::clone(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn from_state(state: &Arc<TenancyState>) -> Self {
        Nagaya { design: Arc::clone(&state.design), state: Arc::new(RwLock::new(Arc::clone(state))) }
    }

    /// The same design and store, but with this generation of a table. Only users of the same generation see what is written
    /// to it.
    pub fn with_generation(&self, table: &str, generation: u32) -> Self {
        Nagaya::from_state(&Arc::new(self.state().with_generation(table, generation)))
    }

    /// Uses this generation of a table from now on, in all clones of this value. Existing handles keep the one that they
    /// have.
    pub fn switch_generation(&self, table: &str, generation: u32) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        *state = Arc::new(state.with_generation(table, generation));
    }

    /// The generation of a table that is in use.
    pub fn generation_of(&self, table: &str) -> u32 {
        self.state().settings.generations.get(table).copied().unwrap_or(1)
    }

    /// Creates the tables and indexes that are missing.
    pub async fn ensure_tables(&self) -> Result<(), Error> {
        let state = self.state();
        Ok(state.store.ensure_tables(&state.tables()).await?)
    }

    /// The names of the tables that are missing. Creates none.
    pub async fn missing_tables(&self) -> Result<Vec<String>, Error> {
        let state = self.state();
        let mut missing = Vec::new();
        for table in state.tables() {
            match state.store.get(&table.name, &Key::new("%probe", "%probe")).await {
                Ok(_) => {}
                Err(error) if matches!(error.kind(), StoreErrorKind::NoTable(_)) => missing.push(table.name),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(missing)
    }

    /// Whether the store answers: reads a key that does not exist.
    pub async fn ping_store(&self) -> Result<(), Error> {
        let state = self.state();
        state.store.get(&state.operator_log_table().name, &Key::new("%probe", "%probe")).await?;
        Ok(())
    }

    /// Whether the store can serve, as far as its engine knows without a call.
    pub fn store_health(&self) -> Health {
        self.state().store.health()
    }

    /// The clock in use.
    pub fn clock(&self) -> Clock {
        self.state().settings.clock.clone()
    }

    /// The generator of ids in use.
    pub fn ids(&self) -> IdGenerator {
        self.state().settings.ids.clone()
    }

    /// The design that runs.
    pub fn design(&self) -> &Design {
        &self.design
    }

    /// How many items the store has returned from behind another wall: anything but 0 is an alarm.
    pub fn breaches(&self) -> u64 {
        self.state().breaches()
    }

    /// The keys that names of people are hashed with in logs.
    pub fn log_keys(&self) -> KeySet {
        self.state().settings.log_keys.clone()
    }

    /// A tenant's name as logs may show it: a keyed hash where the tenant is a person.
    pub fn tenant_in_logs<'t>(&self, tenant: &'t str) -> Cow<'t, str> {
        self.state().tenant_in_logs(tenant)
    }

    /// The handle of a tenant's user: it reaches the tenant's items and public ones, and nothing else.
    pub fn tenant(&self, principal: &Principal) -> Result<Tenant, Error> {
        self.tenant_owned(principal.clone())
    }

    /// The same from an owned principal.
    pub fn tenant_owned(&self, principal: Principal) -> Result<Tenant, Error> {
        let tenant = &principal.tenant;
        if !self.design.accepts_tenant_id(tenant) {
            return Err(ErrorKind::BadTenant.into());
        }
        let scope = Scope::Tenant(tenant.clone());
        Ok(Tenant(Session::new(self.state(), scope, principal)))
    }

    /// The handle of an operator of the system. It alone reaches behind system walls. Without a reason it reaches nothing.
    ///
    /// Every read and every write of items is audited with the reason. Two things are not: [side records](SideRecord), and the
    /// items that a [`ChangeSource`] gives after its start.
    pub fn operator(&self, reason: impl Into<String>, principal: &Principal) -> Operator {
        let session = Session::new(self.state(), Scope::Operator, principal.clone());
        Operator(Session { reason: Some(reason.into()), ..session })
    }

    /// A handle that reaches what an operator reaches, and leaves no entry in the operator log. It is for what the system's own
    /// code does for a caller who is no operator, such as storing their application, and must not give the caller anything that
    /// they may not read.
    pub fn unaudited_operator(&self, principal: &Principal) -> Operator {
        Operator(Session::unaudited_operator(self.state(), principal.clone()))
    }

    /// The handle of an anonymous visitor: it reads public items, and nothing else.
    pub fn visitor(&self, principal: Principal) -> Visitor {
        Visitor(Session::new(self.state(), Scope::Visitor, principal))
    }
}
