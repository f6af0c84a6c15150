//! The wallet: keeps the payment provider and the items of a user consistent.
//!
//! A charge and its item cannot be written in one transaction. So the intent is stored first, in the wallet of the user; then
//! the provider is called with the idempotency key of the intent; then the result is stored, and the intent is cleared in the
//! same transaction. One intent is pending at a time. The next call that finds a pending intent completes it first: the
//! provider gives the same answer for the same key, and one of several writers stores it.

use nagaya_server::Problem;
use nagaya_tenancy::{ChangeSet, RecordOwner, Retry, SideRecord};
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};

use super::{METHOD_ENTITY, PaymentCall, methods::Removal, purchases::PendingPurchase, start::Start};
use crate::product::{object_fields, unless_lost_race};

const WALLET_RECORD: &str = "wallet";

/// The wallet of a user.
pub(super) struct Wallet {
    note: Option<SideRecord>,
    act: Option<PendingPayment>,
}

/// A payment that is stored before the provider is called.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum PendingPayment {
    Buying(PendingPurchase),
    Start(Start),
    Removal(Removal),
}

impl Wallet {
    /// Whether this payment is pending.
    pub(super) fn has(&self, act: impl FnOnce(&PendingPayment) -> bool) -> bool {
        self.act.as_ref().is_some_and(act)
    }
}

impl PaymentCall {
    pub(super) async fn wallet(&self) -> Result<Wallet, Problem> {
        let note = self.tenant.side_record(METHOD_ENTITY, RecordOwner::Tenant, WALLET_RECORD).await?;
        let act = note.as_ref().and_then(|note| note.fields.get("act"));
        let act = act.map(|act| {
            PendingPayment::deserialize(act).map_err(|error| {
                tracing::error!(%error, "cannot read a wallet");
                Problem::internal()
            })
        });
        Ok(Wallet { act: act.transpose()?, note })
    }

    /// The wallet without a pending payment: a pending one is completed first.
    pub(super) async fn without_pending_payment(&self) -> Result<Wallet, Problem> {
        let mut retry = Retry::default();
        loop {
            retry.attempt().await?;
            let wallet = self.wallet().await?;
            match &wallet.act {
                None => return Ok(wallet),
                Some(PendingPayment::Buying(buying)) => buying.complete(self, &wallet).await?,
                Some(PendingPayment::Start(start)) => drop(start.complete(self, &wallet).await?),
                Some(PendingPayment::Removal(removal)) => removal.complete(self, &wallet).await?,
            }
        }
    }

    /// A change set that clears the pending payment, if the wallet has not changed since it was read.
    pub(super) fn change(&self, wallet: &Wallet) -> ChangeSet {
        self.tenant.change_set().side_record(
            METHOD_ENTITY,
            RecordOwner::Tenant,
            WALLET_RECORD,
            Some(Map::new()),
            wallet.note.as_ref(),
        )
    }

    /// Stores a pending payment; `false` if another writer was faster.
    pub(super) async fn store_pending(&self, wallet: &Wallet, act: &PendingPayment) -> Result<bool, Problem> {
        let under_way = Some(object_fields(json!({ "act": act })));
        let set = self.tenant.change_set().side_record(
            METHOD_ENTITY,
            RecordOwner::Tenant,
            WALLET_RECORD,
            under_way,
            wallet.note.as_ref(),
        );
        commit_or_lost_race(set).await
    }
}

/// Commits a change set; `false` if another writer was faster.
pub(super) async fn commit_or_lost_race(set: ChangeSet) -> Result<bool, Problem> {
    Ok(unless_lost_race(set.commit().await)?.is_some())
}
