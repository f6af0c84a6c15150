//! Roles and permissions.

use std::fmt;

use crate::{design::Design, named::named, template::is_field_name};

/// A role and its permissions.
#[derive(Debug, Clone)]
pub struct Role {
    /// Its name, as tokens carry it.
    pub name: String,
    /// Who has it.
    pub description: Option<String>,
    /// Its permissions; empty only for operators, who then may do everything.
    pub may: Vec<Permission>,
    /// Whether it is a role of operators. Only operators reach what is behind the wall `system`.
    pub operator: bool,
}

impl Role {
    /// On which items it permits this; `None`: on none.
    pub fn reach(&self, entity: &str, verb: Verb) -> Option<Reach> {
        match self.is_unlimited() {
            true => Some(Reach::All),
            false => self.may.iter().filter_map(|permission| permission.reach(entity, verb)).max(),
        }
    }

    /// Whether it is a role of operators without a list of permissions.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.operator && self.may.is_empty()
    }
}

/// Which items of an entity a permission is about. The caller's own items are fewer than all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reach {
    /// Those whose owner is the caller.
    Own,
    /// All behind the caller's wall.
    All,
}

/// The end of a permission for the caller's own items.
const OWN: &str = ":own";

/// A permission of a role.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Permission {
    /// The entity that it is about. `None`: every entity.
    pub entity: Option<String>,
    /// What may be done. `None`: every verb.
    pub verb: Option<Verb>,
    /// On which items.
    pub items: Reach,
}

impl Permission {
    /// The permission `*`.
    pub const EVERYTHING: Permission = Permission { entity: None, verb: None, items: Reach::All };

    /// Reads `*`, `ENTITY.VERB`, `ENTITY.*`, `*.VERB`, `ENTITY.VERB:own` or `ENTITY.*:own`.
    pub fn parse(text: &str) -> Option<Permission> {
        if text == "*" {
            return Some(Permission::EVERYTHING);
        }
        let (text, items) = text.strip_suffix(OWN).map_or((text, Reach::All), |text| (text, Reach::Own));
        let (entity, verb) = text.split_once('.')?;
        let of = |entity: &str, verb| Some(Permission { entity: Some(entity.to_owned()), verb, items });
        match (entity, verb) {
            // Own items are those of an entity that names its owner.
            ("*", _) if items == Reach::Own => None,
            ("*", verb) => Some(Permission { entity: None, verb: Some(Verb::named(verb)?), items }),
            (entity, _) if !is_field_name(entity) => None,
            (entity, "*") => of(entity, None),
            (entity, verb) => of(entity, Some(Verb::named(verb)?)),
        }
    }

    /// On which items it permits a verb; `None`: on none.
    pub fn reach(&self, entity: &str, verb: Verb) -> Option<Reach> {
        let covers =
            self.entity.as_ref().is_none_or(|each| each == entity) && self.verb.is_none_or(|each| each == verb);
        covers.then_some(self.items)
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.entity.as_deref(), self.verb) {
            (None, None) => f.write_str("*")?,
            (entity, None) => write!(f, "{}.*", entity.unwrap_or("*"))?,
            (entity, Some(verb)) => write!(f, "{}.{verb}", entity.unwrap_or("*"))?,
        }
        f.write_str(if self.items == Reach::Own { OWN } else { "" })
    }
}

named! {
    /// What a caller does with items of an entity. Listing is reading.
    pub enum Verb {
        /// Creating one.
        Create = "create",
        /// Reading, listing and counting them.
        Read = "read",
        /// Updating one.
        Update = "update",
        /// Deleting one.
        Delete = "delete",
    }
}

/// The role of operators in a design without roles.
const OPERATOR: &str = "operator";

impl Design {
    /// Whether a caller with these roles may do this, with all items or with own ones. Without roles in the design every
    /// caller may do everything behind their own wall; a role that the design does not have permits nothing.
    pub fn permits(&self, roles: &[String], entity: &str, verb: Verb) -> bool {
        self.reach(roles, entity, verb).is_some()
    }

    /// On which items a caller with these roles may do this; `None`: on none.
    pub fn reach(&self, roles: &[String], entity: &str, verb: Verb) -> Option<Reach> {
        match self.roles.as_slice() {
            [] => Some(Reach::All),
            _ => self.held(roles).filter_map(|role| role.reach(entity, verb)).max(),
        }
    }

    /// Whether one of these roles is a role of operators. In a design without roles that is `operator`.
    pub fn is_operator(&self, roles: &[String]) -> bool {
        roles.iter().any(|role| self.is_operator_role(role))
    }

    /// Whether the role with this name is a role of operators.
    pub fn is_operator_role(&self, name: &str) -> bool {
        match self.roles.as_slice() {
            [] => name == OPERATOR,
            roles => roles.iter().any(|role| role.operator && role.name == name),
        }
    }

    /// The names of the roles that permit this, among those of operators or among those of tenants.
    pub fn roles_permitting(&self, entity: &str, verb: Verb, operator: bool) -> Vec<&str> {
        let would = self.roles.iter().filter(|role| role.operator == operator && role.reach(entity, verb).is_some());
        would.map(|role| role.name.as_str()).collect()
    }

    /// The names of the operators' roles.
    pub fn operator_roles(&self) -> Vec<&str> {
        match self.roles.as_slice() {
            [] => vec![OPERATOR],
            roles => roles.iter().filter(|role| role.operator).map(|role| role.name.as_str()).collect(),
        }
    }

    /// The roles with these names.
    fn held(&self, names: &[String]) -> impl Iterator<Item = &Role> {
        self.roles.iter().filter(|role| names.contains(&role.name))
    }
}
