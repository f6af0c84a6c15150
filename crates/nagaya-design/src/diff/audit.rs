//! The audit: which changes are recorded, and where.

use super::{Differences, READERS, text};
use crate::{
    audit::{AuditArchive, AuditPart},
    design::{Design, Entity},
};

const NO_LONGER_AUDITED: &str = "changes are no longer recorded";

impl Differences {
    pub(super) fn audit(&mut self, old: &Design, new: &Design) {
        let (before, after_audit) = match (&old.audit, &new.audit) {
            (Some(before), Some(after)) => (before, after),
            (Some(_), None) => return self.add("audit", "removed", Some(NO_LONGER_AUDITED)),
            (None, Some(_)) => return self.add("audit", "added", None),
            (None, None) => return,
        };
        let (old_entity, new_entity) = (&old.entities[before.entity], &new.entities[after_audit.entity]);
        self.compare_value("audit", "the entity", &old_entity.name, &new_entity.name, Some(READERS));
        for part in AuditPart::ALL {
            let (before, after) = (before.field(part), after_audit.field(part));
            let what = format!("the field for the {}", part.name());
            self.compare_value("audit", &what, text(&before), text(&after), before.map(|_| READERS));
        }
        let archives = (old.audit_archive_entity(), new.audit_archive_entity());
        // Entries that have moved stay where they are.
        let breaks = matches!(archives, (Some(_), Some(_))).then_some(READERS);
        let name = |entity: Option<&Entity>| text(&entity.map(|entity| &entity.name));
        self.compare_value("audit", "the archive", name(archives.0), name(archives.1), breaks);
        let after = |archive: &Option<AuditArchive>| text(&archive.as_ref().map(|archive| archive.after));
        let (before, after) = (after(&before.archive), after(&after_audit.archive));
        self.compare_value("audit", "the age (in seconds) of archived entries", before, after, None);
    }

    pub(super) fn audited(&mut self, path: &str, old: &Entity, new: &Entity) {
        self.flag(path, "its audit", old.audited, new.audited, old.audited.then_some(NO_LONGER_AUDITED));
    }
}
