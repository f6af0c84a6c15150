//! Moving old audit entries into the archive of the design.
//!
//! The table of the entries is scanned in pages. A record of the layer's own keeps the position, so that another process can
//! continue, and a lease, so that one process scans at a time. Correctness needs neither: an entry moves in one write set, or
//! is copied before it is deleted, and moving it twice gives the same. A copy never replaces anything else: the entry stays where it is
//! then.

use std::{sync::Arc, time::Duration};

use nagaya_design::{AuditPart, Field};
use nagaya_store::{Condition, Item, Scan, Write, WriteSet, limits};

use self::run::Run;
use crate::{
    Error, Nagaya, Operator, Principal, TenancyFuture, compiled::CompiledEntity, session::Session, state::TenancyState,
    values, write::draft::archived_item,
};

mod run;

/// Items of a page of the scan.
const PAGE: usize = 500;
/// Bytes of a write set, below the limit of the stores.
const SET_BYTES: usize = limits::MAX_WRITE_SET_BYTES / 2;

/// What a step of an [`AuditArchiver`] has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchiveStep {
    /// It has read a page, and there are more.
    More,
    /// There is nothing to do for this long, by the clock of the settings.
    Wait(Duration),
}

/// Moves old audit entries into the archive of the design, page by page. Several processes can have one each.
#[derive(Debug, Clone)]
pub struct AuditArchiver {
    nagaya: Nagaya,
    /// Tells the lease of this process from those of others.
    id: String,
}

impl Nagaya {
    /// Moves the audit entries that are old enough to the archive, now and all of them. Gives their number; 0 for a design
    /// without an archive.
    ///
    /// It reads the whole table of the entries. A server does this in the background with an [`AuditArchiver`]; where there is
    /// none, such as on AWS Lambda, call it once a day, or run `nagaya audit archive`.
    pub fn archive_audits(&self) -> TenancyFuture<'_, usize> {
        Box::pin(async move {
            let Some(archive) = Archive::new(&self.state())? else { return Ok(0) };
            archive.move_all(&|_| {}).await
        })
    }
}

impl Operator {
    /// Does the same as [`Nagaya::archive_audits`] as an operator: it is an entry of the operator log. `progress` gets how many
    /// entries have moved, after each page.
    pub fn archive_audits<'a>(&'a self, progress: &'a (dyn Fn(usize) + Sync)) -> TenancyFuture<'a, usize> {
        Box::pin(async move {
            self.0.require_reason()?;
            self.0.audit_log_reading("archive").await?;
            let Some(archive) = Archive::new(&self.0.state)? else { return Ok(0) };
            archive.move_all(progress).await
        })
    }
}

impl AuditArchiver {
    /// An archiver of this process; `None` for a design without an archive.
    pub fn new(nagaya: &Nagaya) -> Option<Self> {
        nagaya.design().audit_archive_entity()?;
        Some(AuditArchiver { nagaya: nagaya.clone(), id: format!("{:032x}", nagaya.ids().bits()) })
    }

    /// Does the next piece of work, if it is time for it and no other process does it.
    pub fn step(&self) -> TenancyFuture<'_, ArchiveStep> {
        Box::pin(async move {
            let state = self.nagaya.state();
            let Some(archive) = Archive::new(&state)? else { return Ok(ArchiveStep::Wait(run::MAX_INTERVAL)) };
            let now = state.settings.clock.millis();
            let stored = Run::read(&archive).await?;
            if let Some(wait) = stored.wait(&self.id, now, archive.after_millis) {
                return Ok(ArchiveStep::Wait(wait));
            }
            // The lease is renewed with every page, so a process that has ended delays the others for a minute at most.
            let Some(run) = stored.lease(&archive, &self.id, now).await? else {
                return Ok(ArchiveStep::Wait(run::LEASE));
            };
            let (moved, next) = archive.move_page(run.position()).await?;
            if moved > 0 {
                tracing::info!(moved, archive = archive.archived.name(), "moved old audit entries to the archive");
            }
            let is_done = next.is_none();
            run.advance(&archive, next, state.settings.clock.millis()).await?;
            Ok(if is_done { ArchiveStep::Wait(run::interval(archive.after_millis)) } else { ArchiveStep::More })
        })
    }
}

/// The archive of a design on its store.
struct Archive {
    session: Session,
    entries: Arc<CompiledEntity>,
    archived: Arc<CompiledEntity>,
    /// The field with the time of an entry.
    at: Field,
    after_millis: i64,
}

impl Archive {
    fn new(state: &Arc<TenancyState>) -> Result<Option<Self>, Error> {
        let design = &state.design;
        let Some(audit) = &design.audit else { return Ok(None) };
        let Some(archive) = &audit.archive else { return Ok(None) };
        let entries = Arc::clone(state.compiled(&design.entities[audit.entity].name)?);
        let archived = Arc::clone(state.compiled(&design.entities[archive.entity].name)?);
        let Some(at) = audit.field(AuditPart::At).and_then(|at| entries.entity.field(at)).cloned() else {
            return Ok(None);
        };
        let after_millis = i64::try_from(archive.after).unwrap_or(i64::MAX).saturating_mul(1_000);
        let session = Session::unaudited_operator(Arc::clone(state), Principal::new("", "archive"));
        Ok(Some(Archive { session, entries, archived, at, after_millis }))
    }

    fn state(&self) -> &TenancyState {
        &self.session.state
    }

    /// Moves all old entries; how many there were.
    async fn move_all(&self, progress: &(dyn Fn(usize) + Sync)) -> Result<usize, Error> {
        let (mut moved, mut after) = (0, None);
        loop {
            let page = self.move_page(after).await?;
            moved += page.0;
            progress(moved);
            after = page.1;
            if after.is_none() {
                return Ok(moved);
            }
        }
    }

    /// Moves the old entries of a page; how many, and where the next page starts.
    async fn move_page(
        &self,
        after: Option<nagaya_store::PagePosition>,
    ) -> Result<(usize, Option<nagaya_store::PagePosition>), Error> {
        let scan = Scan { limit: Some(PAGE), after, ..Scan::table(&self.entries.table) };
        let page = self.state().store.scan(scan).await?;
        let now = self.state().settings.clock.millis();
        let moves: Vec<_> = page.items.iter().filter_map(|item| self.moved(item, now)).collect();
        let mut moved = 0;
        for set in sets(moves, self.state().cross_partition()) {
            moved += self.commit_moves(set).await?;
        }
        Ok((moved, page.next))
    }

    /// The move of an item, if it is an entry that is old enough.
    fn moved(&self, item: &Item, now: i64) -> Option<Move> {
        if self.entries.is_internal(item) || !self.entries.is_in_place(item) {
            return None;
        }
        let at = self.at.timestamp_millis(&values::to_json(item.get(&self.at.name)?))?;
        if at > now.saturating_sub(self.after_millis) {
            return None;
        }
        let key = self.entries.stored_key(item)?;
        // The key of the copy comes from the fields of the entry, its tenant among them.
        match archived_item(self.state(), &self.entries, &self.archived, item, now) {
            Ok(copy) => Some(Move {
                is_moved: self.has_fields_of(&copy),
                copy,
                delete: Write::delete(&self.entries.table, key)
                    .when(Condition::exists(self.entries.key.partition.as_str())),
            }),
            Err(error) => {
                self.warn(&error);
                None
            }
        }
    }

    /// Commits moves together; how many there were. Each by itself where another process has moved one meanwhile, or where one
    /// cannot be written.
    async fn commit_moves(&self, moves: Vec<Move>) -> Result<usize, Error> {
        if moves.len() > 1 {
            let set: WriteSet = moves.iter().flat_map(|each| [self.put(each), each.delete.clone()]).collect();
            match self.session.commit_if(set).await {
                Ok(true) => return Ok(moves.len()),
                Err(error) if !error.is_permanent() => return Err(error),
                Ok(false) | Err(_) => {}
            }
        }
        let mut moved = 0;
        for each in moves {
            match self.commit_move(each).await {
                Err(error) if error.is_permanent() => self.warn(&error),
                committed => moved += usize::from(committed?),
            }
        }
        Ok(moved)
    }

    async fn commit_move(&self, each: Move) -> Result<bool, Error> {
        let copy = self.put(&each);
        let failed = match self.state().cross_partition() {
            true => self.session.unmet_conditions([copy, each.delete].into_iter().collect::<WriteSet>()).await?,
            // The copy comes first: until the entry is deleted it is in both places, and after a crash it moves again.
            false => match self.session.unmet_conditions(copy).await? {
                failed if failed.is_empty() => return self.session.commit_if(each.delete).await,
                failed => failed,
            },
        };
        // The copy is the first write. If only the second one failed, another process has moved the entry meanwhile.
        if failed.iter().any(|failed| failed.action == 0) {
            self.report_taken(&each.copy);
        }
        Ok(failed.is_empty())
    }

    /// The write of a copy, where nothing else is.
    fn put(&self, Move { copy, is_moved, .. }: &Move) -> Write {
        Write::put(&self.archived.table, copy.clone()).when(self.archived.is_absent().or(is_moved.clone()))
    }

    /// Holds for items with the fields of this one. Its expiry and its version are no fields.
    fn has_fields_of(&self, copy: &Item) -> Condition {
        let same = self.archived.entity.fields.iter().map(|field| match copy.get(&field.name) {
            Some(value) => Condition::equal(field.name.as_str(), value.clone()),
            None => Condition::absent(field.name.as_str()),
        });
        same.reduce(Condition::and).unwrap_or_else(|| self.archived.is_absent())
    }

    /// Something else has the place of a copy.
    fn report_taken(&self, copy: &Item) {
        let (partition, sort) = self.state().key_in_logs(&self.archived, copy);
        let (entity, table) = (self.archived.name(), &self.archived.table);
        tracing::error!(
            entity,
            table,
            partition,
            sort,
            "something else has the place of an audit entry in the archive"
        );
    }

    /// An entry cannot move. It stays where it is, and must not keep the others from moving.
    fn warn(&self, error: &Error) {
        tracing::warn!(entity = self.entries.name(), %error, "an audit entry cannot be archived");
    }
}

/// An entry that moves.
struct Move {
    copy: Item,
    /// Holds for the copy if it is in the archive already.
    is_moved: Condition,
    delete: Write,
}

/// Moves as write sets that the stores accept.
fn sets(moves: Vec<Move>, together: bool) -> Vec<Vec<Move>> {
    let mut sets: Vec<Vec<Move>> = Vec::new();
    let mut bytes = 0;
    for each in moves {
        let size = each.copy.size();
        bytes += size;
        match sets.last_mut() {
            Some(set) if together && set.len() < limits::MAX_ACTIONS / 2 && bytes <= SET_BYTES => set.push(each),
            _ => {
                bytes = size;
                sets.push(vec![each]);
            }
        }
    }
    sets
}

#[cfg(test)]
mod tests {
    use nagaya_store::Key;

    use super::*;

    /// The sizes of the write sets of moves, each with a copy of so many bytes.
    fn set_sizes(count: usize, bytes: usize, together: bool) -> Vec<usize> {
        let each = |_| Move {
            copy: Item::new().with("a", "x".repeat(bytes - 1)),
            is_moved: Condition::exists("PK"),
            delete: Write::delete("app", Key::new("p", "s")),
        };
        sets((0..count).map(each).collect(), together).iter().map(Vec::len).collect()
    }

    #[test]
    fn a_set_has_at_most_half_the_actions_and_half_the_bytes_that_the_stores_accept() {
        assert_eq!(set_sizes(0, 100, true), [0; 0]);
        assert_eq!(set_sizes(50, 100, true), [50]);
        assert_eq!(set_sizes(101, 100, true), [50, 50, 1]);
        assert_eq!(set_sizes(17, SET_BYTES / 8, true), [8, 8, 1]);
        assert_eq!(set_sizes(15, SET_BYTES / 8 + 1, true), [7, 7, 1]);
        assert_eq!(set_sizes(3, 100, false), [1, 1, 1]);
    }
}
