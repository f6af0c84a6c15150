//! How far the changes of the store have been read.

use nagaya_store::{ChangePosition, ErrorKind as StoreKind, From};
use nagaya_tenancy::{ErrorKind as Kind, Follower, Keeper, Note};
use serde_json::Map;

use super::{Processor, Step};
use crate::Error;

/// How far the changes of the store have been read.
pub(super) struct Reached {
    note: Option<Note>,
}

impl Reached {
    pub(super) fn after(&self) -> Option<ChangePosition> {
        self.note.as_ref()?.text("after").map(|after| ChangePosition(after.to_owned()))
    }
}

impl Processor {
    fn position_name(&self) -> String {
        format!("position-{}", self.projection.entity())
    }

    /// The notes of the house lie in the first generation's table, which every generation knows.
    pub(super) async fn position(&self) -> Result<Reached, Error> {
        let first = self.first();
        let note = first.note(self.projection.entity(), Keeper::House, &self.position_name()).await?;
        Ok(Reached { note })
    }

    /// Keeps how far it has come. Another processor that was faster has kept the same or more.
    pub(super) async fn reached(&self, before: &Reached, next: &ChangePosition) -> Result<(), Error> {
        let mut fields = Map::new();
        fields.insert("after".to_owned(), next.0.as_str().into());
        let set = self.first().set().note(
            self.projection.entity(),
            Keeper::House,
            &self.position_name(),
            Some(fields),
            before.note.as_ref(),
        );
        match set.commit().await {
            Err(error) if !matches!(error.kind(), Kind::Overtaken { .. }) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Begins to follow: from now on by changes, and what is there already by the events themselves.
    pub(super) async fn begin(&self, follower: &Follower, before: Reached) -> Result<Step, Error> {
        let now = follower.changes(From::Now, 1).await?.next;
        let mut step = Step::default();
        for generation in crate::generation::Generations::read(self).await?.fed() {
            let caught_up = self.catch_up(follower, generation, &|_| {}).await?;
            step.events += usize::try_from(caught_up.events).unwrap_or(usize::MAX);
            step.parked += caught_up.parked;
        }
        self.reached(&before, &now).await?;
        Ok(Step { read: step.events.max(1), ..step })
    }
}

/// Whether the changes after a position are not kept any more.
pub(crate) fn is_lost(error: &nagaya_tenancy::Error) -> bool {
    matches!(error.kind(), Kind::Store(error) if matches!(error.kind(), StoreKind::Gap))
}
