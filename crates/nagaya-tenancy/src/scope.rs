//! Authorization: which entities and access patterns a session reaches, and which items.

use std::sync::Arc;

use nagaya_design::{AccessPattern, Design, Wall};
use nagaya_store::{Condition, Item, Key, Value};

use crate::{Error, ErrorKind, compiled::CompiledEntity, values};

/// On whose behalf a session acts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scope {
    Tenant(Arc<str>),
    Operator,
    /// An anonymous caller, who reads public items only.
    Visitor,
}

/// What a call wants to do with an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Intent {
    Read,
    Create,
    /// Update or delete an existing item.
    Change,
}

impl Scope {
    pub(crate) fn tenant(&self) -> Option<&str> {
        match self {
            Scope::Tenant(tenant) => Some(tenant),
            Scope::Operator | Scope::Visitor => None,
        }
    }

    /// Whether the caller may do this with items of an entity at all.
    pub(crate) fn authorize_entity(&self, compiled: &CompiledEntity, intent: Intent) -> Result<(), Error> {
        let entity = &compiled.entity;
        let reaches = match (self, entity.wall) {
            // Audit entries are written by the layer itself, and never changed.
            _ if compiled.is_audit && intent != Intent::Read => false,
            (Scope::Tenant(_), Wall::Public) if intent != Intent::Read => entity.tenant.is_some(),
            (Scope::Operator, Wall::Public) if intent != Intent::Read => entity.tenant.is_none(),
            (Scope::Visitor, _) if intent != Intent::Read => false,
            (_, wall) => self.reaches(wall),
        };
        if reaches { Ok(()) } else { Err(ErrorKind::Walled(entity.name.clone()).into()) }
    }

    /// Whether the caller may use an access pattern.
    pub(crate) fn authorize_access(&self, design: &Design, access: &AccessPattern) -> Result<(), Error> {
        if self.reaches(design.wall_of(access)) { Ok(()) } else { Err(ErrorKind::Walled(access.name.clone()).into()) }
    }

    /// Whether the caller may read behind a wall.
    fn reaches(&self, wall: Wall) -> bool {
        match (self, wall) {
            (_, Wall::Public) => true,
            (Scope::Tenant(_), Wall::Key | Wall::Attribute) | (Scope::Operator, Wall::System) => true,
            (Scope::Tenant(_), Wall::System) | (Scope::Operator, Wall::Key | Wall::Attribute) => false,
            (Scope::Visitor, _) => false,
        }
    }

    /// The condition of every write to an existing item: it is there, under this key, and on the caller's side of the wall.
    pub(crate) fn ownership_condition(&self, compiled: &CompiledEntity, key: &Key) -> Condition {
        let partition = Condition::equal(compiled.key.partition.as_str(), Value::from(key.partition.clone()));
        match (self.tenant(), compiled.entity.tenant.as_deref()) {
            (Some(tenant), Some(field)) => partition.and(Condition::equal(values::path(field), tenant)),
            _ => partition,
        }
    }

    /// Whether an item that the store returned may be passed on. The query asked for the caller's items only, so one that may
    /// not be passed on is an alarm and not something to leave out.
    pub(crate) fn admits(&self, compiled: &CompiledEntity, item: &Item) -> bool {
        (!is_per_tenant(compiled.entity.wall) || self.may_change(compiled, item)) && compiled.is_in_place(item)
    }

    /// Whether the caller owns a stored item. Unlike [`Scope::admits`], `false` is nothing unusual: in a partition that tenants
    /// share, a caller can name the key of another tenant's item.
    pub(crate) fn may_change(&self, compiled: &CompiledEntity, item: &Item) -> bool {
        match self {
            Scope::Tenant(tenant) => compiled.owner(item) == Some(tenant),
            Scope::Operator => true,
            Scope::Visitor => false,
        }
    }
}

/// Whether a wall shows an item to its own tenant only.
pub(crate) fn is_per_tenant(wall: Wall) -> bool {
    matches!(wall, Wall::Key | Wall::Attribute)
}

#[cfg(test)]
mod tests {
    use nagaya_design::check;

    use super::*;

    const DESIGN: &str = r##"
        name    = "market"
        version = "1.0"

        [tenant]
        field = "shop"

        [table.main]
        key = ["PK", "SK"]

        [entity.offer]
        table = "main"
        key   = { PK = "OFFER#{id}", SK = "OFFER#" }
        wall  = "public"
        names = "first-come"

        [entity.offer.fields]
        shop = { type = "string", max = 20 }
        id   = { type = "string", max = 20 }

        [entity.rate]
        table  = "main"
        key    = { PK = "RATES", SK = "RATE#{id}" }
        wall   = "public"
        tenant = false

        [entity.rate.fields]
        id = { type = "string", max = 20 }

        [entity.order]
        table = "main"
        key   = { PK = "SHOP#{shop}", SK = "ORDER#{id}" }

        [entity.order.fields]
        shop = { type = "string", max = 20 }
        id   = { type = "string", max = 20 }

        [entity.case]
        table  = "main"
        key    = { PK = "CASES", SK = "CASE#{id}" }
        wall   = "system"
        tenant = false

        [entity.case.fields]
        id = { type = "string", max = 20 }
    "##;

    /// Handles of visitors have no writes; the wall does not rely on it.
    #[test]
    fn a_scope_writes_on_its_side_of_the_walls_only_and_a_visitor_nowhere() {
        let checked = check(DESIGN, &[]);
        let design = checked.design.unwrap_or_else(|| panic!("{:#?}", checked.diagnostics));
        let tenant = Scope::Tenant("s1".into());
        for (entity, readers, writers) in [
            ("offer", [true, true, true], [true, false, false]),
            ("rate", [true, true, true], [false, true, false]),
            ("order", [true, false, false], [true, false, false]),
            ("case", [false, true, false], [false, true, false]),
        ] {
            let entity = design.entity(entity).expect("it is declared above");
            let compiled = CompiledEntity::new(&design, entity, "main".to_owned());
            for (intent, expected) in [(Intent::Read, readers), (Intent::Create, writers), (Intent::Change, writers)] {
                let scopes = [&tenant, &Scope::Operator, &Scope::Visitor];
                let found = scopes.map(|scope| scope.authorize_entity(&compiled, intent).is_ok());
                assert_eq!(found, expected, "{}: {intent:?} by a tenant, an operator, a visitor", entity.name);
            }
        }
    }
}
