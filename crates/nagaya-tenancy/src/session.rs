//! A session: on whose behalf a handle acts, and on what.

use std::sync::Arc;

use nagaya_design::{Reach, Verb};
use nagaya_store::{Condition, Item};

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
    /// Whether it reaches its user's own items only.
    pub(crate) own_items: OwnItems,
}

/// Whether a session is limited to its user's own items, of the entities that name an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnItems {
    Unlimited,
    /// For the verbs that the user's roles permit on own items only.
    ByRoles,
    /// For every verb.
    Always,
}

impl Session {
    /// An entity, if this session may do this with its items.
    pub(crate) fn authorize(&self, entity: &str, intent: Intent) -> Result<&Arc<CompiledEntity>, Error> {
        self.require_reason()?;
        let compiled = self.state.compiled(entity)?;
        self.scope.authorize_entity(compiled, intent)?;
        Ok(compiled)
    }

    /// Holds for the user's own items, if this session may do this with them only.
    pub(crate) fn own_condition(&self, compiled: &CompiledEntity, verb: Verb) -> Option<Condition> {
        let owner = compiled.entity.owner.as_deref()?;
        let is_limited = match self.own_items {
            OwnItems::Unlimited => false,
            OwnItems::ByRoles => {
                self.state.design.reach(&self.principal.roles, compiled.name(), verb) == Some(Reach::Own)
            }
            OwnItems::Always => true,
        };
        is_limited.then(|| Condition::equal(owner, &*self.principal.user))
    }

    /// Whether an item does not exist for this, because it belongs to another user.
    pub(crate) fn is_hidden(&self, compiled: &CompiledEntity, item: &Item, verb: Verb) -> bool {
        self.own_condition(compiled, verb).is_some_and(|own| !own.is_satisfied_by(item))
    }

    /// Refuses an operator without a reason.
    pub(crate) fn require_reason(&self) -> Result<(), Error> {
        match &self.reason {
            Some(reason) if reason.trim().is_empty() => Err(ErrorKind::NoReason.into()),
            _ => Ok(()),
        }
    }
}
