//! `nagaya store encrypt` and `rotate-key`: the first key of a store, and another one.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context as _, bail};
use nagaya_embedded::{EmbeddedStore, EncryptionKey, Options};
use serde_json::{Value as Json, json};

use super::{
    access::{Access, DirectoryArgs, access},
    failure::StoreFailure,
    show,
};
use crate::{Outcome, encryption::key_from, hex::hex, output::print, progress::with_progress};

/// How often the progress is read.
const POLL: Duration = Duration::from_millis(50);

/// Encrypt a store that is not encrypted yet
///
/// Works while a server has the directory open, and writes go on. From then on the store does not open without the key. If the
/// command is interrupted, the work continues when the store is opened with the key.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  (umask 077 && head -c 32 /dev/urandom > store.key)\n  nagaya store encrypt --encryption-key-file \
                  store.key\n\nKeep a copy of the key elsewhere: without it nobody can read the store. Earlier backups and the folder \
                  `torn` are not encrypted, and a disk may keep deleted blocks."
)]
pub(super) struct EncryptArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
}

/// Encrypt a store with another key
///
/// Works while a server has the directory open, and writes go on. The new key takes effect at once: the next start needs it, and
/// no longer the former one. Then everything that is stored is encrypted again. If the command is interrupted, that continues
/// when the store is opened with the new key.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  nagaya store rotate-key --encryption-key-file store.key --new-key-file store-2.key\n\nBackups keep the key \
                  that they were written with: keep the former key as long as they are needed."
)]
pub(super) struct RotateKeyArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    /// File with the new key: 32 bytes, or 64 hexadecimal digits
    #[arg(long, value_name = "FILE", conflicts_with = "new_key_command", required_unless_present = "new_key_command")]
    new_key_file: Option<PathBuf>,
    /// Command that prints the new key
    #[arg(long, value_name = "COMMAND")]
    new_key_command: Option<String>,
}

pub(super) fn encrypt(args: &EncryptArgs) -> anyhow::Result<Outcome> {
    let key = args.directory.encryption.required_key()?;
    // It opens without a key, unless the key has taken effect already: the command may be repeated, or was interrupted.
    let plain = DirectoryArgs { encryption: Default::default(), ..args.directory.clone() };
    let access = access(&plain).or_else(|refused| access(&args.directory).map_err(|_| refused))?;
    if is_finished(&access.encryption(&args.directory), &key) {
        eprintln!("the store is encrypted with this key already");
    }
    finish(&args.directory, access, key, None)
}

/// Whether a store is encrypted with a key, and nothing is left from before.
fn is_finished(state: &Json, key: &EncryptionKey) -> bool {
    state["keyId"] == key.id() && state["progress"].is_null()
}

pub(super) fn rotate_key(args: &RotateKeyArgs) -> anyhow::Result<Outcome> {
    let new = key_from(args.new_key_file.as_deref(), args.new_key_command.as_deref())?;
    let new = new.context("give the new key with --new-key-file FILE or --new-key-command COMMAND")?;
    let former = args.directory.encryption.required_key()?;
    let access = access(&args.directory)?;
    finish(&args.directory, access, new, Some(former.id()))
}

/// Changes the key, and waits until everything is encrypted with it.
fn finish(
    directory: &DirectoryArgs,
    access: Access,
    key: EncryptionKey,
    expected: Option<String>,
) -> anyhow::Result<Outcome> {
    let id = key.id();
    let is_own = matches!(access, Access::Own(_));
    let state = with_progress("values", |progress| match access {
        Access::Own(store) => {
            let state = change_key(&store, key.clone(), expected.as_deref(), progress)?;
            drop(store);
            // The next start removes from the journals what was there before: this is one.
            let options = Options { sweep_interval: None, encryption_key: Some(key), ..Options::default() };
            EmbeddedStore::open(&directory.data, options).map_err(StoreFailure::from)?;
            Ok(state)
        }
        Access::Server(connection) => {
            // The socket belongs to the user of the server, and nobody else can connect to it.
            let digits = hex(key.bytes());
            Ok(connection.ask(&json!({ "do": "change-key", "key": digits, "expected": expected }), progress)?)
        }
    })?;
    let outcome = print(directory.json, &state, &show::encryption_text(&state), true)?;
    match is_own {
        true => eprintln!("the next start needs the key {id}"),
        false => eprintln!(
            "the next start of the server needs the key {id}; until then its journals may contain values as they were before"
        ),
    }
    Ok(outcome)
}

/// Changes the key of a store, and waits until everything is encrypted with it. `expected` is the id of the key that the store
/// should have before; `None`: it should not be encrypted, or with this key already.
pub(crate) fn change_key(
    store: &EmbeddedStore,
    key: EncryptionKey,
    expected: Option<&str>,
    progress: &mut dyn FnMut(u64),
) -> anyhow::Result<Json> {
    let state = store.encryption().map_err(StoreFailure::from)?;
    let found = state.as_ref().map(|state| state.key_id.as_str());
    let is_interrupted = state.as_ref().is_some_and(|state| state.progress.is_some() && state.key_id == key.id());
    if let (None, Some(state), false) = (expected, &state, is_interrupted)
        && state.key_id == key.id()
    {
        return Ok(show::encryption_json(state));
    }
    if !is_interrupted && found != expected {
        match found {
            Some(found) => bail!("the store is encrypted with the key {found}; `nagaya store rotate-key` changes it"),
            None => bail!("the store is not encrypted; `nagaya store encrypt` encrypts it"),
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(store.change_key(key)).map_err(StoreFailure::from)?;
    loop {
        match store.encryption().map_err(StoreFailure::from)? {
            Some(state) if state.progress.is_none() => {
                // Sorted files contain what has been overwritten until they are compacted.
                store.compact().map_err(StoreFailure::from)?;
                return Ok(show::encryption_json(&state));
            }
            state => progress(state.and_then(|state| state.progress).map_or(0, |progress| progress.done)),
        }
        std::thread::sleep(POLL);
    }
}

#[cfg(test)]
mod tests {
    use nagaya_store::files::try_lock_objects_exclusive;

    use super::*;

    #[test]
    fn an_interrupted_encryption_is_not_finished() {
        let base = tempfile::tempdir().expect("a directory");
        let directory = DirectoryArgs { data: base.path().join("data"), json: false, encryption: Default::default() };
        let key = EncryptionKey::parse("1".repeat(64).as_bytes()).expect("a key");
        let other = EncryptionKey::parse("2".repeat(64).as_bytes()).expect("a key");
        let access = Access::Own(Box::new(EmbeddedStore::open(&directory.data, Options::default()).expect("a store")));
        let state = || access.encryption(&directory);
        assert!(!is_finished(&state(), &key), "not encrypted");
        // The encryption waits for whoever deletes objects.
        let objects = directory.data.join("objects");
        std::fs::create_dir_all(&objects).expect("a folder");
        let deletion = try_lock_objects_exclusive(&objects).expect("a lock").expect("nobody else");
        let Access::Own(store) = &access else { unreachable!("this process has it open") };
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(store.change_key(key.clone())).expect("a new key");
        assert!(!is_finished(&state(), &key), "{}", state());
        drop(deletion);
        while !state()["progress"].is_null() {
            std::thread::sleep(POLL);
        }
        assert!(is_finished(&state(), &key) && !is_finished(&state(), &other), "{}", state());
    }
}
