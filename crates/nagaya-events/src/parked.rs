//! Dead letters: aggregates with an event that cannot be applied.
//!
//! Nothing is copied into a queue. The events are where they always were; what is kept is that the aggregate waits, at which
//! event, and why. Its later events line up behind it by being there.

use nagaya_tenancy::Note;
use serde_json::Value as Json;

use crate::{
    Error, Processor,
    generation::Generations,
    processor::{Advanced, Freeing, overtaken},
};

/// An aggregate with an event that cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Whose it is.
    pub tenant: String,
    /// The aggregate.
    pub aggregate: String,
    /// The version that the event would have given.
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
    pub at: i64,
}

/// What became of a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// The aggregate is in step with its events again.
    InStep,
    /// An event, the same or a later one, cannot be applied.
    ParkedAgain,
}

impl DeadLetter {
    fn read(note: &Note) -> Self {
        let text = |name: &str| note.text(name).unwrap_or_default().to_owned();
        DeadLetter {
            tenant: text("tenant"),
            aggregate: text("aggregateId"),
            version: note.number("version").unwrap_or_default(),
            event: text("eventId"),
            event_type: text("eventType"),
            error: text("error"),
            attempts: note.number("attempts").unwrap_or_default(),
            at: note.fields.get("at").and_then(Json::as_i64).unwrap_or_default(),
        }
    }
}

/// Dead letters that are read at a time.
const PAGE: usize = 100;

impl Processor {
    /// All dead letters of the generation that is read.
    pub async fn dead_letters(&self) -> Result<Vec<DeadLetter>, Error> {
        self.dead_letters_of(Generations::read(self).await?.current).await
    }

    async fn dead_letters_of(&self, generation: u32) -> Result<Vec<DeadLetter>, Error> {
        let house = self.house(generation);
        let operator = house.operator("looks at dead letters", self.operator.principal());
        let (mut letters, mut after) = (Vec::new(), None);
        loop {
            let prefix = self.parked_prefix();
            let page = operator.notes(self.projection.entity(), &prefix, after.as_deref(), PAGE).await?;
            letters.extend(page.iter().map(DeadLetter::read));
            match page.last() {
                Some(last) if page.len() == PAGE => after = Some(last.name.clone()),
                _ => return Ok(letters),
            }
        }
    }

    /// Tries an aggregate's event again, and those behind it.
    pub async fn retry(&self, letter: &DeadLetter) -> Result<Settled, Error> {
        self.settle(letter, false).await
    }

    /// Leaves an aggregate's event out of the projection, and goes on with those behind it. The event stays in the events:
    /// a projection that is built anew meets it again.
    pub async fn drop_event(&self, letter: &DeadLetter) -> Result<Settled, Error> {
        self.settle(letter, true).await
    }

    async fn settle(&self, letter: &DeadLetter, skip: bool) -> Result<Settled, Error> {
        // The generation that is read is the one whose letters are shown; the others have letters of their own.
        let generation = Generations::read(self).await?.current;
        let tenant = self.tenant(generation, &letter.tenant)?;
        let freeing = Some(Freeing { version: letter.version, skip });
        match self.advance_freeing(&tenant, &letter.aggregate, Vec::new(), freeing).await?.0 {
            Advanced::Done => Ok(Settled::InStep),
            Advanced::Parked => Ok(Settled::ParkedAgain),
        }
    }

    /// Frees all aggregates of a generation that are parked: whoever brings them in step tries their events again.
    pub(crate) async fn free_all(&self, generation: u32) -> Result<(), Error> {
        for letter in self.dead_letters_of(generation).await? {
            let (tenant, id) = (self.tenant(generation, &letter.tenant)?, &letter.aggregate);
            let checkpoint = self.checkpoint(&tenant, id).await?;
            let set = self.move_to(tenant.set(), id, &checkpoint.freed());
            match self.unlist(set, &tenant, id).await?.commit().await {
                // Freed, by this one or by somebody else.
                Ok(_) => {}
                Err(error) if overtaken(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
