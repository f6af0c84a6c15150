//! Dead letters: aggregates with an event that cannot be applied.
//!
//! Nothing is copied into a queue. The events stay where they are; what is stored is that the aggregate is parked, at which
//! event, and why. Its later events wait.

use std::collections::BTreeSet;

use futures_util::future::BoxFuture;
use nagaya_tenancy::{SideRecord, Tenant};
use serde_json::Value as Json;

use crate::{
    Error, ErrorKind, Processor,
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
    /// Where it is: its tenant, its aggregate and its version.
    fn place(&self) -> (String, String, u64) {
        (self.tenant.clone(), self.aggregate.clone(), self.version)
    }

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
    /// All dead letters of the current generation, and of the one that is being built.
    pub async fn dead_letters(&self) -> Result<Vec<DeadLetter>, Error> {
        let generations = Generations::read(self).await?;
        let mut letters = self.dead_letters_of(generations.current).await?;
        if let Some(building) = generations.building {
            let known: BTreeSet<_> = letters.iter().map(DeadLetter::place).collect();
            let mut others = self.dead_letters_of(building).await?;
            others.retain(|letter| !known.contains(&letter.place()));
            letters.extend(others);
        }
        Ok(letters)
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

    /// Tries to apply the event again, and those after it, in all generations where it is parked.
    pub fn retry<'a>(&'a self, letter: &'a DeadLetter) -> BoxFuture<'a, Result<UnparkOutcome, Error>> {
        Box::pin(async move {
            let mut outcome = UnparkOutcome::UpToDate;
            for tenant in self.parked_at(letter).await? {
                let unpark = Some(Unpark { version: letter.version, skip: false });
                let state = self.advance_or_unpark(&tenant, &letter.aggregate, Vec::new(), unpark).await?.0;
                if state == AdvanceState::Parked {
                    outcome = UnparkOutcome::ParkedAgain;
                }
            }
            Ok(outcome)
        })
    }

    /// The handles of the generations where an aggregate is parked at the event of a dead letter; an error if there is none.
    pub(crate) async fn parked_at(&self, letter: &DeadLetter) -> Result<Vec<Tenant>, Error> {
        let (id, mut found, mut elsewhere) = (&letter.aggregate, Vec::new(), false);
        for generation in Generations::read(self).await?.all() {
            let tenant = self.tenant(generation, &letter.tenant)?;
            match self.read_checkpoint(&tenant, id).await?.parked {
                Some(parked) if parked.version == letter.version => found.push(tenant),
                parked => elsewhere |= parked.is_some(),
            }
        }
        match (found.is_empty(), elsewhere) {
            (false, _) => Ok(found),
            (true, true) => Err(ErrorKind::Busy(format!("{id} is parked at another event by now; look again")).into()),
            (true, false) => Err(ErrorKind::Busy(format!("{id} is not parked any more")).into()),
        }
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
