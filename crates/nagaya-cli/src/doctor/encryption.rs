//! The embedded store: whether it opens, and whether the key that is given is the one that it wants.

use std::{path::Path, sync::Arc};

use nagaya_embedded::{EmbeddedStore, EncryptionKey, Keyring, Options, is_in_use, is_key_refused, is_older_format};
use nagaya_server::System;
use nagaya_store::Store;
use serde_json::json;

use super::{Check, Finding, files, keys};
use crate::{
    control::{self, Connection, ServerStore},
    hex::unhex,
    serve,
    store::is_store,
};

/// What to do about a key that does not fit.
const REMEDY: &str = "`nagaya serve` refuses this: correct --encryption-key-file or --encryption-key-command, and see \
                      docs/how-to/encrypt-the-store.md";

/// What was found out about the store, for the other checks.
#[derive(Default)]
pub(super) struct ExaminedStore {
    is_encrypted: bool,
    /// The key files that it has had.
    pub(super) remembered: Vec<&'static str>,
    /// The store, to read from it; `None` if it could not be opened, or if there is none yet.
    pub(super) store: Option<Arc<dyn Store>>,
}

/// Checks the key against the store; what the store says. `is_safe_to_open`: opening the store would not hide what the checks
/// of files have found.
pub(super) fn examine(
    args: &serve::Args,
    systems: &[System],
    is_safe_to_open: bool,
    findings: &mut Vec<Finding>,
) -> ExaminedStore {
    let encryption = args.store.directory.encryption();
    let key = match encryption.key() {
        Ok(key) => key,
        Err(error) => {
            findings.push(Check::Encryption.problem(format!("{error:#}"), REMEDY));
            return ExaminedStore::default();
        }
    };
    findings.extend(encryption.file().and_then(|file| files::key_file(Check::Encryption, file)));
    let examined = match examine_store(&args.store.data, key.as_ref(), is_safe_to_open) {
        Ok((examined, how)) => {
            findings.push(Check::Store.ok(how));
            examined
        }
        Err(finding) => {
            if finding.check == Check::Store {
                findings.push(Check::Encryption.unknown("whether the key fits: the store was not opened"));
            }
            findings.push(finding);
            return ExaminedStore::default();
        }
    };
    findings.push(match (&key, encryption.file()) {
        (None, _) => without_key(systems),
        (Some(_), Some(file)) if is_inside(file, &args.store.data) => Check::Encryption.problem(
            format!("{} is in the directory that it encrypts", file.display()),
            "keep the key elsewhere: a copy of the directory must not contain it",
        ),
        (Some(_), _) if examined.is_encrypted => Check::Encryption.ok("the store is encrypted, and the key fits"),
        (Some(_), _) => Check::Encryption.ok("a key is given; a new store is encrypted with it"),
    });
    examined
}

fn without_key(systems: &[System]) -> Finding {
    let wants = |system: &&System| system.design.tables.iter().any(|table| table.kms);
    let wanting: Vec<_> = systems.iter().filter(wants).map(|system| system.name.as_str()).collect();
    let remedy = "give --encryption-key-file or --encryption-key-command; see docs/how-to/encrypt-the-store.md";
    match wanting.is_empty() {
        true => Check::Encryption.warning("the store is not encrypted", remedy),
        false => Check::Encryption.problem(
            format!("{} want encrypted tables (`encryption = \"kms\"`), and no key is given", wanting.join(", ")),
            remedy,
        ),
    }
}

/// Opens the store, or asks the server that has it open; also how it was reached. Changes nothing: an older format stays what it
/// is.
fn examine_store(
    data: &Path,
    key: Option<&EncryptionKey>,
    is_safe_to_open: bool,
) -> Result<(ExaminedStore, &'static str), Finding> {
    match is_store(data) {
        Ok(true) => {}
        Ok(false) => return Ok((ExaminedStore::default(), "there is none yet; `nagaya serve` creates it")),
        Err(error) => return Err(Check::Store.unknown(format!("{error:#}"))),
    }
    if let Ok(server) = Connection::open(data) {
        return ask_server(server, data, key).map(|examined| (examined, "a server has it open, and answers"));
    }
    if !is_safe_to_open {
        return Err(Check::Store.unknown("correct the files first; it is opened only then"));
    }
    let options = Options { sweep_interval: None, encryption_key: key.cloned(), upgrade: false, ..Options::default() };
    let store = EmbeddedStore::open(data, options).map_err(|error| match () {
        () if is_in_use(&error) => Check::Store.unknown(error.to_string()),
        () if is_older_format(&error) => Check::Store.warning(
            format!("it was not examined: {error}"),
            "back it up before `nagaya serve` of this version starts there, and then run this again",
        ),
        () if is_key_refused(&error) => Check::Encryption.problem(format!("the store cannot be opened: {error}"), REMEDY),
        () => Check::Store.problem(
            format!("it cannot be opened: {error}"),
            "`nagaya serve` does not start: see docs/how-to/back-up-and-restore.md, and copy the directory before you try anything",
        ),
    })?;
    // What cannot be read is not known to be lost.
    let had = |name: &&str| store.remembers_file(name).unwrap_or(false);
    let remembered = keys::REMEMBERED.into_iter().filter(had).collect();
    let is_encrypted = store.keyring().encryption_key().is_some();
    Ok((ExaminedStore { is_encrypted, remembered, store: Some(Arc::new(store)) }, "it opens"))
}

fn ask_server(server: Connection, data: &Path, key: Option<&EncryptionKey>) -> Result<ExaminedStore, Finding> {
    let answer = server.ask(&json!({ "do": "encryption" }), &mut |_| {});
    let record = match &answer {
        Ok(answer) => answer["record"].as_str().and_then(unhex),
        Err(error) => return Err(Check::Encryption.unknown(format!("whether the key fits the store: {error:#}"))),
    };
    let refused = |why: String| Err(Check::Encryption.problem(why, REMEDY));
    let is_encrypted = match (record, key) {
        (None, None) => false,
        (None, Some(_)) => {
            return refused("a key is given, and the store that a server has open is not encrypted".into());
        }
        (Some(_), None) => return refused("the store that a server has open is encrypted, and no key is given".into()),
        (Some(record), Some(key)) => match Keyring::from_record(&record, key) {
            Ok(_) => true,
            Err(error) => return refused(format!("the key does not fit the store that a server has open: {error}")),
        },
    };
    // What a server cannot say is not known to be lost.
    let remembered = control::remembered_files(data, &keys::REMEMBERED).unwrap_or_default();
    let store = ServerStore::connect(data).ok().map(|store| Arc::new(store) as Arc<dyn Store>);
    Ok(ExaminedStore { is_encrypted, remembered, store })
}

fn is_inside(file: &Path, directory: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    real(file).starts_with(real(directory))
}
