//! The audit of a design: which entity holds the audit entries, and which of its fields hold what.

use crate::{
    design::{Design, Entity},
    named::named,
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

named! {
    /// A part of an audit entry.
    pub enum AuditPart {
        /// The action, such as `user.create`.
        Action = "action",
        /// The user who did it.
        Actor = "actor",
        /// The id of the changed item.
        Target = "target",
        /// The time.
        At = "at",
        /// The changed fields, each with its old and its new value.
        Changes = "changes",
        /// The id of the request.
        Request = "request",
        /// The address of the client.
        Address = "address",
        /// The reason that an operator gives.
        Reason = "reason",
    }
}

impl AuditPart {
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
