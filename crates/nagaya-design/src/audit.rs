//! The audit of a design: which entity holds the audit entries, and which of its fields hold what.

use crate::{
    design::{Design, Entity},
    diagnostic::Span,
    named::named,
    tree::SpannedText,
};

/// The entity and fields that record changes.
#[derive(Debug, Clone)]
pub struct Audit {
    /// Position of the entity that holds the entries.
    pub entity: usize,
    /// Where old entries move.
    pub archive: Option<AuditArchive>,
    /// The field of each part, in the order of [`Part::ALL`].
    fields: Vec<(AuditPart, SpannedText)>,
}

/// Where old audit entries move.
#[derive(Debug, Clone)]
pub struct AuditArchive {
    /// Position of the entity that takes them.
    pub entity: usize,
    /// The age from which they move, in seconds.
    pub after: u64,
    pub(crate) span: Span,
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
    pub(crate) fn new(entity: usize, archive: Option<AuditArchive>, fields: Vec<(AuditPart, SpannedText)>) -> Self {
        Audit { entity, archive, fields }
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

    /// The entity that takes old audit entries, if there is one.
    pub fn audit_archive_entity(&self) -> Option<&Entity> {
        let archive = self.audit.as_ref()?.archive.as_ref()?;
        Some(&self.entities[archive.entity])
    }

    /// Whether an entity holds audit entries, recent or old. Only the layer itself writes them.
    pub fn holds_audit_entries(&self, entity: &Entity) -> bool {
        let mut holders = self.audit_entity().into_iter().chain(self.audit_archive_entity());
        holders.any(|holder| holder.name == entity.name)
    }

    /// Whether changes of an entity are recorded.
    pub fn is_audited(&self, entity: &Entity) -> bool {
        entity.audited && self.audit.is_some() && !self.holds_audit_entries(entity)
    }
}
