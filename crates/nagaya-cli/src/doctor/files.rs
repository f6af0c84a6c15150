//! The files of the data directory: who can read them, and space.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use nagaya_embedded::available_bytes;
use nagaya_store::files;

use super::{Check, Finding, State, owner};
use crate::serve::{self, StoreKind};

/// Files of others that are named.
const NAMED: usize = 3;

pub(super) fn examine(args: &serve::Args, findings: &mut Vec<Finding>) {
    if args.store.kind == StoreKind::Memory {
        return;
    }
    let data = &args.store.data;
    match files::link_metadata(data) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            findings.push(not_there(data));
        }
        Err(error) => findings.push(unreadable(data, &error)),
        Ok(found) if found.is_symlink() => {
            findings.push(Check::Files.problem(
                format!("{} is a link", data.display()),
                "`nagaya serve` refuses it: name the directory itself, because whoever may change the link chooses the data",
            ));
            match data.canonicalize() {
                Ok(real) => findings.extend(Some(directory(&real)).filter(|found| found.state != State::Ok)),
                Err(error) => findings.push(unreadable(data, &error)),
            }
        }
        Ok(_) => findings.push(directory(data)),
    }
    if args.store.kind == StoreKind::Embedded {
        findings.push(space(args));
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Finding {
    Check::Files
        .problem(format!("{} cannot be read: {error}", path.display()), "run this as the user that runs the server")
}

/// A directory that the server has to create.
fn not_there(data: &Path) -> Finding {
    let absolute = std::path::absolute(data).unwrap_or_else(|_| data.to_owned());
    let parent = absolute.ancestors().skip(1).find(|path| path.exists()).unwrap_or(Path::new("/"));
    let why = match () {
        () if !parent.is_dir() => "is a file",
        () if !owner::can_write(parent) => "cannot be written by this user",
        () => {
            return Check::Files.ok(format!("{} does not exist; it is created for its owner alone", data.display()));
        }
    };
    Check::Files.problem(
        format!("{} does not exist and cannot be created: {} {why}", data.display(), parent.display()),
        "create it for the user that runs the server, or name another directory with --data",
    )
}

/// Whether only their owner can use the files of a directory, and is who runs this.
fn directory(data: &Path) -> Finding {
    if !data.is_dir() {
        let found = format!("{} is a file, not a directory", data.display());
        return Check::Files.problem(found, "name the directory of the store with --data");
    }
    if fs::metadata(data).is_ok_and(|found| owner::is_other(&found)) {
        return owned_by_another(&[data.to_owned()]);
    }
    let mut found = UnsafeFiles::default();
    match add_unsafe_files(data, &mut found) {
        Err(error) => unreadable(data, &error),
        Ok(()) if !found.foreign.is_empty() => owned_by_another(&found.foreign),
        Ok(()) if !owner::can_write(data) => Check::Files.problem(
            format!("{} cannot be written by this user", data.display()),
            format!("chmod u+rwx {}", data.display()),
        ),
        Ok(()) if found.open.is_empty() => {
            Check::Files.ok(format!("only their owner can use the files in {}", data.display()))
        }
        Ok(()) => Check::Files.problem(
            format!("others can use {}", named(&found.open)),
            format!("chmod -R go= {}; `nagaya serve` does so at its next start", data.display()),
        ),
    }
}

fn owned_by_another(paths: &[PathBuf]) -> Finding {
    Check::Files.problem(
        format!("another user owns {}", named(paths)),
        "run this as the user that runs the server, or chown the files to that user",
    )
}

/// The first of some paths, and how many more there are.
fn named(paths: &[PathBuf]) -> String {
    let shown: Vec<_> = paths.iter().take(NAMED).map(|path| path.display().to_string()).collect();
    let more = if paths.len() > NAMED { format!(" and {} more", paths.len() - NAMED) } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

/// Files that are not their owner's alone.
#[derive(Debug, Default)]
struct UnsafeFiles {
    /// Those that others can use.
    open: Vec<PathBuf>,
    /// Those that another user owns.
    foreign: Vec<PathBuf>,
}

fn add_unsafe_files(path: &Path, found: &mut UnsafeFiles) -> io::Result<()> {
    let metadata = match fs::symlink_metadata(path) {
        // A server that runs removes files.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        metadata => metadata?,
    };
    if metadata.is_symlink() {
        return Ok(());
    }
    if owner::others_can_use(&metadata) {
        found.open.push(path.to_owned());
    }
    if owner::is_other(&metadata) {
        found.foreign.push(path.to_owned());
    }
    if metadata.is_dir() {
        for entry in fs::read_dir(path)? {
            add_unsafe_files(&entry?.path(), found)?;
        }
    }
    Ok(())
}

/// What is wrong with the permissions of a secret key outside the data directory. The administrator may own it.
pub(super) fn key_file(check: Check, file: &Path) -> Option<Finding> {
    // A file that cannot be read is reported by what reads it.
    let metadata = fs::metadata(file).ok()?;
    if owner::is_other(&metadata) && !owner::is_of_administrator(&metadata) {
        return Some(check.problem(
            format!("another user owns {}", file.display()),
            "run this as the user that runs the server, or chown the file to that user",
        ));
    }
    let found = format!("others can use {}", file.display());
    owner::others_can_use(&metadata).then(|| check.warning(found, format!("chmod 600 {}", file.display())))
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
