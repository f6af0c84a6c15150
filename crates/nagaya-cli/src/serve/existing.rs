//! Opening a system whose store is there already, for commands that inspect and maintain it.

use anyhow::{Context as _, bail};
use nagaya_server::System;
use nagaya_tenancy::{Nagaya, Operator, Principal};

use super::{KeyFiles, StoreArgs, StoreKind};
use crate::store::is_store;

impl StoreArgs {
    /// Opens a system whose store is there already, or asks the server that has it open. Creates neither a store nor keys.
    pub(crate) async fn open_existing(&self, system: &System) -> anyhow::Result<Nagaya> {
        self.require_existing()?;
        let store = self.open_beside_server().await;
        let store = store.with_context(|| format!("{} cannot be opened", self.describe()))?;
        let settings = self.audited_settings(&system.name, KeyFiles::Read).await?;
        let nagaya = Nagaya::open_with(system.design.clone(), store, settings);
        let unknown = || format!("there are no tables of {} in {}", system.name, self.describe());
        nagaya.ping_store().await.with_context(unknown)?;
        self.continue_log(&nagaya, &system.name).await?;
        Ok(nagaya)
    }

    /// Refuses what would be a new store: a typo in its name must not create one.
    pub(crate) fn require_existing(&self) -> anyhow::Result<()> {
        match self.kind {
            StoreKind::Memory => bail!("memory keeps nothing; choose embedded or dynamodb with --store"),
            StoreKind::Embedded if !is_store(&self.data)? => {
                bail!("{} is not the directory of a store; name it with --data", self.data.display())
            }
            _ => Ok(()),
        }
    }
}

/// The one who runs a command, as an operator with a reason. They are not authenticated: anyone who can open the store.
pub(crate) fn operator(nagaya: &Nagaya, reason: &str) -> Operator {
    let user = std::env::var("USER").ok().filter(|user| !user.is_empty()).unwrap_or_else(|| "operator".to_owned());
    nagaya.operator(reason, &Principal::new("", user.as_str()))
}
