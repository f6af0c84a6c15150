//! Files and folders: errors that name the path, private files, durable names, and atomic replacement.

use std::{
    fs::{self, File},
    io,
    path::Path,
};

use nagaya_store::Error;
use nagaya_store::files::temporary_path;
pub(crate) use nagaya_store::files::{
    parent_folder, private_file, private_folder, replace_file as replace, sync_folder,
};

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
        io::Write::write_all(&mut &file, &vec![1; BYTES]).and_then(|()| file.sync_all())?;
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

    #[cfg(unix)]
    #[test]
    fn a_path_that_cannot_be_looked_at_is_an_error_and_a_broken_link_exists() {
        let base = tempfile::tempdir().expect("a directory");
        let path = |name: &str| base.path().join(name);
        fs::write(path("file"), "").expect("a file");
        std::os::unix::fs::symlink(path("missing"), path("link")).expect("a link");
        let found = ["file", "link", "missing"].map(|name| exists(&path(name)).expect("it is known"));
        assert_eq!(found, [true, true, false]);
        let below = path("file/below");
        let unknown = exists(&below).expect_err("a file has no entries").to_string();
        assert_eq!(unknown, format!("cannot access {}: not a directory", below.display()));
    }

    /// The only unit test that looks at the umask, because that belongs to the process.
    #[cfg(unix)]
    #[test]
    fn new_files_are_private_once_that_was_asked_for() {
        use rustix::{fs::Mode, process::umask};
        let before = umask(Mode::WGRP);
        keep_new_files_private();
        assert_eq!(umask(before), Mode::RWXG | Mode::RWXO);
    }

    /// Makes this test binary the process with the full disk.
    #[cfg(unix)]
    const CHILD: &str = "NAGAYA_PROBED_DIRECTORY";

    /// Not a test: the process that the test below starts, with a limit on the size of files.
    #[cfg(unix)]
    #[test]
    fn the_process_that_probes_a_full_disk() {
        let Some(folder) = std::env::var_os(CHILD) else { return };
        let refused = probe(Path::new(&folder)).expect_err("files have to be small");
        assert_eq!(refused.kind(), io::ErrorKind::FileTooLarge);
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_on_a_full_disk_is_not_writable_and_nothing_is_left_in_it() {
        let base = tempfile::tempdir().expect("a directory");
        let left = || fs::read_dir(base.path()).expect("a folder").count();
        probe(base.path()).expect("it is writable");
        assert_eq!(left(), 0);
        probe(&base.path().join("missing")).expect_err("there is no such folder");
        // The limit acts like a full disk.
        let limited = "trap '' XFSZ; ulimit -f 1000; \
            exec \"$0\" --exact files::tests::the_process_that_probes_a_full_disk";
        let this = std::env::current_exe().expect("this test has a path");
        let child = std::process::Command::new("sh").args(["-c", limited]).arg(this).env(CHILD, base.path()).output();
        let output = child.expect("a shell runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        assert_eq!(left(), 0);
    }

    /// The system refuses the path of a folder that is too deep.
    #[cfg(unix)]
    #[test]
    fn a_folder_below_that_cannot_be_synced_is_an_error() {
        use rustix::fs::{Mode, OFlags, mkdirat, open};
        let base = tempfile::tempdir().expect("a directory");
        let mut folder = base.path().to_path_buf();
        while folder.as_os_str().len() < 3_900 {
            folder.push("f".repeat(150));
        }
        fs::create_dir_all(&folder).expect("folders");
        fs::write(base.path().join("file"), "text").expect("a file");
        sync_folders(base.path()).expect("they can be synced");
        let opened = open(&folder, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("a folder");
        mkdirat(&opened, "n".repeat(200), Mode::RWXU).expect("a folder");
        let failed = sync_folders(base.path()).expect_err("one cannot be synced");
        assert_eq!(failed.kind(), io::ErrorKind::InvalidFilename);
    }
}
