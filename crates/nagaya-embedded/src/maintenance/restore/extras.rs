//! What a data directory contains beside the store: objects and key files.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use nagaya_store::{Error, files::FileCipher as _};

use crate::{
    encryption::{EncryptionKey, FILE_OVERHEAD, Keyring},
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
    /// The key that the restored directory is encrypted with; by default that of the backups or of the store.
    pub encryption_key: Option<&'b EncryptionKey>,
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
    keyring: Arc<Keyring>,
    /// The current object, and the number of missing bytes.
    open: Option<(OpenObject, u64)>,
    pub(super) count: u64,
    pub(super) bytes: u64,
}

/// An object that is being written.
struct OpenObject {
    file: File,
    name: String,
    path: PathBuf,
    /// What will be encrypted as a whole; `None` if the directory is not encrypted.
    content: Option<Vec<u8>>,
}

impl ObjectWriter {
    pub(super) fn new(directory: &Path, keyring: Arc<Keyring>) -> Self {
        ObjectWriter { root: directory.join(OBJECTS), keyring, open: None, count: 0, bytes: 0 }
    }

    /// Begins an object. If its bytes are in an earlier backup, checks that they have been written.
    pub(super) fn start_object(&mut self, object: &Object) -> Result<(), Error> {
        let path = self.root.join(&object.path);
        let is_encrypted = self.keyring.encryption_key().is_some();
        if !object.is_included {
            let length = object.size + if is_encrypted { FILE_OVERHEAD } else { 0 };
            let found = fs::symlink_metadata(&path).is_ok_and(|found| found.is_file() && found.len() == length);
            let missing = || BackupDamage::chain(format!("no backup contains the object {}", object.path));
            return if found { Ok(()) } else { Err(missing()) };
        }
        let file = create_object(&path)?;
        self.count += 1;
        self.bytes += object.size;
        let content = is_encrypted.then(Vec::new);
        self.open = Some((OpenObject { file, name: object.path.clone(), path, content }, object.size));
        self.finish_if_complete()
    }

    pub(super) fn part(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if let Some((object, left)) = &mut self.open {
            match &mut object.content {
                Some(content) => content.extend_from_slice(bytes),
                None => object.file.write_all(bytes).context("write", &object.path)?,
            }
            *left = left.saturating_sub(bytes.len() as u64);
        }
        self.finish_if_complete()
    }

    fn finish_if_complete(&mut self) -> Result<(), Error> {
        let Some((mut object, _)) = self.open.take_if(|(_, left)| *left == 0) else { return Ok(()) };
        if let Some(content) = object.content {
            let sealed = self.keyring.seal(&object.name, content)?;
            object.file.write_all(&sealed).context("write", &object.path)?;
        }
        object.file.sync_all().context("sync", &object.path)
    }

    /// Copies all objects of another directory, which has these keys.
    pub(super) fn copy_from(&mut self, other: &Path, keyring: &Keyring, progress: Progress<'_>) -> Result<(), Error> {
        for found in ObjectWalk::new(other)? {
            let (name, from) = found?;
            let to = self.root.join(&name);
            let content = keyring.open(&name, fs::read(&from).context("read", &from)?)?;
            self.bytes += content.len() as u64;
            let sealed = self.keyring.seal(&name, content)?;
            let mut file = create_object(&to)?;
            file.write_all(&sealed).and_then(|()| file.sync_all()).context("write", &to)?;
            self.count += 1;
            progress(self.count);
        }
        Ok(())
    }
}

fn create_object(path: &Path) -> Result<File, Error> {
    if let Some(folder) = path.parent() {
        private_folder().recursive(true).create(folder).context("create", folder)?;
    }
    private_file().create(true).truncate(true).open(path).context("create", path)
}
