//! The audit: which changes are recorded, and where.

use super::{Differences, READERS, text};
use crate::{
    audit::AuditPart,
    design::{Design, Entity},
};

const NO_LONGER_AUDITED: &str = "changes are no longer recorded";

impl Differences {
    pub(super) fn audit(&mut self, old: &Design, new: &Design) {
        let (before, after) = match (&old.audit, &new.audit) {
            (Some(before), Some(after)) => (before, after),
            (Some(_), None) => return self.add("audit", "removed", Some(NO_LONGER_AUDITED)),
            (None, Some(_)) => return self.add("audit", "added", None),
            (None, None) => return,
        };
        let (old_entity, new_entity) = (&old.entities[before.entity], &new.entities[after.entity]);
        self.compare_value("audit", "the entity", &old_entity.name, &new_entity.name, Some(READERS));
        for part in AuditPart::ALL {
            let (before, after) = (before.field(part), after.field(part));
            let what = format!("the field for the {}", part.name());
            self.compare_value("audit", &what, text(&before), text(&after), before.map(|_| READERS));
        }
    }

    pub(super) fn audited(&mut self, path: &str, old: &Entity, new: &Entity) {
        self.flag(path, "its audit", old.audited, new.audited, old.audited.then_some(NO_LONGER_AUDITED));
    }
}
