//! Opening the directory of a store, or asking the server that has it open.

use std::{
    fs,
    io::{ErrorKind, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, anyhow, bail};
use nagaya_embedded::{EmbeddedStore, EncryptionKey, Keyring, Options, is_in_use};
use serde_json::{Value as Json, json};

use super::{failure::StoreFailure, show};
use crate::{control::Connection, encryption::EncryptionArgs, hex::unhex};

#[derive(Debug, Clone, clap::Args)]
pub(super) struct DirectoryArgs {
    /// The directory of the store
    #[arg(long, value_name = "DIR", default_value = "nagaya-data", env = "NAGAYA_DATA")]
    pub(super) data: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) encryption: EncryptionArgs,
}

/// How the directory is accessed.
pub(super) enum Access {
    /// This process has it open.
    Own(Box<EmbeddedStore>),
    /// A server has it open, and answers.
    Server(Connection),
}

/// Opens an existing store, or connects to the server that has it open.
pub(super) fn access(directory: &DirectoryArgs) -> anyhow::Result<Access> {
    let in_use = match try_open(directory)? {
        Ok(store) => return Ok(Access::Own(Box::new(store))),
        Err(error) if is_in_use(&error) => error,
        Err(error) => return Err(open_error(directory, error)),
    };
    match Connection::open(&directory.data) {
        Ok(connection) => Ok(Access::Server(connection)),
        Err(why) => Err(anyhow!("{}; it cannot be asked either: {why:#}", StoreFailure::from(in_use))),
    }
}

/// Opens an existing store that no other process has open.
pub(super) fn open(directory: &DirectoryArgs) -> anyhow::Result<EmbeddedStore> {
    try_open(directory)?.map_err(|error| open_error(directory, error))
}

fn open_error(directory: &DirectoryArgs, error: nagaya_store::Error) -> anyhow::Error {
    anyhow::Error::new(StoreFailure::from(error)).context(format!("{} cannot be opened", directory.data.display()))
}

/// Opens an existing store; never creates one.
fn try_open(directory: &DirectoryArgs) -> anyhow::Result<Result<EmbeddedStore, nagaya_store::Error>> {
    if !is_store(&directory.data)? {
        // A directory may hold several, for example copies.
        let inside = fs::read_dir(&directory.data).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut inside: Vec<_> = inside
            .filter(|path| is_store(path).unwrap_or(false))
            .map(|path| format!("--data {}", path.display()))
            .collect();
        inside.sort();
        let there = if inside.is_empty() {
            "name it with --data".to_owned()
        } else {
            format!("there is {}", inside.join(", "))
        };
        bail!("{} is not the directory of a store; {there}", directory.data.display());
    }
    Ok(open_for_maintenance(&directory.data, directory.encryption.key()?))
}

/// Opens a store in which nothing expires meanwhile.
fn open_for_maintenance(
    data: &Path,
    encryption_key: Option<EncryptionKey>,
) -> Result<EmbeddedStore, nagaya_store::Error> {
    EmbeddedStore::open(data, Options { sweep_interval: None, encryption_key, ..Options::default() })
}

impl Access {
    /// The key of the store, and how far values are encrypted with it. `null` if the store is not encrypted, or a server does not
    /// answer.
    pub(super) fn encryption(&self, directory: &DirectoryArgs) -> Json {
        match self {
            Access::Own(store) => store.encryption().ok().flatten().as_ref().map_or(Json::Null, show::encryption_json),
            Access::Server(_) => {
                let Ok(connection) = Connection::open(&directory.data) else { return Json::Null };
                let answer = connection.ask(&json!({ "do": "encryption" }), &mut |_| {});
                answer.map_or(Json::Null, |mut answer| answer["state"].take())
            }
        }
    }

    /// The keys of the objects beside the store.
    pub(super) fn keyring(&self, directory: &DirectoryArgs) -> anyhow::Result<Arc<Keyring>> {
        let record = match self {
            Access::Own(store) => return Ok(store.keyring()),
            Access::Server(_) => Connection::open(&directory.data)?.ask(&json!({ "do": "encryption" }), &mut |_| {})?,
        };
        let Some(record) = record["record"].as_str().and_then(unhex) else { return Ok(Arc::default()) };
        let key = directory.encryption.key()?.context(
            "the store is encrypted, and its objects cannot be read without the key: give it with --encryption-key-file or \
             --encryption-key-command",
        )?;
        Ok(Arc::new(Keyring::from_record(&record, &key).map_err(StoreFailure::from)?))
    }
}

/// Whether a directory is one of the embedded store.
pub(crate) fn is_store(directory: &Path) -> anyhow::Result<bool> {
    match fs::metadata(directory.join("data")) {
        Ok(found) => Ok(found.is_dir()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Err(error).with_context(|| format!("this user cannot read {}", directory.display()))
        }
        Err(_) => Ok(false),
    }
}

/// Reads a small file.
pub(crate) fn read_small(path: &Path) -> anyhow::Result<Vec<u8>> {
    /// No key or passphrase is longer.
    const MAX_BYTES: u64 = 1024 * 1024;
    let unreadable = || format!("{} cannot be read", path.display());
    let mut bytes = Vec::new();
    let file = fs::File::open(path).with_context(unreadable)?;
    // A device has no end.
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).with_context(unreadable)?;
    if bytes.len() as u64 > MAX_BYTES {
        bail!("{} is too long for a key or a passphrase", path.display());
    }
    Ok(bytes)
}
