//! Files and folders: errors that name the path, private files, durable names, and atomic replacement.

use std::{
    fs::{self, File},
    io,
    path::Path,
};

use nagaya_store::Error;
use nagaya_store::files::temporary_path;
pub(crate) use nagaya_store::files::{private_file, private_folder, replace_file as replace, sync_folder};

/// Adds the path and the failed action to an I/O error.
pub(crate) trait IoContext<T> {
    /// An error such as "cannot open /x/y: permission denied".
    fn context(self, action: &str, path: &Path) -> Result<T, Error>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn context(self, action: &str, path: &Path) -> Result<T, Error> {
        self.map_err(|error| Error::engine(describe_failure(action, path, &error)))
    }
}

/// A text such as "cannot open /x/y: permission denied".
pub(crate) fn describe_failure(action: &str, path: &Path, error: &io::Error) -> String {
    format!("cannot {action} {}: {}", path.display(), describe(error))
}

/// An I/O error in plain words, without the error number of the operating system.
pub(crate) fn describe(error: &io::Error) -> String {
    let text = error.to_string();
    let suffix = error.raw_os_error().map(|code| format!(" (os error {code})"));
    match suffix.and_then(|suffix| text.strip_suffix(&suffix)) {
        Some(plain) => plain.chars().take(1).flat_map(char::to_lowercase).chain(plain.chars().skip(1)).collect(),
        None => text,
    }
}

/// Whether a path exists. A broken link counts: its volume may be unmounted for a while. An unknown state is an error.
pub(crate) fn exists(path: &Path) -> Result<bool, Error> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        found => found.map(|_| true).context("access", path),
    }
}

/// The folder of a path; the current one if the path has only a name.
pub(crate) fn parent_folder(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Takes the permissions of others from all files that this process creates from now on. fjall creates its files with the
/// permissions that the umask leaves; without this call, only their directory keeps others away from them.
pub fn keep_new_files_private() {
    #[cfg(unix)]
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
}

/// Makes the names in a folder and in all folders below it durable.
pub(crate) fn sync_folders(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_folders(&entry.path())?;
        }
    }
    sync_folder(folder)
}

/// Checks that a folder is writable: writes and syncs some bytes, and opens several files at once.
pub(crate) fn probe(folder: &Path) -> io::Result<()> {
    const PROBE_OPEN_FILES: usize = 8;
    const BYTES: usize = 1024 * 1024;
    let path = temporary_path(&folder.join("probe"));
    let probed = (|| {
        let file = private_file().create_new(true).open(&path)?;
        io::Write::write_all(&mut &file, &vec![1; BYTES])?;
        file.sync_all()?;
        (0..PROBE_OPEN_FILES).map(|_| File::open(&path)).collect::<io::Result<Vec<_>>>().map(drop)
    })();
    // If it cannot be removed now, the next start removes it.
    let _ = fs::remove_file(&path);
    probed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_operating_system_is_in_plain_words() {
        assert_eq!(describe(&io::Error::from_raw_os_error(13)), "permission denied");
        assert_eq!(describe(&io::Error::other("No name is free")), "No name is free");
        let failed = Err::<(), _>(io::Error::from_raw_os_error(13)).context("open", Path::new("/x/y"));
        assert_eq!(failed.expect_err("it failed").to_string(), "cannot open /x/y: permission denied");
    }
}
