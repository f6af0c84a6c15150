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
    /// A session without a reason, and without limits besides its scope.
    pub(crate) fn new(state: Arc<TenancyState>, scope: Scope, principal: Principal) -> Self {
        Session { state, scope, principal, reason: None, own_items: OwnItems::Unlimited }
    }

    /// A session that reaches what an operator reaches, and leaves no entry in the operator log.
    pub(crate) fn unaudited_operator(state: Arc<TenancyState>, principal: Principal) -> Self {
        Session::new(state, Scope::Operator, principal)
    }

    /// An entity, if this session may do this with its items.
    pub(crate) fn authorize(&self, entity: &str, intent: Intent) -> Result<&Arc<CompiledEntity>, Error> {
        self.require_reason()?;
        let compiled = self.state.compiled(entity)?;
        self.scope.authorize_entity(compiled, intent)?;
        Ok(compiled)
    }

    /// Holds for the user's own items, if this session may do this with them only.
    pub(crate) fn user_condition(&self, compiled: &CompiledEntity, verb: Verb) -> Option<Condition> {
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
        self.user_condition(compiled, verb).is_some_and(|condition| !condition.is_satisfied_by(item))
    }

    /// Refuses an operator without a usable reason.
    pub(crate) fn require_reason(&self) -> Result<(), Error> {
        match &self.reason {
            Some(reason) if !is_reason(reason) => Err(ErrorKind::NoReason.into()),
            _ => Ok(()),
        }
    }
}

/// Characters of the shortest reason of an operator: a word alone does not tell an auditor why.
pub const MIN_REASON_CHARS: usize = 10;

/// Whether a text can be the reason of an operator: long enough without the blanks around it, and without control characters,
/// which could forge lines where the log is read.
pub fn is_reason(text: &str) -> bool {
    let text = text.trim();
    text.chars().count() >= MIN_REASON_CHARS && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_has_ten_characters_and_no_control_characters() {
        for reason in ["ticket 471", "お客様からのご依頼です", "  asked for by the customer  "] {
            assert!(is_reason(reason), "{reason}");
        }
        for reason in ["", "          ", "a test", "x         ", "ticket 4\n711", "ticket\t4711", "ticket 4711\u{9b}2J"]
        {
            assert!(!is_reason(reason), "{reason:?}");
        }
    }
}
