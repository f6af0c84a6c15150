//! What is written down of changes, and where.

use super::{Differences, READERS};
use crate::{
    audit::{Audit, Part},
    design::{Design, Entity},
};

const UNSEEN: &str = "what happens is no longer written down";

impl Differences {
    pub(super) fn audit(&mut self, old: &Design, new: &Design) {
        let (before, after) = match (&old.audit, &new.audit) {
            (Some(before), Some(after)) => (before, after),
            (Some(_), None) => return self.add("audit", "removed", Some(UNSEEN)),
            (None, Some(_)) => return self.add("audit", "added", None),
            (None, None) => return,
        };
        let entity = |design: &Design, audit: &Audit| design.entities[audit.entity].name.clone();
        self.changed("audit", "the entity", &entity(old, before), &entity(new, after), Some(READERS));
        for part in Part::ALL {
            let field = |audit: &Audit| audit.field(part).unwrap_or_default().to_owned();
            let breaks = before.field(part).map(|_| READERS);
            self.changed("audit", &format!("the field for the {}", part.name()), &field(before), &field(after), breaks);
        }
    }

    pub(super) fn audited(&mut self, path: &str, old: &Entity, new: &Entity) {
        self.flag(path, "its audit", old.audited, new.audited, old.audited.then_some(UNSEEN));
    }
}
