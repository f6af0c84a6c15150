//! The files of the local issuer, readable only by their owner.

use std::{
    fs::{self, File},
    io::{ErrorKind, Write as _},
    path::{Path, PathBuf},
};

use nagaya_store::files::{private_file, private_folder, replace_file, restrict_folder};
use serde_json::{Value as Json, json};

use super::{DEFAULT_URL, State, signer::Signer};
use crate::identity::IssuerError;

/// The directory `issuer` of a data directory: `keys.json`, a JWK set with private keys, `issuer.json`, and the list of revoked
/// tokens.
#[derive(Debug)]
pub(in crate::identity) struct Files(PathBuf);

impl Files {
    /// Creates the directory if it does not exist.
    pub(in crate::identity) fn at(data: &Path) -> Result<Self, IssuerError> {
        let path = data.join("issuer");
        // The data directory is private too, if it is created here.
        match private_folder().recursive(true).create(data).and_then(|()| private_folder().create(&path)) {
            Ok(()) => {}
            Err(error) if !path.is_dir() && !path.is_symlink() => {
                return Err(failed(&path, "cannot be created", &error));
            }
            // A restored copy may have other permissions.
            Err(_) => restrict_folder(&path).map_err(|error| match path.is_symlink() {
                true => IssuerError::new(format!(
                    "{} is a link: whoever may change the link chooses the keys; put the directory itself there",
                    path.display()
                )),
                false => failed(&path, "cannot be opened", &error),
            })?,
        }
        Ok(Files(path))
    }

    /// Locks the directory against other writers until the lock is dropped.
    pub(in crate::identity) fn lock(&self) -> Result<File, IssuerError> {
        let path = self.0.join("lock");
        let lock = private_file()
            .read(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .and_then(|file| file.lock().map(|()| file));
        lock.map_err(|error| failed(&path, "cannot be locked", &error))
    }

    /// Reads the state; `None` before the first key.
    pub(super) fn read(&self) -> Result<Option<State>, IssuerError> {
        let Some((path, keys)) = self.json("keys.json")? else { return Ok(None) };
        let signers =
            keys.get("keys").and_then(Json::as_array).and_then(|keys| keys.iter().map(Signer::read).collect());
        let signers: Vec<Signer> = signers.unwrap_or_default();
        if signers.is_empty() {
            return Err(damaged(&path, "it is not a set of private keys", LOST_KEYS));
        }
        let urls = match self.json("issuer.json")? {
            None => vec![DEFAULT_URL.to_owned()],
            Some((path, issuer)) => match serde_json::from_value(issuer["urls"].clone()) {
                Ok(urls) => urls,
                Err(_) => return Err(damaged(&path, "it has no list `urls`", LOST_URLS)),
            },
        };
        Ok(Some(State { signers, urls }))
    }

    /// Replaces the state. The lock has to be held.
    pub(super) fn write(&self, state: &State) -> Result<(), IssuerError> {
        let keys: Vec<_> = state.signers.iter().map(Signer::private).collect();
        // The keys come last: `read` treats a directory without keys as empty.
        self.replace("issuer.json", &json!({ "urls": state.urls }))?;
        self.replace("keys.json", &json!({ "keys": keys }))
    }

    /// The content of a file; `None` if it does not exist.
    pub(in crate::identity) fn json(&self, name: &str) -> Result<Option<(PathBuf, Json)>, IssuerError> {
        let path = self.0.join(name);
        match fs::read(&path) {
            Ok(bytes) => match serde_json::from_slice(&bytes) {
                Ok(json) => Ok(Some((path, json))),
                Err(error) => {
                    let removal = match name {
                        "keys.json" => LOST_KEYS,
                        "issuer.json" => LOST_URLS,
                        _ => LOST_REVOCATIONS,
                    };
                    Err(damaged(&path, &error.to_string(), removal))
                }
            },
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(&path, "cannot be read", &error)),
        }
    }

    /// Writes a new file and renames it: readers see either the old content or the new one.
    pub(in crate::identity) fn replace(&self, name: &str, json: &Json) -> Result<(), IssuerError> {
        let path = self.0.join(name);
        let written = replace_file(&path, |file| file.write_all(format!("{json:#}\n").as_bytes()));
        written.map_err(|error| failed(&path, "cannot be written", &error))
    }
}

fn failed(path: &Path, what: &str, error: &std::io::Error) -> IssuerError {
    IssuerError::new(format!("{} {what}: {error}", path.display()))
}

/// What removing a damaged file means.
const LOST_KEYS: &str = "to start with a new key; tokens of the old key are refused then";
const LOST_URLS: &str = "to start without it; tokens that name an earlier URL of the server are refused then";
pub(in crate::identity) const LOST_REVOCATIONS: &str = "to start without it; revoked tokens are accepted again then";

pub(in crate::identity) fn damaged(path: &Path, why: &str, removal: &str) -> IssuerError {
    IssuerError::new(format!("{} is damaged: {why}; restore it, or remove it {removal}", path.display()))
}
