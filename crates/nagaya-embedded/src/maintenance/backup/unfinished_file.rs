//! A file that gets its name when it is complete, and never replaces another.

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
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                // A file system without hard links: create an empty file with the name, then replace that.
                private_file().create_new(true).open(&self.path)?;
                fs::rename(&self.temporary, &self.path)
            }
            linked => linked.and_then(|()| fs::remove_file(&self.temporary)),
        }
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
