//! Deletes long notes that no event names.
//!
//! A note is stored before its event. If the command is refused or is the repetition of an earlier one, its request deletes the note.
//! If the command is interrupted or its outcome is unknown, nobody knows at that time whether an event will name the note. Much
//! later it is known: see docs/decisions/0033.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures_util::TryStreamExt as _;
use nagaya_events::Inspector;
use nagaya_server::StopSignal;
use nagaya_store::Clock;
use nagaya_tenancy::{ChangeSource, Nagaya, Operator, Principal};
use object_store::path::Path;
use tokio::sync::OnceCell;
use ulid::Ulid;

use super::{
    EVENT_ENTITY, EVENT_PAGE_SIZE, LongNoteStorage, ROOT,
    place::{PlaceError, StoredObject},
};
use crate::{AGGREGATE, Todo, TodoEvent};

/// How long after a sweep the next one begins.
const INTERVAL: Duration = Duration::from_hours(1);
/// How often it is checked whether it is time for a sweep.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) struct NoteSweep<'n> {
    notes: &'n LongNoteStorage,
    nagaya: Nagaya,
    operator: Operator,
    /// Where the events are read from. The start is audited, so there is one start.
    source: OnceCell<ChangeSource>,
    clock: Clock,
    /// Objects from before this time have been looked at. A named one stays named until its todo is deleted, and then all
    /// objects of the todo are deleted.
    swept_until: i64,
    /// When the next sweep begins.
    next: i64,
    /// Whether the last sweep failed.
    has_failed: bool,
}

impl<'n> NoteSweep<'n> {
    pub(crate) fn new(nagaya: &Nagaya, notes: &'n LongNoteStorage) -> Self {
        NoteSweep {
            notes,
            nagaya: nagaya.clone(),
            operator: nagaya.operator("deletes notes that no event names", &Principal::new("", "note-sweep")),
            source: OnceCell::new(),
            clock: nagaya.clock(),
            swept_until: i64::MIN,
            next: i64::MIN,
            has_failed: false,
        }
    }

    /// Sweeps at the start and then every hour, until told to stop.
    pub(crate) async fn run(mut self, mut stop: StopSignal) {
        loop {
            self.sweep_if_due().await;
            if tokio::time::timeout(CHECK_INTERVAL, stop.wait()).await.is_ok() {
                return;
            }
        }
    }

    /// Sweeps if it is time for it. The first failure is logged, and what is deleted after it.
    pub(super) async fn sweep_if_due(&mut self) {
        let now = self.clock.millis();
        if now < self.next {
            return;
        }
        self.next = now.saturating_add(millis(INTERVAL));
        let had_failed = self.has_failed;
        let swept = self.sweep().await;
        self.has_failed = swept.is_err();
        match swept {
            Ok(deleted) if deleted > 0 || had_failed => {
                tracing::info!(deleted, "notes that no event names were deleted");
            }
            Err(error) if !had_failed => {
                let cause = error.to_string();
                tracing::warn!(cause, "notes that no event names cannot be deleted now; this is tried again");
            }
            _ => {}
        }
    }

    /// Deletes the objects that are old enough and that no event names; how many.
    pub(super) async fn sweep(&mut self) -> Result<usize, PlaceError> {
        let until = self.clock.millis().saturating_sub(millis(self.notes.keep_unnamed_for));
        let (mut deleted, mut failed) = (0, None);
        let mut pages = self.notes.place.list(&Path::from(ROOT));
        while let Some(page) = pages.try_next().await? {
            let mut todos: BTreeMap<Ulid, Vec<Path>> = BTreeMap::new();
            for object in page {
                if let Some((todo, created)) = origin(&object)
                    && (self.swept_until..until).contains(&created)
                {
                    todos.entry(todo).or_default().push(object.path);
                }
            }
            for (todo, objects) in todos {
                let named = self.named_objects(&todo.to_string()).await?;
                for object in objects.iter().filter(|object| !named.contains(object.as_ref())) {
                    match self.notes.place.delete(object).await {
                        Ok(()) => deleted += 1,
                        Err(error) => failed = Some(error),
                    }
                }
            }
        }
        match failed {
            Some(error) => Err(error),
            None => {
                self.swept_until = until;
                Ok(deleted)
            }
        }
    }

    /// The objects that the events of a todo name; none if it was deleted.
    async fn named_objects(&self, todo: &str) -> Result<BTreeSet<String>, PlaceError> {
        let source = self.source.get_or_try_init(|| self.operator.change_source(EVENT_ENTITY)).await?;
        let inspector = Inspector::new(&self.nagaya, AGGREGATE)?;
        let (mut named, mut after) = (BTreeSet::new(), None);
        loop {
            let page = source.partition(&[("aggregateId", todo)], after, Some(EVENT_PAGE_SIZE)).await?;
            for (family, record) in &page.records {
                match inspector.read_event(family, record)?.event::<Todo>()? {
                    TodoEvent::TodoNoteChanged { object: Some(object), .. } => drop(named.insert(object)),
                    TodoEvent::TodoDeleted {} => return Ok(BTreeSet::new()),
                    _ => {}
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(named),
            }
        }
    }
}

/// The todo of an object, and when the object was stored, in milliseconds; `None` for what is no note.
fn origin(object: &StoredObject) -> Option<(Ulid, i64)> {
    let parts: Vec<_> = object.path.parts().collect();
    // `notes/FAMILY/TODO/REQUEST/HASH`; earlier versions wrote `notes/FAMILY/TODO/HASH`, without a time.
    let (todo, request) = match parts.as_slice() {
        [_, _, todo, request, _] => (todo, Some(request)),
        [_, _, todo, _] => (todo, None),
        _ => return None,
    };
    let ulid = |part: &str| Ulid::from_string(part).ok();
    let created = match request {
        Some(request) => i64::try_from(ulid(request.as_ref())?.timestamp_ms()).ok()?,
        None => object.modified,
    };
    Some((ulid(todo.as_ref())?, created))
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
