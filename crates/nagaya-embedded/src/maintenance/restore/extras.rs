//! What a data directory contains beside the store: objects and key files.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
};

use nagaya_store::Error;

use crate::{
    files::{IoContext as _, private_file, private_folder},
    maintenance::{
        Progress,
        backup::{BackupDamage, ObjectWalk, record::Object},
    },
};

/// A file with keys.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyFile {
    /// Its path below the data directory, with `/` as the separator.
    pub path: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

impl std::fmt::Debug for KeyFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the keys.
        write!(f, "KeyFile({})", self.path)
    }
}

/// What a restored directory gets in addition to its store.
#[derive(Debug, Clone, Copy, Default)]
pub struct RestoreExtras<'b> {
    /// The directory whose objects are copied; `None` for the objects of the backups.
    pub objects: Option<&'b Path>,
    /// Key files, which only their owner can read.
    pub keys: &'b [KeyFile],
}

/// The folder of the objects in a data directory.
const OBJECTS: &str = "objects";

/// Writes key files.
pub(super) fn write_keys(directory: &Path, keys: &[KeyFile]) -> Result<(), Error> {
    for key in keys {
        let path = directory.join(&key.path);
        if let Some(folder) = path.parent() {
            private_folder().recursive(true).create(folder).context("create", folder)?;
        }
        let mut file = private_file().create_new(true).open(&path).context("create", &path)?;
        file.write_all(&key.bytes).and_then(|()| file.sync_all()).context("write", &path)?;
    }
    Ok(())
}

/// Writes the objects of a directory, one after another and part by part.
pub(super) struct ObjectWriter {
    root: PathBuf,
    /// The current object: its file, its path, and the number of missing bytes.
    open: Option<(File, PathBuf, u64)>,
    pub(super) count: u64,
    pub(super) bytes: u64,
}

impl ObjectWriter {
    pub(super) fn new(directory: &Path) -> Self {
        ObjectWriter { root: directory.join(OBJECTS), open: None, count: 0, bytes: 0 }
    }

    /// Begins an object. If its bytes are in an earlier backup, checks that they have been written.
    pub(super) fn start_object(&mut self, object: &Object) -> Result<(), Error> {
        let path = self.root.join(&object.path);
        if !object.is_included {
            let found = fs::metadata(&path).is_ok_and(|found| found.is_file() && found.len() == object.size);
            let missing = || BackupDamage::chain(format!("no backup contains the object {}", object.path));
            return if found { Ok(()) } else { Err(missing()) };
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).context("create", folder)?;
        }
        let file = File::create(&path).context("create", &path)?;
        self.count += 1;
        self.bytes += object.size;
        self.open = Some((file, path, object.size));
        self.finish_if_complete()
    }

    pub(super) fn part(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if let Some((file, path, left)) = &mut self.open {
            file.write_all(bytes).context("write", path)?;
            *left = left.saturating_sub(bytes.len() as u64);
        }
        self.finish_if_complete()
    }

    fn finish_if_complete(&mut self) -> Result<(), Error> {
        match self.open.take_if(|(_, _, left)| *left == 0) {
            Some((file, path, _)) => file.sync_all().context("sync", &path),
            None => Ok(()),
        }
    }

    /// Copies all objects of another directory.
    pub(super) fn copy_from(&mut self, other: &Path, progress: Progress<'_>) -> Result<(), Error> {
        for found in ObjectWalk::new(other)? {
            let (name, from) = found?;
            let to = self.root.join(&name);
            if let Some(folder) = to.parent() {
                fs::create_dir_all(folder).context("create", folder)?;
            }
            self.bytes += fs::copy(&from, &to).context("write", &to)?;
            File::open(&to).and_then(|file| file.sync_all()).context("sync", &to)?;
            self.count += 1;
            progress(self.count);
        }
        Ok(())
    }
}
