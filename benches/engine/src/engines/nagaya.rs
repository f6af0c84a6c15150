//! The embedded engine, through the store port, with the settings of the run.

use std::{ops::Range, path::Path};

use nagaya_embedded::EmbeddedStore;
use nagaya_store::{Store as _, WriteSet, limits};

use super::Engine;
use crate::{settings::Settings, workload};

pub(crate) struct Nagaya(EmbeddedStore);

impl Engine for Nagaya {
    async fn open(directory: &Path, settings: Settings) -> anyhow::Result<Self> {
        let store = EmbeddedStore::open(directory, settings.options())?;
        store.ensure_tables(&[workload::table()]).await?;
        Ok(Nagaya(store))
    }

    async fn create(&self, number: u64) -> anyhow::Result<()> {
        self.0.write(WriteSet::from(workload::create(number))).await?;
        Ok(())
    }

    async fn load(&self, numbers: Range<u64>) -> anyhow::Result<()> {
        let mut numbers = numbers.peekable();
        while numbers.peek().is_some() {
            let set: WriteSet = numbers.by_ref().take(limits::MAX_ACTIONS).map(workload::create).collect();
            self.0.write(set).await?;
        }
        Ok(())
    }

    async fn read(&self, number: u64) -> anyhow::Result<bool> {
        Ok(self.0.get(workload::TABLE, &workload::key(number)).await?.is_some())
    }

    async fn query(&self, number: u64) -> anyhow::Result<usize> {
        Ok(self.0.query(workload::query(number)).await?.items.len())
    }
}
