//! The wallet: what keeps the provider and the items of a user in step.
//!
//! A charge and its record cannot be written together. So what is to happen is written first, into a note of the user's own;
//! then the provider is asked, under a key that the note has; then the outcome is written, and the note is cleared with it. One
//! thing is under way at a time. Whoever comes next and finds something that has not ended, ends it first: the provider gives
//! the same answer under the same key, and of several who write it down one does.

use nagaya_server::Problem;
use nagaya_tenancy::{Keeper, Note, Retry, Set};
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};

use super::{Desk, METHOD, methods::Removal, purchases::Buying, start::Start};
use crate::product::{fields, is_lost_race};

const NAME: &str = "wallet";

/// What a user's payments are at.
pub(super) struct Wallet {
    note: Option<Note>,
    act: Option<Act>,
}

/// Something that is under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Act {
    Buying(Buying),
    Start(Start),
    Removal(Removal),
}

impl Wallet {
    /// Whether this is under way.
    pub(super) fn has(&self, act: impl FnOnce(&Act) -> bool) -> bool {
        self.act.as_ref().is_some_and(act)
    }
}

impl Desk {
    pub(super) async fn wallet(&self) -> Result<Wallet, Problem> {
        let note = self.tenant.note(METHOD, Keeper::Tenant, NAME).await?;
        let act = note.as_ref().and_then(|note| note.fields.get("act"));
        let act = act.map(|act| {
            Act::deserialize(act).map_err(|error| {
                tracing::error!(%error, "a wallet cannot be read");
                Problem::internal()
            })
        });
        Ok(Wallet { act: act.transpose()?, note })
    }

    /// The wallet when nothing is under way: what is, is ended first.
    pub(super) async fn settled(&self) -> Result<Wallet, Problem> {
        let mut retry = Retry::default();
        loop {
            retry.attempt().await?;
            let wallet = self.wallet().await?;
            match &wallet.act {
                None => return Ok(wallet),
                Some(Act::Buying(buying)) => buying.end(self, &wallet).await?,
                Some(Act::Start(start)) => drop(start.end(self, &wallet).await?),
                Some(Act::Removal(removal)) => removal.end(self, &wallet).await?,
            }
        }
    }

    /// Changes that happen if the wallet is still the one that was read, and after which nothing is under way in it.
    pub(super) fn change(&self, wallet: &Wallet) -> Set {
        self.tenant.set().note(METHOD, Keeper::Tenant, NAME, Some(Map::new()), wallet.note.as_ref())
    }

    /// Writes down what is to happen; `false` if somebody else was faster.
    pub(super) async fn begin(&self, wallet: &Wallet, act: &Act) -> Result<bool, Problem> {
        let under_way = Some(fields(json!({ "act": act })));
        let set = self.tenant.set().note(METHOD, Keeper::Tenant, NAME, under_way, wallet.note.as_ref());
        done(set).await
    }
}

/// Makes changes; `false` if somebody else was faster.
pub(super) async fn done(set: Set) -> Result<bool, Problem> {
    match set.commit().await {
        Ok(_) => Ok(true),
        Err(error) if is_lost_race(&error) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
