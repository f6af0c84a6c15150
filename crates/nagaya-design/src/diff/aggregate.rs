//! Aggregates, their entities and their events.

use super::{Differences, text};
use crate::design::{Aggregate, Design};

impl Differences {
    pub(super) fn aggregate(
        &mut self,
        path: &str,
        (old_design, old): (&Design, &Aggregate),
        (new_design, new): (&Design, &Aggregate),
    ) {
        let lost = Some("its events can no longer be read");
        self.compare_value(path, "the id", &old.id, &new.id, lost);
        let mut entity = |what: &str, before: Option<usize>, after: Option<usize>, breaks: Option<&str>| {
            let before = before.map(|at| &old_design.entities[at].name);
            let after = after.map(|at| &new_design.entities[at].name);
            self.compare_value(path, what, text(&before), text(&after), breaks);
        };
        entity("the events", Some(old.events), Some(new.events), lost);
        entity("the head", Some(old.head), Some(new.head), lost);
        let repeats = old.idempotency.map(|_| "repeated requests are no longer recognized");
        entity("the idempotency entity", old.idempotency, new.idempotency, repeats);
        let encrypted = old.keys.map(|_| "encrypted fields cannot be decrypted");
        entity("the key entity", old.keys, new.keys, encrypted);
        // A snapshot is a cache: without it more events are read, and nothing is lost.
        entity("the snapshot entity", old.snapshot, new.snapshot, None);
        self.description(path, &old.description, &new.description);
        let projections = |design: &Design, aggregate: &Aggregate| -> Vec<String> {
            aggregate.projections.iter().map(|at| design.entities[*at].name.clone()).collect()
        };
        let removed = ("`{}` is no longer built from it", Some("it is no longer updated"));
        let (before, after) = (projections(old_design, old), projections(new_design, new));
        self.members(path, (&before, &after), removed, ("`{}` is built from it now", None));
        let section = format!("{path}.event");
        let unreadable = "stored events cannot be read";
        for (path, old, new) in
            self.named(&section, &old.event_types, &new.event_types, |event| &event.name, unreadable)
        {
            self.fields(&path, &old.fields, &new.fields, &[]);
        }
    }
}
