//! How far an aggregate's events have gone into a projection.

use nagaya_tenancy::{Keeper, Note, Set, Tenant};
use serde_json::{Map, Value as Json, json};

use super::Processor;
use crate::{Error, ErrorKind, Recorded};

/// How far an aggregate's events have gone into a projection: kept beside its item, and written with it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Checkpoint {
    /// The version that the item has.
    pub(crate) version: u64,
    /// The event that gave it.
    pub(crate) last: Option<String>,
    /// What is in the way.
    pub(crate) parked: Option<Parked>,
    note: Option<Note>,
}

/// An event that cannot be applied.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Parked {
    pub(crate) version: u64,
    pub(crate) event: String,
    pub(crate) fields: Map<String, Json>,
}

/// What is in the way of an aggregate: an event that cannot be applied, or that is not there.
#[derive(Debug, Clone)]
pub(crate) struct InTheWay {
    pub(crate) version: u64,
    /// Its id; empty where there is none.
    pub(crate) event: String,
    event_type: String,
}

impl InTheWay {
    pub(crate) fn of(event: &Recorded) -> Self {
        InTheWay { version: event.version, event: event.id.clone(), event_type: event.raw.event_type.clone() }
    }

    /// Where the event of a version should be, and something else or nothing is.
    pub(crate) fn damaged(version: u64, error: &Error) -> Self {
        let event = match error.kind() {
            ErrorKind::UnknownEvent { event, .. } => event.clone(),
            _ => String::new(),
        };
        InTheWay { version, event, event_type: String::new() }
    }
}

impl Checkpoint {
    /// Whether nothing is known of the aggregate yet.
    pub(crate) fn is_new(&self) -> bool {
        self.note.is_none()
    }

    /// The checkpoint with the version and the event that it moves to.
    pub(crate) fn moved(&self, version: u64, last: &str) -> Self {
        Checkpoint { version, last: Some(last.to_owned()), parked: None, note: self.note.clone() }
    }

    /// The same, with an event in the way.
    pub(crate) fn parked(&self, way: &InTheWay, error: &str, attempts: u32, now: i64) -> Self {
        let fields = json!({
            "version": way.version, "eventId": way.event, "eventType": way.event_type,
            "error": error, "attempts": attempts, "at": now,
        });
        let fields = fields.as_object().cloned().unwrap_or_default();
        let parked = Parked { version: way.version, event: way.event.clone(), fields };
        Checkpoint { parked: Some(parked), ..self.clone() }
    }

    /// The same, past what is in the way.
    pub(crate) fn passed(&self) -> Self {
        match &self.parked {
            Some(parked) if parked.event.is_empty() => Checkpoint { version: parked.version, ..self.freed() },
            Some(parked) => self.moved(parked.version, &parked.event),
            None => self.clone(),
        }
    }

    /// The same, with nothing in the way.
    pub(crate) fn freed(&self) -> Self {
        Checkpoint { parked: None, ..self.clone() }
    }
}

impl Processor {
    fn checkpoint_name(&self, id: &str) -> String {
        format!("at-{}-{id}", self.projection.entity())
    }

    /// What lists the parked aggregates of a projection starts with.
    pub(crate) fn parked_prefix(&self) -> String {
        format!("parked-{}-", self.projection.entity())
    }

    /// What a parked aggregate is listed as. Two tenants may have one of the same id.
    pub(crate) fn parked_name(&self, tenant: &Tenant, id: &str) -> String {
        let tenant = &tenant.principal().tenant;
        format!("{}{}:{tenant}:{id}", self.parked_prefix(), tenant.len())
    }

    pub(crate) async fn checkpoint(&self, tenant: &Tenant, id: &str) -> Result<Checkpoint, Error> {
        let note = tenant.note(self.projection.entity(), Keeper::Tenant, &self.checkpoint_name(id)).await?;
        let Some(note) = note else { return Ok(Checkpoint::default()) };
        let parked = note.fields.get("parked").and_then(Json::as_object).map(|fields| Parked {
            version: fields.get("version").and_then(Json::as_u64).unwrap_or_default(),
            event: fields.get("eventId").and_then(Json::as_str).unwrap_or_default().to_owned(),
            fields: fields.clone(),
        });
        let last = note.text("lastEventId").map(str::to_owned);
        Ok(Checkpoint { version: note.number("version").unwrap_or_default(), last, parked, note: Some(note) })
    }

    /// Adds the move of a checkpoint to a set, if it is still the one that was read.
    pub(crate) fn move_to(&self, set: Set, id: &str, to: &Checkpoint) -> Set {
        let mut fields = Map::new();
        fields.insert("version".to_owned(), to.version.into());
        if let Some(last) = &to.last {
            fields.insert("lastEventId".to_owned(), last.as_str().into());
        }
        if let Some(parked) = &to.parked {
            fields.insert("parked".to_owned(), parked.fields.clone().into());
        }
        let name = self.checkpoint_name(id);
        set.note(self.projection.entity(), Keeper::Tenant, &name, Some(fields), to.note.as_ref())
    }
}
