//! The audit of a design: which entity holds the audit entries, and which of its fields hold what.

use crate::{
    design::{Design, Entity},
    tree::SpannedText,
};

/// The entity and fields that record changes.
#[derive(Debug, Clone)]
pub struct Audit {
    /// Position of the entity that holds the entries.
    pub entity: usize,
    /// The field of each part, in the order of [`Part::ALL`].
    fields: Vec<(AuditPart, SpannedText)>,
}

/// A part of an audit entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditPart {
    /// The action, such as `user.create`.
    Action,
    /// The user who did it.
    Actor,
    /// The id of the changed item.
    Target,
    /// The time.
    At,
    /// The changed fields, each with its old and its new value.
    Changes,
    /// The id of the request.
    Request,
    /// The address of the client.
    Address,
    /// The reason that an operator gives.
    Reason,
}

impl AuditPart {
    /// All parts.
    pub const ALL: [AuditPart; 8] = [
        AuditPart::Action,
        AuditPart::Actor,
        AuditPart::Target,
        AuditPart::At,
        AuditPart::Changes,
        AuditPart::Request,
        AuditPart::Address,
        AuditPart::Reason,
    ];

    /// Its key in the language.
    pub fn name(self) -> &'static str {
        match self {
            AuditPart::Action => "action",
            AuditPart::Actor => "actor",
            AuditPart::Target => "target",
            AuditPart::At => "at",
            AuditPart::Changes => "changes",
            AuditPart::Request => "request",
            AuditPart::Address => "address",
            AuditPart::Reason => "reason",
        }
    }

    /// Whether every entry has it.
    pub(crate) fn is_always_known(self) -> bool {
        !matches!(self, AuditPart::Request | AuditPart::Address | AuditPart::Reason)
    }
}

/// The verbs of actions: the part after the entity's name.
pub const AUDIT_VERBS: [&str; 6] = ["create", "update", "delete", "read", "list", "verify"];

impl Audit {
    pub(crate) fn new(entity: usize, fields: Vec<(AuditPart, SpannedText)>) -> Self {
        Audit { entity, fields }
    }

    /// The field that holds a part.
    pub fn field(&self, part: AuditPart) -> Option<&str> {
        self.fields.iter().find(|(each, _)| *each == part).map(|(_, text)| text.value.as_str())
    }

    pub(crate) fn fields(&self) -> &[(AuditPart, SpannedText)] {
        &self.fields
    }
}

impl Design {
    /// The entity that holds the audit entries, if the design has an audit.
    pub fn audit_entity(&self) -> Option<&Entity> {
        self.audit.as_ref().map(|audit| &self.entities[audit.entity])
    }

    /// Whether changes of an entity are recorded.
    pub fn is_audited(&self, entity: &Entity) -> bool {
        entity.audited && self.audit_entity().is_some_and(|audit| audit.name != entity.name)
    }
}
