//! The lock of a directory: one process at a time has it open.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use nagaya_store::{Error, ErrorKind, files};

use crate::files::{IoContext as _, private_file, private_folder};

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
        refuse_link(directory)?;
        create_private(directory).context("open", directory)?;
        let path = directory.join("lock");
        let open = private_file().read(true).create(true).truncate(false).open(&path);
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
        if let Err(error) = make_files_private(directory) {
            let directory = directory.display();
            tracing::warn!(%directory, %error, "other users may be able to read the data directory; chmod 700 it");
        }
        Ok(DirectoryLock { _file: file })
    }
}

/// Whoever may change a link chooses the data.
fn refuse_link(directory: &Path) -> Result<(), Error> {
    if !files::link_metadata(directory).is_ok_and(|found| found.is_symlink()) {
        return Ok(());
    }
    let real =
        directory.canonicalize().map_or_else(|_| "that it leads to".to_owned(), |real| real.display().to_string());
    let directory = directory.display();
    Err(Error::engine(format!("{directory} is a link, which is not followed; name the directory {real} itself")))
}

/// Creates a directory that only its owner can enter, because it holds the data of all tenants.
fn create_private(directory: &Path) -> io::Result<()> {
    private_folder().recursive(true).create(directory)
}

/// Takes the permissions of others from the directory and its files. fjall creates its files with the permissions that the
/// umask leaves; nobody else can reach them, because nobody else can enter the directory.
fn make_files_private(directory: &Path) -> io::Result<()> {
    files::restrict(directory, 0o700)?;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        match kind.is_dir() {
            // There may be millions of objects, and nobody else can enter their folder.
            true if entry.file_name() == "objects" => files::restrict(&path, 0o700)?,
            true => files::make_private(&path)?,
            false if kind.is_file() => files::restrict(&path, 0o600)?,
            false => {}
        }
    }
    let data = directory.join("data");
    if data.is_dir() { files::remove_unfinished(&data) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_locked_once_and_the_refusal_names_the_holder() {
        let base = tempfile::tempdir().expect("a directory");
        let lock = DirectoryLock::acquire(base.path()).expect("nobody has it open");
        let refused = DirectoryLock::acquire(base.path()).expect_err("it is locked");
        let own = format!("is in use by process {};", std::process::id());
        assert!(is_in_use(&refused) && refused.to_string().contains(&own), "{refused}");
        // The holder has not written its process id yet.
        fs::write(base.path().join("lock"), "\n").expect("a file");
        let refused = DirectoryLock::acquire(base.path()).expect_err("it is locked");
        assert!(refused.to_string().contains("is in use by another process;"), "{refused}");
        drop(lock);
        drop(DirectoryLock::acquire(base.path()).expect("nobody has it open any more"));

        let file = base.path().join("lock");
        let other = DirectoryLock::acquire(&file).expect_err("it is a file");
        assert!(!is_in_use(&other), "{other}");
    }

    #[cfg(unix)]
    #[test]
    fn the_files_of_a_directory_become_private_but_objects_and_what_a_link_leads_to() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let base = tempfile::tempdir().expect("a directory");
        let path = |name: &str| base.path().join(name);
        for folder in ["store", "store/objects", "store/issuer"] {
            fs::create_dir(path(folder)).expect("a folder");
            fs::set_permissions(path(folder), fs::Permissions::from_mode(0o755)).expect("it is ours");
        }
        for file in ["other", "store/acknowledged", "store/issuer/keys.json", "store/objects/a"] {
            fs::write(path(file), "text").expect("a file");
            fs::set_permissions(path(file), fs::Permissions::from_mode(0o644)).expect("it is ours");
        }
        symlink(path("other"), path("store/link")).expect("a link");
        make_files_private(&path("store")).expect("also before there are data");
        let expected = [
            ("store", 0o700),
            ("store/acknowledged", 0o600),
            ("store/issuer", 0o700),
            ("store/issuer/keys.json", 0o600),
            ("store/objects", 0o700),
            // Millions of objects would take long, and nobody else can enter their folder.
            ("store/objects/a", 0o644),
            ("other", 0o644),
        ];
        for (name, expected) in expected {
            let mode = fs::metadata(path(name)).expect("it exists").permissions().mode() & 0o777;
            assert_eq!(mode, expected, "{name}");
        }
    }

    /// A pipe can be opened and locked, but its length cannot be set.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_directory_whose_holder_cannot_be_written_is_not_locked() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let base = tempfile::tempdir().expect("a directory");
        mknodat(CWD, base.path().join("lock"), FileType::Fifo, Mode::RWXU, 0).expect("a pipe");
        let refused = DirectoryLock::acquire(base.path()).expect_err("it is no file").to_string();
        assert!(refused.starts_with("cannot write "), "{refused}");
    }
}
