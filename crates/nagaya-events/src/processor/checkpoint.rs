//! The checkpoint of an aggregate in a projection.

use nagaya_tenancy::{ChangeSet, RecordOwner, SideRecord, Tenant};
use serde_json::{Map, Value as Json, json};

use super::{Processor, measure::parked_prefix_of_tenant};
use crate::{Error, ErrorKind, RecordedEvent};

/// How many of an aggregate's events are in its item: stored beside the item, and written with it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Checkpoint {
    /// The version of the aggregate that the item shows.
    pub(crate) version: u64,
    /// The event with that version.
    pub(crate) last: Option<String>,
    /// The event that cannot be applied, if the aggregate is parked.
    pub(crate) parked: Option<Parked>,
    note: Option<SideRecord>,
}

/// The field with the time of the next attempt; absent if no further one follows by itself.
pub(crate) const NEXT_ATTEMPT_FIELD: &str = "nextAttempt";

/// The event at which an aggregate is parked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Parked {
    pub(crate) version: u64,
    pub(crate) event: String,
    pub(crate) fields: Map<String, Json>,
}

/// An event that cannot be applied, or that is missing: the events after it wait.
#[derive(Debug, Clone)]
pub(crate) struct BlockedEvent {
    pub(crate) version: u64,
    /// Its id; empty if it is missing.
    pub(crate) event: String,
    event_type: String,
}

impl BlockedEvent {
    pub(crate) fn from_event(event: &RecordedEvent) -> Self {
        BlockedEvent { version: event.version, event: event.id.clone(), event_type: event.raw.event_type.clone() }
    }

    /// The event of a version that is missing or unreadable.
    pub(crate) fn damaged(version: u64, error: &Error) -> Self {
        let event = match error.kind() {
            ErrorKind::UnknownEvent { event, .. } | ErrorKind::UnreadableEvent { event, .. } => event.clone(),
            _ => String::new(),
        };
        BlockedEvent { version, event, event_type: String::new() }
    }
}

impl Checkpoint {
    /// Whether no event of the aggregate has been applied yet.
    pub(crate) fn is_new(&self) -> bool {
        self.note.is_none()
    }

    /// The checkpoint after an event.
    pub(crate) fn advanced_to(&self, version: u64, last: &str) -> Self {
        self.moved_to(version, Some(last.to_owned()))
    }

    /// The same, after a version whose last event is this one.
    pub(crate) fn moved_to(&self, version: u64, last: Option<String>) -> Self {
        Checkpoint { version, last, parked: None, note: self.note.clone() }
    }

    /// The same, parked at an event, after one more attempt at it. `next` gives the time of the attempt after so many.
    pub(crate) fn parked(
        &self,
        blocked: &BlockedEvent,
        error: &str,
        now: i64,
        next: impl FnOnce(u64) -> Option<i64>,
    ) -> Self {
        let before = self.parked.as_ref().filter(|parked| parked.version == blocked.version);
        let number = |name: &str| before?.fields.get(name)?.as_i64();
        let attempts = 1 + number("attempts").and_then(|attempts| u64::try_from(attempts).ok()).unwrap_or(0);
        let mut fields = json!({
            "version": blocked.version, "eventId": blocked.event, "eventType": blocked.event_type,
            "error": error, "attempts": attempts, "at": number("at").unwrap_or(now),
        });
        if let Some(next) = next(attempts) {
            fields[NEXT_ATTEMPT_FIELD] = next.into();
        }
        let fields = fields.as_object().cloned().unwrap_or_default();
        let parked = Parked { version: blocked.version, event: blocked.event.clone(), fields };
        Checkpoint { parked: Some(parked), ..self.clone() }
    }

    /// The same, after the event at which it is parked.
    pub(crate) fn skipped(&self) -> Self {
        self.parked.as_ref().map_or_else(|| self.clone(), |parked| self.after_event(parked.version, &parked.event))
    }

    /// The same, after an event that is skipped. A missing one has no id.
    pub(crate) fn after_event(&self, version: u64, event: &str) -> Self {
        self.moved_to(version, if event.is_empty() { self.last.clone() } else { Some(event.to_owned()) })
    }

    /// The same, not parked.
    pub(crate) fn unparked(&self) -> Self {
        Checkpoint { parked: None, ..self.clone() }
    }
}

impl Processor {
    fn checkpoint_name(&self, id: &str) -> String {
        format!("at-{}-{id}", self.projection.entity())
    }

    /// The name of a parked aggregate in the list.
    pub(crate) fn parked_name(&self, tenant: &Tenant, id: &str) -> String {
        format!("{}{id}", parked_prefix_of_tenant(self.projection.entity(), &tenant.principal().tenant))
    }

    pub(crate) async fn read_checkpoint(&self, tenant: &Tenant, id: &str) -> Result<Checkpoint, Error> {
        let note = tenant.side_record(self.projection.entity(), RecordOwner::Tenant, &self.checkpoint_name(id)).await?;
        let Some(note) = note else { return Ok(Checkpoint::default()) };
        let parked = note.fields.get("parked").and_then(Json::as_object).map(|fields| Parked {
            version: fields.get("version").and_then(Json::as_u64).unwrap_or_default(),
            event: fields.get("eventId").and_then(Json::as_str).unwrap_or_default().to_owned(),
            fields: fields.clone(),
        });
        let last = note.text("lastEventId").map(str::to_owned);
        Ok(Checkpoint { version: note.number("version").unwrap_or_default(), last, parked, note: Some(note) })
    }

    /// Adds the write of a checkpoint to a set, on the condition that it is still the one that was read.
    pub(crate) fn add_checkpoint_write(&self, set: ChangeSet, id: &str, to: &Checkpoint) -> ChangeSet {
        let mut fields = Map::new();
        fields.insert("version".to_owned(), to.version.into());
        if let Some(last) = &to.last {
            fields.insert("lastEventId".to_owned(), last.as_str().into());
        }
        if let Some(parked) = &to.parked {
            fields.insert("parked".to_owned(), parked.fields.clone().into());
        }
        let name = self.checkpoint_name(id);
        set.side_record(self.projection.entity(), RecordOwner::Tenant, &name, Some(fields), to.note.as_ref())
    }
}
