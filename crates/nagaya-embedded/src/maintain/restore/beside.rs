//! What lies beside a store in its data directory: objects and keys.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
};

use nagaya_store::Error;

use crate::maintain::{
    Progress,
    backup::{Damage, Walk, record::Object},
};

/// A file with keys.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyFile {
    /// Below the data directory, with `/` between the parts.
    pub path: String,
    /// What is in it.
    pub bytes: Vec<u8>,
}

impl std::fmt::Debug for KeyFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the keys.
        write!(f, "KeyFile({})", self.path)
    }
}

/// What a restored directory gets besides its store.
#[derive(Debug, Clone, Copy, Default)]
pub struct ObjectsAndKeys<'b> {
    /// The directory whose objects are copied; `None`: those of the backups, or none.
    pub objects: Option<&'b Path>,
    /// Files with keys, which nobody but their owner will read.
    pub keys: &'b [KeyFile],
}

/// Where objects lie in a data directory.
const OBJECTS: &str = "objects";

/// Writes the files with keys.
pub(super) fn write_keys(directory: &Path, keys: &[KeyFile]) -> Result<(), Error> {
    for key in keys {
        let path = directory.join(&key.path);
        let failed = |error: std::io::Error| Error::engine(format!("{} cannot be written: {error}", path.display()));
        if let Some(folder) = path.parent() {
            private_folder().create(folder).map_err(failed)?;
        }
        let mut file = private_file().open(&path).map_err(failed)?;
        file.write_all(&key.bytes).and_then(|()| file.sync_all()).map_err(failed)?;
    }
    Ok(())
}

fn private_folder() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Writes objects, one after another, as their parts come.
pub(super) struct Objects {
    root: PathBuf,
    open: Option<(File, PathBuf, u64)>,
    pub(super) count: u64,
    pub(super) bytes: u64,
}

impl Objects {
    pub(super) fn below(directory: &Path) -> Self {
        Objects { root: directory.join(OBJECTS), open: None, count: 0, bytes: 0 }
    }

    /// Begins an object, or makes sure that a backup before has brought it.
    pub(super) fn begin(&mut self, object: &Object) -> Result<(), Error> {
        let path = self.root.join(&object.path);
        if !object.here {
            let found = fs::metadata(&path).is_ok_and(|found| found.is_file() && found.len() == object.size);
            let missing = || Damage::chain(format!("no backup has the object {}", object.path));
            return if found { Ok(()) } else { Err(missing()) };
        }
        let failed = |error| unwritten(&path, &error);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let file = File::create(&path).map_err(failed)?;
        self.count += 1;
        self.bytes += object.size;
        self.open = Some((file, path, object.size));
        self.end_if_whole()
    }

    pub(super) fn part(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if let Some((file, path, left)) = &mut self.open {
            file.write_all(bytes).map_err(|error| unwritten(path, &error))?;
            *left = left.saturating_sub(bytes.len() as u64);
        }
        self.end_if_whole()
    }

    fn end_if_whole(&mut self) -> Result<(), Error> {
        match self.open.take_if(|(_, _, left)| *left == 0) {
            Some((file, path, _)) => file.sync_all().map_err(|error| unwritten(&path, &error)),
            None => Ok(()),
        }
    }

    /// Copies all objects of another directory.
    pub(super) fn copy_from(&mut self, other: &Path, progress: Progress<'_>) -> Result<(), Error> {
        for found in Walk::new(other)? {
            let (path, place) = found?;
            let to = self.root.join(&path);
            let failed = |error| unwritten(&to, &error);
            if let Some(folder) = to.parent() {
                fs::create_dir_all(folder).map_err(failed)?;
            }
            self.bytes += fs::copy(&place, &to).map_err(failed)?;
            File::open(&to).and_then(|file| file.sync_all()).map_err(failed)?;
            self.count += 1;
            progress(self.count);
        }
        Ok(())
    }
}

fn unwritten(path: &Path, error: &std::io::Error) -> Error {
    Error::engine(format!("{} cannot be written: {error}", path.display()))
}
