//! The target directory of a restore: only one restore fills it, and it cannot be opened until it is complete.

use std::{
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use nagaya_store::Error;

use crate::{
    bytes::{hex, random_bytes},
    files::{IoContext as _, parent_folder, private_file, private_folder, sync_folder, sync_folders},
    lock::DirectoryLock,
};

/// The marker file of a directory that is being restored into: created first and removed last.
const MARKER: &str = "data.restoring";

/// A restore into the directory has not finished.
#[derive(Debug, thiserror::Error)]
#[error(
    "a restore into {} has not finished, so it is not a complete store: if no restore is running, it was interrupted; remove \
     the directory and restore again",
    .0.display()
)]
pub(crate) struct UnfinishedRestore(pub(crate) PathBuf);

/// Refuses a directory in which a restore has not finished: it is neither opened nor changed.
pub(crate) fn refuse_unfinished_restore(directory: &Path) -> Result<(), Error> {
    match directory.join(MARKER).symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        _ => Err(Error::engine(UnfinishedRestore(directory.to_path_buf()))),
    }
}

/// Creates a directory with the marker in it; returns whether it did not exist. The directory never exists without the
/// marker: it could be taken for the empty directory of a new store.
fn create_marked(directory: &Path) -> Result<bool, Error> {
    if directory.symlink_metadata().is_ok() {
        return Ok(false);
    }
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let temporary = parent_folder(directory).join(format!(".{name}.{}", hex(&random_bytes::<8>()?)));
    private_folder().create(&temporary).context("create", directory)?;
    let created =
        private_file().create_new(true).open(temporary.join(MARKER)).and_then(|marker| marker.sync_all()).and_then(
            |()| {
                sync_folder(&temporary)?;
                match fs::rename(&temporary, directory) {
                    Ok(()) => Ok(true),
                    // Another process has created it meanwhile.
                    Err(_) if directory.symlink_metadata().is_ok() => Ok(false),
                    Err(error) => Err(error),
                }
            },
        );
    if !matches!(created, Ok(true)) {
        // If this fails, the rest has a unique name and does no harm.
        let _ = fs::remove_dir_all(&temporary);
    }
    created.context("create", directory)
}

/// A directory that only this restore fills.
pub(super) struct RestoreTarget {
    directory: PathBuf,
    /// Whether the directory did not exist before.
    created: bool,
    _lock: DirectoryLock,
}

impl RestoreTarget {
    /// Claims a directory that does not exist yet, or is empty.
    pub(super) fn claim(directory: &Path) -> Result<Self, Error> {
        // Without a trailing `.`, to which a directory cannot be renamed.
        let directory = &directory.components().collect::<PathBuf>();
        let parent = parent_folder(directory);
        fs::create_dir_all(parent).context("create", parent)?;
        let not_empty = || {
            let directory = directory.display();
            Error::engine(format!("{directory} already exists and is not empty; restore into a new directory"))
        };
        let is_empty =
            || -> io::Result<bool> { Ok(fs::read_dir(directory)?.flatten().all(|entry| entry.file_name() == MARKER)) };
        let created = create_marked(directory)?;
        let marker = directory.join(MARKER);
        if !created {
            // Before it is marked: if this process is killed, an existing store must not look like an unfinished
            // restore.
            refuse_unfinished_restore(directory)?;
            if !is_empty().context("read", directory)? {
                return Err(not_empty());
            }
            // Of two concurrent restores one creates the marker, and the other changes nothing.
            match private_file().create_new(true).open(&marker) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    return Err(Error::engine(UnfinishedRestore(directory.to_path_buf())));
                }
                opened => opened.map(drop).context("create", &marker)?,
            }
        }
        let marked = || -> io::Result<bool> {
            fs::File::open(&marker)?.sync_all()?;
            sync_folder(directory)?;
            is_empty()
        };
        let claimed = match marked().context("create", &marker) {
            Ok(true) => DirectoryLock::acquire(directory),
            Ok(false) => Err(not_empty()),
            Err(error) => Err(error),
        };
        match claimed {
            Ok(lock) => Ok(RestoreTarget { directory: directory.to_path_buf(), created, _lock: lock }),
            Err(error) => {
                // Only the marker belongs to this restore, and the directory as long as it is empty.
                let _ = fs::remove_file(&marker);
                if created {
                    let _ = fs::remove_dir(directory);
                }
                Err(error)
            }
        }
    }

    /// Syncs everything, and makes the directory a store by removing the marker.
    pub(super) fn finish(self) -> Result<(), Error> {
        let finish = || {
            sync_folders(&self.directory)?;
            fs::remove_file(self.directory.join(MARKER))?;
            sync_folder(&self.directory)?;
            sync_folder(parent_folder(&self.directory))
        };
        finish().context("sync", &self.directory)
    }

    /// Removes the restored content. The marker is removed last: if this fails, the rest is refused as an unfinished
    /// restore.
    pub(super) fn discard(self) {
        let remove = || -> io::Result<()> {
            for entry in fs::read_dir(&self.directory)? {
                let path = entry?.path();
                match path.is_dir() {
                    _ if path.ends_with(MARKER) || path.ends_with("lock") => {}
                    true => fs::remove_dir_all(path)?,
                    false => fs::remove_file(path)?,
                }
            }
            fs::remove_file(self.directory.join("lock"))?;
            fs::remove_file(self.directory.join(MARKER))?;
            if self.created { fs::remove_dir(&self.directory) } else { Ok(()) }
        };
        // The error of the restore matters more than this one.
        let _ = remove();
    }
}
