//! The guard: what each write is pinned to, and whether what comes back may be passed on.

use nagaya_design::{Access, Design, Wall};
use nagaya_store::{Condition, Item, Key, Value};

use crate::{Error, ErrorKind, blueprint::Blueprint, values};

/// On whose behalf a handle acts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scope {
    Tenant(String),
    Operator,
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
            Scope::Operator => None,
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
        };
        if reaches { Ok(()) } else { Err(ErrorKind::Walled(entity.name.clone()).into()) }
    }

    /// Whether this handle may use an access pattern.
    pub(crate) fn follows(&self, design: &Design, access: &Access) -> Result<(), Error> {
        let reaches = match (self, design.wall_of(access)) {
            (_, Wall::Public) => true,
            (Scope::Tenant(_), Wall::Key | Wall::Attribute) | (Scope::Operator, Wall::System) => true,
            (Scope::Tenant(_), Wall::System) | (Scope::Operator, Wall::Key | Wall::Attribute) => false,
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
        let placed = || blueprint.lies_under_its_key(item) || self.is_former(blueprint, item);
        blueprint.owns(item) && self.is_owner(blueprint.entity.wall, blueprint, item) && placed()
    }

    /// Whether an item that an access pattern gave may be passed on: the wall of an index can be narrower than its entity's.
    pub(crate) fn admits_by(&self, design: &Design, access: &Access, blueprint: &Blueprint, item: &Item) -> bool {
        self.admits(blueprint, item) && self.is_owner(design.wall_of(access), blueprint, item)
    }

    /// Whether an item's tenant is the handle's, where a wall lets only the tenant see it.
    fn is_owner(&self, wall: Wall, blueprint: &Blueprint, item: &Item) -> bool {
        match wall {
            Wall::Key | Wall::Attribute => self.may_change(blueprint, item),
            Wall::Public | Wall::System => true,
        }
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
        let owner = blueprint.entity.tenant.as_deref().and_then(|field| values::lookup(item, field)?.as_str());
        self.tenant().is_none_or(|tenant| owner == Some(tenant))
    }
}
