//! The audit of a design: which entity takes what happened, and which of its fields take what.

use crate::{
    design::{Design, Entity},
    tree::Text,
};

/// Where changes are written down.
#[derive(Debug, Clone)]
pub struct Audit {
    /// Position of the entity that holds the entries.
    pub entity: usize,
    /// Which of its fields take what, in the order of [`Part::ALL`].
    fields: Vec<(Part, Text)>,
}

/// A part of an audit entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// What was done: `user.create`.
    Action,
    /// Who did it.
    Actor,
    /// The id of what it was done to.
    Target,
    /// When.
    At,
    /// The changed fields, each with its old and its new value.
    Changes,
    /// The request that it was part of.
    Request,
    /// Where the request came from.
    Address,
    /// Why an operator did it.
    Reason,
}

impl Part {
    /// All parts.
    pub const ALL: [Part; 8] =
        [Part::Action, Part::Actor, Part::Target, Part::At, Part::Changes, Part::Request, Part::Address, Part::Reason];

    /// Its key in the language.
    pub fn name(self) -> &'static str {
        match self {
            Part::Action => "action",
            Part::Actor => "actor",
            Part::Target => "target",
            Part::At => "at",
            Part::Changes => "changes",
            Part::Request => "request",
            Part::Address => "address",
            Part::Reason => "reason",
        }
    }

    /// Whether every entry has it.
    pub(crate) fn is_always_known(self) -> bool {
        !matches!(self, Part::Request | Part::Address | Part::Reason)
    }
}

/// What can be done to an item, as the last word of an action.
pub const VERBS: [&str; 6] = ["create", "update", "delete", "read", "list", "verify"];

impl Audit {
    pub(crate) fn new(entity: usize, fields: Vec<(Part, Text)>) -> Self {
        Audit { entity, fields }
    }

    /// The field that takes a part.
    pub fn field(&self, part: Part) -> Option<&str> {
        self.fields.iter().find(|(each, _)| *each == part).map(|(_, text)| text.value.as_str())
    }

    pub(crate) fn fields(&self) -> &[(Part, Text)] {
        &self.fields
    }
}

impl Design {
    /// The entity that takes what happened, if the design has one.
    pub fn audit_entity(&self) -> Option<&Entity> {
        self.audit.as_ref().map(|audit| &self.entities[audit.entity])
    }

    /// Whether changes of an entity are written down.
    pub fn is_audited(&self, entity: &Entity) -> bool {
        entity.audited && self.audit_entity().is_some_and(|audit| audit.name != entity.name)
    }
}
