//! How far the changes of the store have been read.

use nagaya_store::ChangePosition;
use nagaya_tenancy::{Error, ErrorKind, Keeper, Note};
use serde_json::json;

use super::Followers;
use crate::product::fields;

/// The entity in whose table the note lies, and what it is called.
const NOTE: (&str, &str) = ("saved_recipe", "followers-position");

/// What was kept.
pub(super) struct Kept(Option<Note>);

impl Kept {
    /// The position; `None`: nothing has been followed yet.
    pub(super) fn after(&self) -> Option<ChangePosition> {
        self.0.as_ref()?.text("after").map(|after| ChangePosition(after.to_owned()))
    }
}

impl Followers {
    pub(super) async fn position(&self) -> Result<Kept, Error> {
        Ok(Kept(self.operator.note(NOTE.0, Keeper::House, NOTE.1).await?))
    }

    /// Keeps how far it has come. Another one that was faster has kept the same or more.
    pub(super) async fn keep(&self, before: &Kept, next: &ChangePosition) -> Result<(), Error> {
        let said = fields(json!({ "after": next.0 }));
        let set = self.operator.set().note(NOTE.0, Keeper::House, NOTE.1, Some(said), before.0.as_ref());
        match set.commit().await {
            Err(error) if !matches!(error.kind(), ErrorKind::Overtaken { .. }) => Err(error),
            _ => Ok(()),
        }
    }
}
