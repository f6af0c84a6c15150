//! Dead letters: aggregates with an event that cannot be applied.
//!
//! Nothing is copied into a queue. The events stay where they are; what is stored is that the aggregate is parked, at which
//! event, and why. Its later events wait.

use futures_util::future::BoxFuture;
use nagaya_tenancy::SideRecord;
use serde_json::Value as Json;

use crate::{
    Error, Processor,
    error::is_lost_race,
    generation::Generations,
    processor::{AdvanceState, NEXT_ATTEMPT_FIELD, Unpark},
};

/// An aggregate with an event that cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// The tenant that owns it.
    pub tenant: String,
    /// The aggregate.
    pub aggregate: String,
    /// The version of the event.
    pub version: u64,
    /// The event.
    pub event: String,
    /// Its type.
    pub event_type: String,
    /// Why it cannot be applied.
    pub error: String,
    /// How often it was tried.
    pub attempts: u64,
    /// When it was parked, in milliseconds since 1970.
    pub parked_at: i64,
    /// When the next attempt is made, in milliseconds since 1970; `None`: it waits for somebody.
    pub next_attempt: Option<i64>,
}

/// The outcome of retrying or dropping a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnparkOutcome {
    /// All events of the aggregate are applied.
    UpToDate,
    /// The same or a later event cannot be applied.
    ParkedAgain,
}

impl DeadLetter {
    pub(crate) fn read(note: &SideRecord) -> Self {
        let text = |name: &str| note.text(name).unwrap_or_default().to_owned();
        DeadLetter {
            tenant: text("tenant"),
            aggregate: text("aggregateId"),
            version: note.number("version").unwrap_or_default(),
            event: text("eventId"),
            event_type: text("eventType"),
            error: text("error"),
            attempts: note.number("attempts").unwrap_or_default(),
            parked_at: note.fields.get("at").and_then(Json::as_i64).unwrap_or_default(),
            next_attempt: note.fields.get(NEXT_ATTEMPT_FIELD).and_then(Json::as_i64),
        }
    }
}

/// Dead letters of a page.
const PAGE_SIZE: usize = 100;

impl Processor {
    /// All dead letters of the current generation.
    pub async fn dead_letters(&self) -> Result<Vec<DeadLetter>, Error> {
        self.dead_letters_of(Generations::read(self).await?.current).await
    }

    pub(crate) async fn dead_letters_of(&self, generation: u32) -> Result<Vec<DeadLetter>, Error> {
        let operator =
            self.nagaya_of_generation(generation).operator("looks at dead letters", self.operator.principal());
        let (mut letters, mut after) = (Vec::new(), None);
        loop {
            let prefix = self.parked_prefix();
            let page = operator.side_records(self.projection.entity(), &prefix, after.as_deref(), PAGE_SIZE).await?;
            letters.extend(page.iter().map(DeadLetter::read));
            match page.last() {
                Some(last) if page.len() == PAGE_SIZE => after = Some(last.name.clone()),
                _ => return Ok(letters),
            }
        }
    }

    /// Tries to apply the event again, and those after it.
    pub async fn retry(&self, letter: &DeadLetter) -> Result<UnparkOutcome, Error> {
        self.unpark(letter, false).await
    }

    /// Skips the event in this projection, and applies those after it. The event stays stored: a rebuilt projection reads
    /// it again.
    pub async fn drop_event(&self, letter: &DeadLetter) -> Result<UnparkOutcome, Error> {
        self.unpark(letter, true).await
    }

    fn unpark<'a>(&'a self, letter: &'a DeadLetter, skip: bool) -> BoxFuture<'a, Result<UnparkOutcome, Error>> {
        Box::pin(async move {
            // The dead letters that are shown are those of the current generation; the others have their own.
            let generation = Generations::read(self).await?.current;
            let tenant = self.tenant(generation, &letter.tenant)?;
            let unpark = Some(Unpark { version: letter.version, skip });
            match self.advance_or_unpark(&tenant, &letter.aggregate, Vec::new(), unpark).await?.0 {
                AdvanceState::UpToDate => Ok(UnparkOutcome::UpToDate),
                AdvanceState::Parked => Ok(UnparkOutcome::ParkedAgain),
            }
        })
    }

    /// Unparks all aggregates of a generation. Their events are tried again when they are advanced.
    pub(crate) async fn unpark_all(&self, generation: u32) -> Result<(), Error> {
        for letter in self.dead_letters_of(generation).await? {
            let (tenant, id) = (self.tenant(generation, &letter.tenant)?, &letter.aggregate);
            let checkpoint = self.read_checkpoint(&tenant, id).await?;
            let set = self.add_checkpoint_write(tenant.change_set(), id, &checkpoint.unparked());
            match self.remove_dead_letter(set, &tenant, id).await?.commit().await {
                // Another process has unparked it.
                Err(error) if !is_lost_race(&error) => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }
}
