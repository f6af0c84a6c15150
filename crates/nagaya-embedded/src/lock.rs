//! One process at a time: the lock of a directory, and who holds it.

use std::{
    fmt,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use nagaya_store::{Error, ErrorKind};

/// Holds the directory until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// Another process has the directory open.
#[derive(Debug)]
pub(crate) struct Held {
    path: PathBuf,
    holder: String,
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let holder = if self.holder.is_empty() { "another process" } else { &self.holder };
        write!(f, "{} is in use by {holder}; stop it first, or use another directory", self.path.display())
    }
}

impl std::error::Error for Held {}

/// Whether an error says that another process has the directory open.
pub fn is_in_use(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Engine(cause) if cause.is::<Held>())
}

impl Lock {
    pub(crate) fn take(directory: &Path) -> Result<Lock, Error> {
        create_private(directory).map_err(Error::engine)?;
        let path = directory.join("lock");
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = open.map_err(Error::engine)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // Whoever holds it may be writing its name just now; the refusal matters, not the name.
                let _ = file.read_to_string(&mut holder);
                let held = Held { path: directory.to_path_buf(), holder: holder.trim().to_owned() };
                return Err(Error::engine(held));
            }
            Err(TryLockError::Error(error)) => return Err(Error::engine(error)),
        }
        file.set_len(0).map_err(Error::engine)?;
        writeln!(file, "process {}", std::process::id()).map_err(Error::engine)?;
        Ok(Lock { _file: file })
    }
}

/// Makes a directory that only its owner enters, unless it is there: it holds what all tenants have written.
pub(crate) fn create_private(directory: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)?;
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
