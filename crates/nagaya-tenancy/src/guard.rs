//! The guard: what each write is pinned to, and whether what comes back may be passed on.

use std::sync::Arc;

use nagaya_design::{Access, Design, Wall};
use nagaya_store::{Condition, Item, Key, Value};

use crate::{Error, ErrorKind, blueprint::Blueprint, values};

/// On whose behalf a handle acts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scope {
    Tenant(Arc<str>),
    Operator,
    /// Nobody's in particular: it reads what is public, and that is all.
    Visitor,
}

/// What a call wants with an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Intent {
    Read,
    Create,
    /// What is there becomes something else, or goes.
    Change,
}

impl Scope {
    pub(crate) fn tenant(&self) -> Option<&str> {
        match self {
            Scope::Tenant(tenant) => Some(tenant),
            Scope::Operator | Scope::Visitor => None,
        }
    }

    /// Whether this handle reaches an entity at all.
    pub(crate) fn enters(&self, blueprint: &Blueprint, intent: Intent) -> Result<(), Error> {
        let entity = &blueprint.entity;
        let reaches = match (self, entity.wall) {
            // What has been written down about changes stays as it was.
            _ if blueprint.is_audit && intent == Intent::Change => false,
            (Scope::Tenant(_), Wall::Key | Wall::Attribute) | (Scope::Operator, Wall::System) => true,
            (_, Wall::Public) if intent == Intent::Read => true,
            (Scope::Tenant(_), Wall::Public) => entity.tenant.is_some(),
            (Scope::Operator, Wall::Public) => entity.tenant.is_none(),
            (Scope::Tenant(_), Wall::System) | (Scope::Operator, Wall::Key | Wall::Attribute) => false,
            (Scope::Visitor, _) => false,
        };
        if reaches { Ok(()) } else { Err(ErrorKind::Walled(entity.name.clone()).into()) }
    }

    /// Whether this handle may use an access pattern.
    pub(crate) fn follows(&self, design: &Design, access: &Access) -> Result<(), Error> {
        let reaches = match (self, design.wall_of(access)) {
            (_, Wall::Public) => true,
            (Scope::Tenant(_), Wall::Key | Wall::Attribute) | (Scope::Operator, Wall::System) => true,
            (Scope::Tenant(_), Wall::System) | (Scope::Operator, Wall::Key | Wall::Attribute) => false,
            (Scope::Visitor, _) => false,
        };
        if reaches { Ok(()) } else { Err(ErrorKind::Walled(access.name.clone()).into()) }
    }

    /// What has to hold for an item before it is changed or removed: it is there, under this key, and on this side of the
    /// wall.
    pub(crate) fn pin(&self, blueprint: &Blueprint, key: &Key) -> Condition {
        let partition = Condition::equal(blueprint.key.partition.as_str(), Value::from(key.partition.clone()));
        match (self.tenant(), blueprint.entity.tenant.as_deref()) {
            (Some(tenant), Some(field)) => partition.and(Condition::equal(values::path(field), tenant)),
            _ => partition,
        }
    }

    /// What the store leaves out of a page before it comes back: items of others that rightly lie in the same partition.
    pub(crate) fn filter(&self, design: &Design, access: &Access, blueprint: &Blueprint) -> Option<Condition> {
        let field = blueprint.entity.tenant.as_deref()?;
        let shared = design.wall_of(access) == Wall::Attribute;
        Some(Condition::equal(values::path(field), self.tenant().filter(|_| shared)?))
    }

    /// Whether an item that came back may be passed on. The store was asked for the right ones: one that is wrong is an
    /// alarm, not something to leave out.
    pub(crate) fn admits(&self, blueprint: &Blueprint, item: &Item) -> bool {
        let visible = !keeps_apart(blueprint.entity.wall) || self.may_change(blueprint, item);
        visible && self.lies_right(blueprint, item)
    }

    /// Whether an item of the table is one of the entity, where it should be.
    pub(crate) fn lies_right(&self, blueprint: &Blueprint, item: &Item) -> bool {
        blueprint.owns(item) && (blueprint.lies_under_its_key(item) || self.is_former(blueprint, item))
    }

    /// What the items that an access pattern gives are held to.
    pub(crate) fn sight<'s>(&'s self, design: &Design, access: &Access, blueprint: &'s Blueprint) -> Sight<'s> {
        // The wall of an index can be narrower than its entity's.
        let apart = keeps_apart(blueprint.entity.wall) || keeps_apart(design.wall_of(access));
        let partition = self.tenant().and_then(|tenant| blueprint.partition_of(tenant));
        Sight { scope: self, blueprint, apart, partition }
    }

    /// Whether an item lies in the partition of its tenant under a key of an older form.
    fn is_former(&self, blueprint: &Blueprint, item: &Item) -> bool {
        let fields = values::ItemFields(item);
        let stored = item.get(&blueprint.key.partition).and_then(Value::as_str);
        blueprint
            .entity
            .former_keys
            .iter()
            .any(|former| former.partition.render(&fields).is_ok_and(|partition| stored == Some(partition.as_str())))
    }

    /// Whether a stored item is the caller's to change. Unlike [`Scope::admits`], an item of another tenant is nothing out
    /// of the ordinary here: in a shared partition anybody can name its key.
    pub(crate) fn may_change(&self, blueprint: &Blueprint, item: &Item) -> bool {
        let owner = || blueprint.entity.tenant.as_deref().and_then(|field| values::lookup(item, field)?.as_str());
        match self {
            Scope::Tenant(tenant) => owner() == Some(tenant),
            Scope::Operator => true,
            Scope::Visitor => false,
        }
    }
}

/// What the items of a page are held to, worked out once for all of them.
pub(crate) struct Sight<'s> {
    scope: &'s Scope,
    blueprint: &'s Blueprint,
    /// Whether only the items' tenant sees them.
    apart: bool,
    /// The partition that all of the tenant's items lie in, where there is one.
    partition: Option<String>,
}

impl Sight<'_> {
    /// Whether an item that an access pattern gave may be passed on: what [`Scope::admits`] says, and the access pattern's
    /// own wall.
    pub(crate) fn admits(&self, item: &Item) -> bool {
        let Sight { scope, blueprint, apart, partition } = self;
        let placed = || match partition {
            Some(partition) => blueprint.lies_in(item, partition),
            None => blueprint.lies_under_its_key(item),
        };
        (!apart || scope.may_change(blueprint, item))
            && blueprint.owns(item)
            && (placed() || scope.is_former(blueprint, item))
    }
}

/// Whether a wall lets only an item's tenant see it.
fn keeps_apart(wall: Wall) -> bool {
    matches!(wall, Wall::Key | Wall::Attribute)
}
