//! The store of a system, and opening the system on it.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use nagaya_design::Engine;
use nagaya_embedded::EmbeddedStore;
use nagaya_server::System;
use nagaya_store::Store;
use nagaya_tenancy::{ErrorKind, Nagaya, Principal, Settings};

use super::{KeyFiles, StoreArgs, StoreKind};
use crate::{
    control::{self, ServerStore},
    key_file::KeyKind,
    systems::{ObjectDirectory, Resources},
    tables::{KmsKey, create_dynamodb_tables},
};

/// What to do about missing tables on a store in the cloud. A typo in a name must not create tables that nobody wanted, and
/// a server without its data. In a directory and in memory they are always created.
#[derive(Debug, Clone)]
pub(crate) enum Tables {
    /// Create them as the design says, with this key where it wants encryption.
    Create(KmsKey),
    /// Fail.
    Require {
        /// Whether the command has a flag that creates them.
        creates: bool,
    },
}

impl StoreKind {
    /// The engine that a design is checked against.
    pub(crate) fn engine(self) -> Engine {
        match self {
            StoreKind::Embedded | StoreKind::Memory => Engine::Embedded,
            StoreKind::Dynamodb => Engine::Dynamodb,
            StoreKind::Cosmos => Engine::Cosmos,
        }
    }

    /// Whether other processes, with directories of their own, use the same store.
    pub(crate) fn is_in_cloud(self) -> bool {
        matches!(self, StoreKind::Dynamodb | StoreKind::Cosmos)
    }
}

impl StoreArgs {
    /// A description of the store for people.
    pub(crate) fn describe(&self) -> String {
        match self.kind {
            StoreKind::Embedded => format!("the embedded store in {}", self.data.display()),
            StoreKind::Memory => "memory: nothing is kept".to_owned(),
            StoreKind::Dynamodb => "DynamoDB".to_owned(),
            StoreKind::Cosmos => "Cosmos DB".to_owned(),
        }
    }

    /// Opens the store.
    pub(crate) async fn open(&self) -> anyhow::Result<Arc<dyn Store>> {
        match self.kind {
            StoreKind::Embedded => {
                if self.data.is_file() {
                    bail!("{} is a file, not a directory; name the directory of the store", self.data.display());
                }
                let directory = self.data.clone();
                let options = self.directory.options()?;
                let opening = move || EmbeddedStore::open(&directory, options);
                let store = Arc::new(tokio::task::spawn_blocking(opening).await??);
                self.opened.set(Some(&store));
                control::listen(&self.data, &store);
                Ok(store)
            }
            StoreKind::Memory => {
                self.opened.set(None);
                Ok(Arc::new(EmbeddedStore::in_memory(self.directory.options()?)?))
            }
            StoreKind::Dynamodb => {
                self.opened.set(None);
                dynamodb().await
            }
            StoreKind::Cosmos => bail!("there is no engine for Cosmos DB yet; choose embedded, memory or dynamodb"),
        }
    }

    /// Opens the store, or asks the process that has its directory open.
    pub(crate) async fn open_beside_server(&self) -> anyhow::Result<Arc<dyn Store>> {
        let refused = match self.open().await {
            Ok(store) => return Ok(store),
            Err(error) => error,
        };
        match refused.downcast_ref::<nagaya_store::Error>() {
            Some(error) if nagaya_embedded::is_in_use(error) => {
                self.opened.set(None);
                let asked = ServerStore::connect(&self.data);
                let asked = asked.with_context(|| format!("{refused:#}, and that process cannot be asked"))?;
                Ok(Arc::new(asked))
            }
            _ => Err(refused),
        }
    }

    /// The settings of a system in this store.
    pub(crate) fn settings(&self, system: &str) -> Settings {
        // In a directory each system has tables of its own, whatever their names; in the cloud the names of the design are used.
        let prefix = match self.kind {
            StoreKind::Embedded | StoreKind::Memory => format!("{system}/"),
            StoreKind::Dynamodb | StoreKind::Cosmos => String::new(),
        };
        let audit_retention = Duration::from_secs(self.audit_retention * 24 * 60 * 60);
        let base = self.base.clone().filter(|base| !base.is_empty());
        Settings { base, prefix, audit_retention, ..Settings::default() }
    }

    /// The same with the keys of the operator log, for whatever writes to it. The store has to be open.
    pub(crate) async fn audited_settings(&self, system: &str, files: KeyFiles) -> anyhow::Result<Settings> {
        let mut settings = self.settings(system);
        if let Some(keys) = self.keys(KeyKind::Audit, files).await? {
            settings.audit_keys = keys;
        }
        Ok(settings)
    }

    /// Continues an operator log whose key is lost, if `--new-keys` says so. The tables have to be there.
    pub(crate) async fn continue_log(&self, nagaya: &Nagaya, system: &str) -> anyhow::Result<()> {
        if !self.directory.new_keys {
            return Ok(());
        }
        let operator = nagaya.operator("continued with --new-keys", &Principal::new("", "nagaya"));
        let continued = operator.continue_log().await;
        if continued.with_context(|| format!("the operator log of {system} cannot be continued"))? {
            tracing::warn!(
                system,
                "the operator log goes on with a new key; entries of the lost one cannot be verified"
            );
        }
        Ok(())
    }

    /// Refuses a directory whose operator log ends with an entry of an unknown key: operators and background work would be refused.
    /// In the cloud other servers may do that work, and this one goes on for tenants.
    async fn check_audit_key(&self, nagaya: &Nagaya, system: &str) -> anyhow::Result<()> {
        match nagaya.check_audit_key().await {
            Err(error) if self.kind.is_in_cloud() && matches!(error.kind(), ErrorKind::UnknownAuditKey { .. }) => {
                tracing::error!(system, %error, "calls of operators and background work are refused");
                Ok(())
            }
            checked => checked.with_context(|| format!("nobody could write to the operator log of {system}")),
        }
    }

    /// What systems need besides the store. Large objects are in a directory beside the store, or in memory like the store.
    pub(crate) fn resources(&self) -> Resources {
        let objects =
            || ObjectDirectory { directory: self.data.join("objects"), cipher: Arc::new(self.opened.clone()) };
        Resources { objects: (self.kind != StoreKind::Memory).then(objects), ..Resources::default() }
    }

    /// Opens a system on a store, with its tables.
    pub(crate) async fn open_system(
        &self,
        system: &System,
        store: Arc<dyn Store>,
        tables: &Tables,
        files: KeyFiles,
    ) -> anyhow::Result<Nagaya> {
        let name = &system.name;
        let mut settings = self.audited_settings(name, files).await?;
        if let Some(keys) = self.keys(KeyKind::Cursor, files).await? {
            settings.cursor_keys = keys;
        }
        if let Some(keys) = self.keys(KeyKind::Log, files).await? {
            settings.log_keys = keys;
        }
        self.warn_if_not_encrypted(system);
        let nagaya = Nagaya::open_with(system.design.clone(), store, settings);
        let failed = || format!("the tables of {name} cannot be created");
        match tables {
            Tables::Require { creates } if self.kind.is_in_cloud() => {
                let missing = nagaya.missing_tables().await;
                let missing = missing.with_context(|| format!("the tables of {name} cannot be looked for"))?;
                if !missing.is_empty() {
                    bail!(self.missing_tables(system, &missing, *creates));
                }
            }
            Tables::Create(key) if self.kind == StoreKind::Dynamodb => {
                create_dynamodb_tables(system.design.clone(), self.base.clone(), key).await.with_context(failed)?;
            }
            _ => {}
        }
        nagaya.ensure_tables().await.with_context(failed)?;
        self.continue_log(&nagaya, name).await?;
        self.check_audit_key(&nagaya, name).await?;
        // Deletions that a crash has interrupted are finished before the first request.
        nagaya
            .recover_deletions()
            .await
            .with_context(|| format!("interrupted deletions of {name} cannot be finished"))?;
        Ok(nagaya)
    }

    /// The message about missing tables.
    fn missing_tables(&self, system: &System, missing: &[String], creates: bool) -> String {
        let name = &system.name;
        let tables = if missing.len() == 1 { "table" } else { "tables" };
        let missing = missing.iter().map(|table| format!("`{table}`")).collect::<Vec<_>>().join(", ");
        let base = match self.base.as_deref().filter(|base| !base.is_empty()) {
            Some(base) => format!("DYNAMODB_TABLE_NAME or --base is `{base}`"),
            None => "neither DYNAMODB_TABLE_NAME nor --base is set".to_owned(),
        };
        let or = if creates { ", or let this command create them with --create-tables" } else { "" };
        format!(
            "{} does not have the {tables} {missing} of {name} ({base}; see AWS_REGION and DYNAMODB_ENDPOINT too); create \
             them with `nagaya tables apply DESIGN.toml --store dynamodb`{or}",
            self.describe()
        )
    }

    /// Warns about tables that should be encrypted with a key of the operator.
    fn warn_if_not_encrypted(&self, system: &System) {
        if self.kind != StoreKind::Embedded || self.opened.is_encrypted() {
            return;
        }
        let tables: Vec<_> =
            system.design.tables.iter().filter(|table| table.kms).map(|table| table.id.as_str()).collect();
        if !tables.is_empty() {
            let (system, tables) = (&system.name, tables.join(", "));
            tracing::warn!(
                system,
                tables,
                "the design wants these tables encrypted (`encryption = \"kms\"`), and the store is not: give \
                 --encryption-key-file or --encryption-key-command, and encrypt a filled store with `nagaya store encrypt`"
            );
        }
    }
}

#[cfg(feature = "dynamodb")]
async fn dynamodb() -> anyhow::Result<Arc<dyn Store>> {
    use nagaya_dynamodb::{Dynamodb, Options, Settings};
    // `nagaya tables apply` adds indexes, one at a time where that is wanted.
    let options = Options { adds_missing_indexes: false, ..Options::default() };
    Ok(Arc::new(Dynamodb::open(&Settings::from_env(), options).await?))
}

#[cfg(not(feature = "dynamodb"))]
#[expect(clippy::unused_async, reason = "the same form as with the engine built in")]
async fn dynamodb() -> anyhow::Result<Arc<dyn Store>> {
    bail!("this build has no engine for DynamoDB; build with `--features dynamodb`")
}
