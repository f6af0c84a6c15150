//! The files of the data directory: who can read them, the keys, encryption and space.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use nagaya_embedded::available_bytes;
use nagaya_server::System;

use super::{Check, Finding};
use crate::serve::{self, StoreKind};

/// Files of others that are named.
const NAMED: usize = 3;

pub(super) fn examine(args: &serve::Args, systems: &[System], findings: &mut Vec<Finding>) {
    if args.store.kind == StoreKind::Memory {
        return;
    }
    let data = &args.store.data;
    match fs::symlink_metadata(data) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let found = format!("{} does not exist; it is created for its owner alone", data.display());
            findings.push(Check::Files.ok(found));
        }
        Err(error) => findings.push(Check::Files.problem(
            format!("{} cannot be read: {error}", data.display()),
            "run this as the user that runs the server",
        )),
        Ok(found) if found.is_symlink() => findings.push(Check::Files.warning(
            format!("{} is a link", data.display()),
            "name the directory itself: whoever may change the link chooses the data",
        )),
        Ok(_) => findings.push(private(data)),
    }
    findings.push(keys(args));
    if args.store.kind == StoreKind::Embedded {
        findings.push(encryption(args, systems));
        findings.push(space(args));
    }
}

/// Whether only their owner can use the files.
fn private(data: &Path) -> Finding {
    let mut open = Vec::new();
    match others_can_use(data, &mut open) {
        Err(error) => Check::Files.problem(
            format!("{} cannot be read: {error}", data.display()),
            "run this as the user that runs the server",
        ),
        Ok(()) if open.is_empty() => {
            Check::Files.ok(format!("only their owner can use the files in {}", data.display()))
        }
        Ok(()) => {
            let named: Vec<_> = open.iter().take(NAMED).map(|path| path.display().to_string()).collect();
            let more = if open.len() > NAMED { format!(" and {} more", open.len() - NAMED) } else { String::new() };
            Check::Files.problem(
                format!("others can use {}{more}", named.join(", ")),
                format!("chmod -R go= {}; `nagaya serve` does so at its next start", data.display()),
            )
        }
    }
}

#[cfg(unix)]
fn others_can_use(path: &Path, open: &mut Vec<PathBuf>) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let found = match fs::symlink_metadata(path) {
        // A server that runs removes files.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if found.is_symlink() {
        return Ok(());
    }
    if found.permissions().mode() & 0o077 != 0 {
        open.push(path.to_owned());
    }
    if found.is_dir() {
        for entry in fs::read_dir(path)? {
            others_can_use(&entry?.path(), open)?;
        }
    }
    Ok(())
}

#[cfg(not(unix))]
fn others_can_use(_: &Path, _: &mut Vec<PathBuf>) -> io::Result<()> {
    Ok(())
}

/// The keys that servers share, or that outlive a restart.
fn keys(args: &serve::Args) -> Finding {
    let kinds = [("NAGAYA_CURSOR_KEY", "cursor.key"), ("NAGAYA_AUDIT_KEY", "audit.key")];
    let in_files = kinds.into_iter().filter(|(variable, _)| std::env::var_os(variable).is_none());
    match args.store.kind {
        StoreKind::Dynamodb | StoreKind::Cosmos => {
            let missing: Vec<_> = in_files.map(|(variable, _)| variable).collect();
            if missing.is_empty() {
                return Check::Keys.ok("the keys are given, and servers can share them");
            }
            Check::Keys.warning(
                "each server has keys of its own, for cursors or for the operator log",
                format!("set {} to the same key for all servers, if there are several", missing.join(" and ")),
            )
        }
        StoreKind::Embedded if args.store.data.join("data").is_dir() => {
            let missing: Vec<_> = in_files.map(|(_, file)| args.store.data.join(file)).collect();
            match missing.iter().find(|file| !file.is_file()) {
                None => Check::Keys.ok("the keys of cursors and of the operator log are there"),
                Some(file) => Check::Keys.warning(
                    format!("{} is not there", file.display()),
                    "take it from a backup, unless no server has used the directory yet",
                ),
            }
        }
        _ => Check::Keys.ok("keys are given, or created at the first start"),
    }
}

fn encryption(args: &serve::Args, systems: &[System]) -> Finding {
    let encryption = args.store.directory.encryption();
    let file = encryption.file();
    match encryption.key() {
        Err(error) => Check::Encryption.problem(format!("{error:#}"), "correct --encryption-key-file or -command"),
        Ok(None) => {
            let wants = |system: &&System| system.design.tables.iter().any(|table| table.kms);
            let wanting: Vec<_> = systems.iter().filter(wants).map(|system| system.name.as_str()).collect();
            let remedy = "give --encryption-key-file or --encryption-key-command; see docs/how-to/encrypt-the-store.md";
            match wanting.is_empty() {
                true => Check::Encryption.warning("the store is not encrypted", remedy),
                false => Check::Encryption.problem(
                    format!(
                        "{} want encrypted tables (`encryption = \"kms\"`), and no key is given",
                        wanting.join(", ")
                    ),
                    remedy,
                ),
            }
        }
        Ok(Some(_)) => match file {
            Some(file) if is_inside(file, &args.store.data) => Check::Encryption.problem(
                format!("{} is in the directory that it encrypts", file.display()),
                "keep the key elsewhere: a copy of the directory must not contain it",
            ),
            _ => Check::Encryption.ok("a key is given, and can be used"),
        },
    }
}

fn is_inside(file: &Path, directory: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    real(file).starts_with(real(directory))
}

fn space(args: &serve::Args) -> Finding {
    let (data, least) = (&args.store.data, args.store.directory.min_free_space());
    let place = data.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("."));
    let mib = |bytes: u64| bytes / 1024 / 1024;
    match available_bytes(place) {
        None => Check::Space.unknown("the free space is not known here"),
        Some(free) if free < least => Check::Space.problem(
            format!("{} MiB are free, and writes are refused below {} MiB", mib(free), mib(least)),
            "add space",
        ),
        Some(free) if free < least.saturating_mul(2) => Check::Space.warning(
            format!("{} MiB are free, and writes are refused below {} MiB", mib(free), mib(least)),
            "add space",
        ),
        Some(_) if least == 0 => {
            Check::Space.warning("writes go on until the disk is full", "leave --min-free-space on")
        }
        Some(free) => Check::Space.ok(format!("{} MiB are free", mib(free))),
    }
}
