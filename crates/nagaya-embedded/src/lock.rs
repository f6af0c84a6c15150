//! The lock of a directory: one process at a time has it open.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use nagaya_store::{Error, ErrorKind};

use crate::files::{IoContext as _, private_folder};

/// Locks the directory until it is dropped.
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    _file: File,
}

/// Another process has the directory open.
#[derive(Debug, thiserror::Error)]
#[error("{} is in use by {holder}; stop it first, or use another directory", directory.display())]
struct DirectoryInUse {
    directory: PathBuf,
    /// What the lock file says, such as `process 123`.
    holder: String,
}

/// Whether an error says that another process has the directory open.
pub fn is_in_use(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Engine(cause) if cause.is::<DirectoryInUse>())
}

impl DirectoryLock {
    /// Locks a directory, and creates it if it does not exist.
    pub(crate) fn acquire(directory: &Path) -> Result<Self, Error> {
        create_private(directory).context("open", directory)?;
        let path = directory.join("lock");
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = open.context("open", &path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // The holder may be writing its process id right now; the refusal matters, not the id.
                let _ = file.read_to_string(&mut holder);
                let holder = Some(holder.trim()).filter(|holder| !holder.is_empty()).unwrap_or("another process");
                let (directory, holder) = (directory.to_path_buf(), holder.to_owned());
                return Err(Error::engine(DirectoryInUse { directory, holder }));
            }
            Err(TryLockError::Error(error)) => return Err(error).context("lock", &path),
        }
        let named = file.set_len(0).and_then(|()| writeln!(file, "process {}", std::process::id()));
        named.context("write", &path)?;
        Ok(DirectoryLock { _file: file })
    }
}

/// Creates a directory that only its owner can enter, because it holds the data of all tenants. Warns if an existing
/// one is open to others.
fn create_private(directory: &Path) -> io::Result<()> {
    private_folder().recursive(true).create(directory)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(directory)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            let directory = directory.display();
            tracing::warn!(%directory, mode = format!("{mode:o}"), "other users can enter the data directory; chmod 700 it");
        }
    }
    Ok(())
}
