//! A file that gets its name when it is complete, and never replaces another.
//!
//! On a file system without hard links, an empty file has the name for a moment before the complete one replaces it. A crash
//! in that moment leaves the empty file.

use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use nagaya_store::Error;

use crate::{
    bytes::{hex, random_bytes},
    files::{IoContext as _, parent_folder, private_file, sync_folder},
};

/// A file with a temporary name, which is removed unless it is finished.
pub(super) struct UnfinishedFile {
    path: PathBuf,
    temporary: PathBuf,
    finished: bool,
}

impl UnfinishedFile {
    /// Creates a temporary file beside `path`, which only its owner can read.
    pub(super) fn create(path: &Path) -> Result<(Self, File), Error> {
        let name = path.file_name().ok_or_else(|| Error::engine(format!("{} is not a file name", path.display())))?;
        if path.symlink_metadata().is_ok() {
            return Err(already_exists(path));
        }
        let random = hex(&random_bytes::<8>()?);
        let temporary = path.with_file_name(format!(".{}.{random}.unfinished", name.to_string_lossy()));
        let file = private_file().create_new(true).open(&temporary).context("create", path)?;
        Ok((UnfinishedFile { path: path.to_path_buf(), temporary, finished: false }, file))
    }

    /// Syncs the file and gives it its name, unless a file with that name exists.
    pub(super) fn finish(mut self, file: &File) -> Result<(), Error> {
        file.sync_all().context("sync", &self.path)?;
        match self.publish() {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(already_exists(&self.path)),
            published => published.context("create", &self.path)?,
        }
        self.finished = true;
        sync_folder(parent_folder(&self.path)).context("sync", &self.path)
    }

    fn publish(&self) -> io::Result<()> {
        // A hard link never replaces an existing file; a rename would.
        match fs::hard_link(&self.temporary, &self.path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => self.rename_over_empty_file(),
            linked => linked.and_then(|()| fs::remove_file(&self.temporary)),
        }
    }

    /// For a file system without hard links: creates an empty file with the name, then replaces that.
    fn rename_over_empty_file(&self) -> io::Result<()> {
        private_file().create_new(true).open(&self.path)?;
        fs::rename(&self.temporary, &self.path).inspect_err(|_| {
            // The empty file must not look like a backup. If it cannot be removed, the error of the rename says enough.
            let _ = fs::remove_file(&self.path);
        })
    }
}

impl Drop for UnfinishedFile {
    fn drop(&mut self) {
        if !self.finished {
            // If this fails, the leftover file has a unique name and does no harm.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

fn already_exists(path: &Path) -> Error {
    Error::engine(format!("{} already exists, and a backup never replaces a file; choose another name", path.display()))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn without_hard_links_a_file_gets_its_name_and_a_failed_rename_leaves_none() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("backup");
        let (unfinished, mut file) = UnfinishedFile::create(&path).expect("a temporary file");
        file.write_all(b"complete").expect("bytes");
        unfinished.rename_over_empty_file().expect("it is renamed");
        assert_eq!(fs::read(&path).expect("a file"), b"complete");

        // The name is taken: the other file stays.
        let taken = unfinished.rename_over_empty_file().expect_err("it exists");
        assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).expect("a file"), b"complete");

        // The temporary file is gone, so the rename fails.
        fs::remove_file(&path).expect("it is removed");
        unfinished.rename_over_empty_file().expect_err("nothing to rename");
        assert!(!path.exists());
    }
}
