//! The directory that is meant, and who has it open.

use std::{
    fs,
    io::{ErrorKind, Read as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, anyhow, bail};
use nagaya_embedded::{Embedded, Options, is_in_use};

use super::failure::StoreFailure;
use crate::control::Connection;

#[derive(Debug, clap::Args)]
pub(super) struct Place {
    /// The directory of the store
    #[arg(long, value_name = "DIR", default_value = "nagaya-data", env = "NAGAYA_DATA")]
    pub(super) data: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// How a directory is reached.
pub(super) enum Access {
    /// This process has it open.
    Own(Box<Embedded>),
    /// A server has it open, and answers.
    Server(Connection),
}

/// Opens a store that is there, or asks the server that has it open.
pub(super) fn access(place: &Place) -> anyhow::Result<Access> {
    let in_use = match try_open(place)? {
        Ok(store) => return Ok(Access::Own(Box::new(store))),
        Err(error) if is_in_use(&error) => error,
        Err(error) => return Err(unopened(place, error)),
    };
    match Connection::open(&place.data) {
        Ok(connection) => Ok(Access::Server(connection)),
        Err(why) => Err(anyhow!("{}; it cannot be asked either: {why:#}", StoreFailure::from(in_use))),
    }
}

/// Opens a store that is there and that nobody else has open.
pub(super) fn open(place: &Place) -> anyhow::Result<Embedded> {
    try_open(place)?.map_err(|error| unopened(place, error))
}

fn unopened(place: &Place, error: nagaya_store::Error) -> anyhow::Error {
    anyhow::Error::new(StoreFailure::from(error)).context(format!("{} cannot be opened", place.data.display()))
}

/// Opens a store that is there: looking after one never makes one.
fn try_open(place: &Place) -> anyhow::Result<Result<Embedded, nagaya_store::Error>> {
    if !is_store(&place.data)? {
        // A directory may hold several, for example copies.
        let inside = fs::read_dir(&place.data).into_iter().flatten().flatten().map(|entry| entry.path());
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
        bail!("{} is not the directory of a store; {there}", place.data.display());
    }
    // Nothing goes away while somebody looks.
    let options = Options { sweep_every: None, ..Options::default() };
    Ok(Embedded::open(&place.data, options))
}

/// Whether a directory is one of the embedded store.
pub(crate) fn is_store(directory: &Path) -> anyhow::Result<bool> {
    match fs::metadata(directory.join("data")) {
        Ok(found) => Ok(found.is_dir()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Err(error).with_context(|| format!("this user cannot look into {}", directory.display()))
        }
        Err(_) => Ok(false),
    }
}

/// Reads a small file.
pub(super) fn read_small(path: &Path) -> anyhow::Result<Vec<u8>> {
    /// No key or passphrase is longer.
    const LONGEST: u64 = 1024 * 1024;
    let unreadable = || format!("{} cannot be read", path.display());
    let mut bytes = Vec::new();
    let file = fs::File::open(path).with_context(unreadable)?;
    // A device has no length, and no end.
    file.take(LONGEST + 1).read_to_end(&mut bytes).with_context(unreadable)?;
    if bytes.len() as u64 > LONGEST {
        bail!("{} is too long for a key or a passphrase", path.display());
    }
    Ok(bytes)
}
