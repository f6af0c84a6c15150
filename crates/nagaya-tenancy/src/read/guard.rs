//! The second check of a page: every item that the store returns has to be on the caller's side of the wall.

use nagaya_design::{AccessPattern, Verb};
use nagaya_store::{Condition, Item};

use crate::{
    Error,
    compiled::CompiledEntity,
    scope::{Scope, is_per_tenant},
    session::Session,
    state::TenancyState,
};

/// What the items of a page are checked against, computed once for all of them.
pub(crate) struct PageGuard<'s> {
    state: &'s TenancyState,
    scope: &'s Scope,
    compiled: &'s CompiledEntity,
    /// Whether only their own tenant sees the items.
    per_tenant: bool,
    /// The partition of all the tenant's items, where there is one.
    partition: Option<String>,
    /// Holds for the user's own items, if the user may read those only.
    user_condition: Option<Condition>,
}

impl<'s> PageGuard<'s> {
    pub(crate) fn new(session: &'s Session, access: &AccessPattern, compiled: &'s CompiledEntity) -> Self {
        let Session { state, scope, .. } = session;
        // The wall of an index can be narrower than its entity's.
        let per_tenant = is_per_tenant(compiled.entity.wall) || is_per_tenant(state.design.wall_of(access));
        let partition = scope.tenant().and_then(|tenant| compiled.tenant_partition(tenant));
        let user_condition = session.user_condition(compiled, Verb::Read);
        PageGuard { state, scope, compiled, per_tenant, partition, user_condition }
    }

    /// An item of the page; `None` if it is deleted, another user's, or one of the layer's own.
    pub(crate) fn admit(&self, item: Item) -> Result<Option<Item>, Error> {
        if self.admits(&item) {
            let is_own =
                |item: &Item| self.user_condition.as_ref().is_none_or(|condition| condition.is_satisfied_by(item));
            return Ok(Some(item).filter(|item| !self.compiled.is_deleted(item) && is_own(item)));
        }
        if self.compiled.is_internal(&item) { Ok(None) } else { Err(self.state.breach(self.compiled, &item)) }
    }

    /// What [`Scope::admits`] says, and the access pattern's own wall.
    fn admits(&self, item: &Item) -> bool {
        let compiled = self.compiled;
        let has_own_key = || match &self.partition {
            Some(partition) => compiled.is_in_partition(item, partition),
            None => compiled.is_under_own_key(item),
        };
        (!self.per_tenant || self.scope.may_change(compiled, item))
            && compiled.matches_discriminator(item)
            && (has_own_key() || compiled.has_former_key(item))
    }
}
