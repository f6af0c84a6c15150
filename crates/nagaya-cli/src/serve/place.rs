//! Where the data of a system is: opening its store, and the keys beside it.

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
use nagaya_embedded::Embedded;
use nagaya_server::System;
use nagaya_store::Store;
use nagaya_tenancy::{Nagaya, Settings};
use nagaya_todo::Notes;

use super::{Kind, Place};
use crate::control;

/// What to do about tables of a store in the cloud that are not there. A name with a typo in it must not end in tables that
/// nobody wanted, and a server that has none of its data. What is in a directory is made in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tables {
    /// Make them.
    Create,
    /// Go no further.
    Require {
        /// Whether the command has a flag that makes them.
        creates: bool,
    },
}

impl Kind {
    /// What a design is checked against; the memory of the process is like a directory.
    pub(crate) fn engine(self) -> Engine {
        match self {
            Kind::Embedded | Kind::Memory => Engine::Embedded,
            Kind::Dynamodb => Engine::Dynamodb,
            Kind::Cosmos => Engine::Cosmos,
        }
    }
}

impl Place {
    /// Where the data is, for people.
    pub(crate) fn describe(&self) -> String {
        match self.store {
            Kind::Embedded => format!("the embedded store in {}", self.data.display()),
            Kind::Memory => "memory: nothing is kept".to_owned(),
            Kind::Dynamodb => "DynamoDB".to_owned(),
            Kind::Cosmos => "Cosmos DB".to_owned(),
        }
    }

    /// Opens the store.
    pub(crate) async fn open(&self) -> anyhow::Result<Arc<dyn Store>> {
        match self.store {
            Kind::Embedded => {
                let directory = self.data.clone();
                let options = self.directory.options();
                let opening = move || Embedded::open(&directory, options);
                let store = Arc::new(tokio::task::spawn_blocking(opening).await??);
                control::listen(&self.data, &store);
                Ok(store)
            }
            Kind::Memory => Ok(Arc::new(Embedded::memory(self.directory.options())?)),
            Kind::Dynamodb => dynamodb().await,
            Kind::Cosmos => bail!("there is no engine for Cosmos DB yet; choose embedded, memory or dynamodb"),
        }
    }

    /// How a system lies in the store.
    pub(crate) fn settings(&self, system: &str) -> Settings {
        // In a directory each system has tables of its own, whatever they are called; in the cloud they are called what
        // their design says.
        let prefix = match self.store {
            Kind::Embedded | Kind::Memory => format!("{system}/"),
            Kind::Dynamodb | Kind::Cosmos => String::new(),
        };
        Settings { base: self.base.clone().filter(|base| !base.is_empty()), prefix, ..Settings::default() }
    }

    /// Where long notes are: in a directory beside the store, and gone with it in memory.
    pub(crate) fn notes(&self) -> Notes {
        match self.store {
            Kind::Memory => Notes::in_memory(),
            Kind::Embedded | Kind::Dynamodb | Kind::Cosmos => Notes::in_directory(self.data.join("objects")),
        }
    }

    /// A system on a store, with its tables.
    pub(crate) async fn house(&self, system: &System, store: Arc<dyn Store>, tables: Tables) -> anyhow::Result<Nagaya> {
        let name = &system.name;
        let settings = Settings { cursor_key: self.cursor_key()?, ..self.settings(name) };
        let nagaya = Nagaya::open_with(system.design.clone(), store, settings);
        if let (Kind::Dynamodb | Kind::Cosmos, Tables::Require { creates }) = (self.store, tables) {
            let missing = nagaya.missing_tables().await;
            let missing = missing.with_context(|| format!("the tables of {name} cannot be looked for"))?;
            if !missing.is_empty() {
                bail!(self.no_tables(system, &missing, creates));
            }
        }
        nagaya.ensure().await.with_context(|| format!("the tables of {name} cannot be made"))?;
        // What a crash has left half deleted is deleted before anybody asks.
        nagaya.recover().await.with_context(|| format!("deletions of {name} that were under way cannot be ended"))?;
        Ok(nagaya)
    }

    /// What is missing, why that may be, and what to do.
    fn no_tables(&self, system: &System, missing: &[String], creates: bool) -> String {
        let name = &system.name;
        let tables = if missing.len() == 1 { "table" } else { "tables" };
        let missing = missing.iter().map(|table| format!("`{table}`")).collect::<Vec<_>>().join(", ");
        let base = match self.base.as_deref().filter(|base| !base.is_empty()) {
            Some(base) => format!("DYNAMODB_TABLE_NAME or --base is `{base}`"),
            None => "neither DYNAMODB_TABLE_NAME nor --base is set".to_owned(),
        };
        let or = if creates { ", or let this command make them with --create-tables" } else { "" };
        format!(
            "{} does not have the {tables} {missing} of {name} ({base}; see AWS_REGION and DYNAMODB_ENDPOINT too); make \
             them with `nagaya tables apply DESIGN.toml --store dynamodb`{or}",
            self.describe()
        )
    }

    /// The key that cursors are sealed with: from the environment, so that several processes share it, or from the data
    /// directory, so that cursors outlive the process.
    fn cursor_key(&self) -> anyhow::Result<[u8; 32]> {
        if let Some(text) = std::env::var_os("NAGAYA_CURSOR_KEY") {
            let key = text.to_str().and_then(parse_key);
            return key.context("NAGAYA_CURSOR_KEY is not 64 hexadecimal digits");
        }
        match self.store {
            Kind::Memory => Ok(Settings::default().cursor_key),
            _ => kept_key(&self.data.join("cursor.key")),
        }
    }
}

#[cfg(feature = "dynamodb")]
async fn dynamodb() -> anyhow::Result<Arc<dyn Store>> {
    use nagaya_dynamodb::{Dynamodb, Options, Settings};
    // Indexes are rolled out by `nagaya tables apply`, one at a time where that is wanted.
    let options = Options { adds_indexes: false, ..Options::default() };
    Ok(Arc::new(Dynamodb::open(&Settings::from_env(), options).await?))
}

#[cfg(not(feature = "dynamodb"))]
#[expect(clippy::unused_async, reason = "the same form as with the engine built in")]
async fn dynamodb() -> anyhow::Result<Arc<dyn Store>> {
    bail!("this build has no engine for DynamoDB; build with `--features dynamodb`")
}

/// A key in a file that only its owner reads; made when it is not there.
fn kept_key(path: &Path) -> anyhow::Result<[u8; 32]> {
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
        let text: String = Settings::default().cursor_key.iter().map(|byte| format!("{byte:02x}")).collect();
        // Whole under another name first, then under its own unless somebody was faster: nobody reads half a key. The systems
        // of one process are opened at the same time, so each has a name of its own.
        let nth = NTH.fetch_add(1, Ordering::Relaxed);
        let unfinished = path.with_extension(format!("{}-{nth}.new", std::process::id()));
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(&unfinished).and_then(|mut file| file.write_all(text.as_bytes())).with_context(unreadable)?;
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
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    let mut key = [0; 32];
    for (byte, at) in key.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_and_read_back() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("deep/cursor.key");
        let first = kept_key(&path).expect("a key");
        assert_eq!(kept_key(&path).expect("the same"), first);
        fs::write(&path, "damaged").expect("a file");
        assert!(kept_key(&path).expect_err("no key").to_string().contains("holds no key"));
        assert_eq!(parse_key(&"é".repeat(32)), None);
    }
}
