//! The store of a system: opening it, and the keys beside it.

use std::{
    fs,
    io::Write as _,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use anyhow::{Context as _, bail};
use nagaya_design::Engine;
use nagaya_embedded::EmbeddedStore;
use nagaya_server::System;
use nagaya_store::{Store, files::private_file};
use nagaya_tenancy::{Nagaya, Settings};

use super::{StoreArgs, StoreKind};
use crate::{
    control,
    hex::{hex, unhex},
    systems::Resources,
};

/// What to do about missing tables on a store in the cloud. A typo in a name must not create tables that nobody wanted, and
/// a server without its data. In a directory and in memory they are always created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tables {
    /// Create them.
    Create,
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
                let options = self.directory.options();
                let opening = move || EmbeddedStore::open(&directory, options);
                let store = Arc::new(tokio::task::spawn_blocking(opening).await??);
                control::listen(&self.data, &store);
                Ok(store)
            }
            StoreKind::Memory => Ok(Arc::new(EmbeddedStore::in_memory(self.directory.options())?)),
            StoreKind::Dynamodb => dynamodb().await,
            StoreKind::Cosmos => bail!("there is no engine for Cosmos DB yet; choose embedded, memory or dynamodb"),
        }
    }

    /// The settings of a system in this store.
    pub(crate) fn settings(&self, system: &str) -> Settings {
        // In a directory each system has tables of its own, whatever their names; in the cloud the names of the design are used.
        let prefix = match self.kind {
            StoreKind::Embedded | StoreKind::Memory => format!("{system}/"),
            StoreKind::Dynamodb | StoreKind::Cosmos => String::new(),
        };
        Settings { base: self.base.clone().filter(|base| !base.is_empty()), prefix, ..Settings::default() }
    }

    /// What systems need besides the store. Large objects are in a directory beside the store, or in memory like the store.
    pub(crate) fn resources(&self) -> Resources {
        let objects = (self.kind != StoreKind::Memory).then(|| self.data.join("objects"));
        Resources { objects, is_production: false }
    }

    /// Opens a system on a store, with its tables.
    pub(crate) async fn open_system(
        &self,
        system: &System,
        store: Arc<dyn Store>,
        tables: Tables,
    ) -> anyhow::Result<Nagaya> {
        let name = &system.name;
        let settings = Settings { cursor_key: self.cursor_key()?, ..self.settings(name) };
        let nagaya = Nagaya::open_with(system.design.clone(), store, settings);
        if let (StoreKind::Dynamodb | StoreKind::Cosmos, Tables::Require { creates }) = (self.kind, tables) {
            let missing = nagaya.missing_tables().await;
            let missing = missing.with_context(|| format!("the tables of {name} cannot be looked for"))?;
            if !missing.is_empty() {
                bail!(self.missing_tables(system, &missing, creates));
            }
        }
        nagaya.ensure_tables().await.with_context(|| format!("the tables of {name} cannot be created"))?;
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

    /// The key that seals cursors: from the environment, so that several processes share it, or from the data directory, so
    /// that cursors stay valid after a restart.
    fn cursor_key(&self) -> anyhow::Result<[u8; 32]> {
        if let Some(text) = std::env::var_os("NAGAYA_CURSOR_KEY") {
            let key = text.to_str().and_then(parse_key);
            return key.context("NAGAYA_CURSOR_KEY is not 64 hexadecimal digits");
        }
        match self.kind {
            StoreKind::Memory => Ok(Settings::default().cursor_key),
            _ => stored_key(&self.data.join("cursor.key")),
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

/// Reads a key from a file that only its owner can read; creates it if it does not exist.
fn stored_key(path: &Path) -> anyhow::Result<[u8; 32]> {
    static NTH: AtomicU32 = AtomicU32::new(0);
    let unreadable = || format!("{} cannot be read", path.display());
    loop {
        match fs::read_to_string(path) {
            Ok(text) => return parse_key(text.trim()).with_context(|| format!("{} holds no key", path.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(unreadable),
        }
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).with_context(unreadable)?;
        }
        let text = hex(&Settings::default().cursor_key);
        // Written under a temporary name and then linked, so that nobody reads half a key. If another writer was first, use
        // theirs. The systems of one process open at the same time, so each has a temporary name of its own.
        let nth = NTH.fetch_add(1, Ordering::Relaxed);
        let unfinished = path.with_extension(format!("{}-{nth}.new", std::process::id()));
        let file = private_file().create(true).truncate(true).open(&unfinished);
        file.and_then(|mut file| file.write_all(text.as_bytes())).with_context(unreadable)?;
        let named = fs::hard_link(&unfinished, path);
        fs::remove_file(&unfinished).with_context(unreadable)?;
        if let Err(error) = named
            && error.kind() != std::io::ErrorKind::AlreadyExists
        {
            return Err(error).with_context(unreadable);
        }
    }
}

fn parse_key(text: &str) -> Option<[u8; 32]> {
    unhex(text)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_created_once_and_read_back() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("deep/cursor.key");
        let first = stored_key(&path).expect("a key");
        assert_eq!(stored_key(&path).expect("the same"), first);
        fs::write(&path, "damaged").expect("a file");
        assert!(stored_key(&path).expect_err("no key").to_string().contains("holds no key"));
        assert_eq!(parse_key(&"é".repeat(32)), None);
    }
}
