//! A session: on whose behalf a handle acts, and on what.

use std::sync::Arc;

use crate::{
    Error, ErrorKind, Principal,
    compiled::CompiledEntity,
    scope::{Intent, Scope},
    state::TenancyState,
};

/// What a handle acts with.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub(crate) state: Arc<TenancyState>,
    pub(crate) scope: Scope,
    pub(crate) principal: Principal,
    /// Why an operator acts.
    pub(crate) reason: Option<String>,
}

impl Session {
    /// An entity, if this session may do this with its items.
    pub(crate) fn authorize(&self, entity: &str, intent: Intent) -> Result<&Arc<CompiledEntity>, Error> {
        self.require_reason()?;
        let compiled = self.state.compiled(entity)?;
        self.scope.authorize_entity(compiled, intent)?;
        Ok(compiled)
    }

    /// Refuses an operator without a reason.
    pub(crate) fn require_reason(&self) -> Result<(), Error> {
        match &self.reason {
            Some(reason) if reason.trim().is_empty() => Err(ErrorKind::NoReason.into()),
            _ => Ok(()),
        }
    }
}
