//! The keys of cursors, of logs and of the operator log: what `nagaya serve` would use.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use nagaya_server::System;
use nagaya_store::{ErrorKind as StoreErrorKind, Store};
use nagaya_tenancy::{ErrorKind, KeySet, Nagaya};

use super::{Check, Finding, encryption::ExaminedStore};
use crate::{
    key_file::{self, KeyKind},
    serve::{self, AUDIT_KEY, CURSOR_KEY, KeySource, StoreKind},
};

/// The key files whose loss is noticed.
pub(super) const REMEMBERED: [&str; 2] = [KeyKind::Cursor.file_name(), KeyKind::Audit.file_name()];

/// Checks the keys, also against the store.
pub(super) async fn examine(args: &serve::Args, systems: &[System], store: ExaminedStore, findings: &mut Vec<Finding>) {
    if args.store.kind == StoreKind::Memory {
        return;
    }
    let before = findings.len();
    let (files, are_cursors_shared) = key_files(args, findings);
    findings.extend(files.iter().filter_map(|file| damaged(file)));
    let is_lost = |file: &&PathBuf| !file.exists() && store.remembered.iter().any(|name| file.ends_with(name));
    findings.extend(files.iter().filter(is_lost).map(|file| lost(args, file)));
    if let (true, Some(store)) = (findings.len() == before, store.store) {
        for system in systems {
            findings.extend(unknown_audit_key(args, system, Arc::clone(&store)).await);
        }
    }
    if findings.len() == before {
        findings.push(sound_keys(args, &files, are_cursors_shared));
    }
}

/// The key files that `nagaya serve` would use, and whether servers can share the keys of cursors.
fn key_files(args: &serve::Args, findings: &mut Vec<Finding>) -> (Vec<PathBuf>, bool) {
    let (mut files, mut are_cursors_shared) = (Vec::new(), false);
    for kind in KeyKind::ALL {
        match args.store.key_source(kind) {
            Ok(KeySource::File(path)) => files.push(path),
            Ok(KeySource::Given(_)) => are_cursors_shared |= kind == KeyKind::Cursor,
            Ok(KeySource::Random) => {}
            Err(error) => {
                let remedy = "`nagaya serve` refuses it: set the variable to a key, or do not set it";
                let finding = Check::Keys.problem(format!("{error:#}"), remedy);
                // One variable may have several uses.
                if !findings.contains(&finding) {
                    findings.push(finding);
                }
            }
        }
    }
    (files, are_cursors_shared)
}

/// A file that the store has had.
fn lost(args: &serve::Args, file: &Path) -> Finding {
    let found = format!("{} is gone, although the store had it", file.display());
    match args.store.directory.makes_new_keys() {
        true => Check::Keys.warning(
            format!("{found}; --new-keys creates another"),
            "tokens and cursors issued earlier are refused then: leave --new-keys out after one start",
        ),
        false => Check::Keys.problem(
            found,
            "`nagaya serve` refuses to start: copy it back or take it from a backup; or start once with --new-keys",
        ),
    }
}

/// Where nothing is wrong with the keys themselves.
fn sound_keys(args: &serve::Args, files: &[PathBuf], are_cursors_shared: bool) -> Finding {
    if args.store.kind.is_in_cloud() {
        return match are_cursors_shared {
            true => Check::Keys.ok("the keys are given, and servers can share them"),
            false => Check::Keys.warning(
                "each server has keys of its own, for cursors or for the operator log",
                format!(
                    "set {CURSOR_KEY} to the same key for all servers, if there are several; that of the operator log is \
                     derived from it unless {AUDIT_KEY} is set"
                ),
            ),
        };
    }
    if !args.store.data.join("data").is_dir() {
        return Check::Keys.ok("keys are given, or created at the first start");
    }
    // New keys of hashes in logs change nothing that is stored.
    match files.iter().find(|file| !file.is_file() && !file.ends_with(KeyKind::Log.file_name())) {
        None => Check::Keys.ok("the keys of cursors and of the operator log are there"),
        Some(file) => Check::Keys.warning(
            format!("{} is not there", file.display()),
            "take it from a backup, unless no server has used the directory yet",
        ),
    }
}

/// The operator log of a system ends with an entry of a key that is not known, which `nagaya serve` refuses.
async fn unknown_audit_key(args: &serve::Args, system: &System, store: Arc<dyn Store>) -> Option<Finding> {
    let mut settings = args.store.settings(&system.name);
    // Without a key, `nagaya serve` makes one, which is as unknown as the random one of the settings.
    match args.store.key_source(KeyKind::Audit).ok()? {
        KeySource::Random => return None,
        KeySource::Given(keys) => settings.audit_keys = KeySet::new(keys),
        KeySource::File(file) => settings.audit_keys = key_file::load(&file).ok()?.unwrap_or(settings.audit_keys),
    }
    let (name, nagaya) = (&system.name, Nagaya::open_with(system.design.clone(), store, settings));
    let error = nagaya.check_audit_key().await.err()?;
    match error.kind() {
        ErrorKind::UnknownAuditKey { key } => {
            let found =
                format!("the operator log of {name} ends with an entry of the key {key}, which is not known here");
            Some(match args.store.directory.makes_new_keys() {
                true => Check::Keys.warning(
                    format!("{found}; --new-keys goes on with another"),
                    "older entries cannot be verified then: leave --new-keys out after one start",
                ),
                false => Check::Keys.problem(
                    found,
                    format!(
                        "no operator can do anything, and a server on a directory does not start: give it the key by {AUDIT_KEY} or \
                         as {}; if the key is lost, start once with --new-keys",
                        KeyKind::Audit.file_name()
                    ),
                ),
            })
        }
        // The tables are created later.
        ErrorKind::Store(error) if matches!(error.kind(), StoreErrorKind::NoTable(_)) => None,
        // The check of the tables says so too.
        _ if args.store.kind.is_in_cloud() => None,
        _ => Some(Check::Keys.problem(
            format!("the operator log of {name} cannot be read: {error}"),
            "`nagaya serve` refuses this: look at `nagaya store verify`",
        )),
    }
}

/// A file that `nagaya serve` cannot use.
fn damaged(file: &Path) -> Option<Finding> {
    let error = key_file::read(file).err()?;
    let remedy = "`nagaya serve` refuses it: take the file from a backup";
    Some(Check::Keys.problem(format!("{error:#}"), remedy))
}
