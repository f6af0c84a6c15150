//! The check of the key when a store is opened.

use std::path::{Path, PathBuf};

use nagaya_store::{Error, ErrorKind};

use super::{
    key::EncryptionKey,
    state::{ENCRYPTION_KEY, EncryptionRecord, KeyRefused},
};
use crate::{
    layout::Keyspace,
    record::{self, ENCRYPTED_FORMAT, FORMAT_KEY},
    storage::{Op, Storage},
};

/// A directory that does not open with the key that was given, or without one.
#[derive(Debug, thiserror::Error)]
#[error("{} does not open: {why}", .directory.display())]
struct StoreRefusesKey {
    directory: PathBuf,
    why: KeyRefused,
}

/// Whether an error says that a directory needs another key, a key, or none.
pub fn is_key_refused(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Engine(cause) if cause.is::<StoreRefusesKey>())
}

/// Gives a store that has been opened its data keys; refuses it if the key is missing or another one, or if it is not
/// encrypted and a key was given. Returns the record of an encrypted store.
pub(crate) fn unlock(
    storage: &Storage,
    directory: &Path,
    key: Option<&EncryptionKey>,
) -> Result<Option<EncryptionRecord>, Error> {
    let record = EncryptionRecord::read(&storage.view()?)?;
    let refused = |why| Error::engine(StoreRefusesKey { directory: directory.to_path_buf(), why });
    match (record, key) {
        (None, None) => Ok(None),
        (None, Some(key)) => Err(refused(KeyRefused::NotEncrypted(key.id()))),
        (Some(record), None) => Err(refused(KeyRefused::Missing(record.key_id))),
        (Some(record), Some(key)) => {
            record.check_key(key).map_err(refused)?;
            let keys = record.unlock(key)?;
            if let Some(disk) = storage.disk() {
                disk.install_keys(keys);
            }
            Ok(Some(record))
        }
    }
}

/// Encrypts a new store: gives it its first data key, and returns the record of it.
pub(crate) fn initial_record(storage: &Storage, key: Option<&EncryptionKey>) -> Result<Vec<Op>, Error> {
    let (Some(disk), Some(key)) = (storage.disk(), key) else { return Ok(Vec::new()) };
    let (record, keys) = EncryptionRecord::first(key)?;
    disk.install_keys(keys);
    encryption_ops(&record)
}

/// The operations that write the record and the format of an encrypted store.
pub(super) fn encryption_ops(record: &EncryptionRecord) -> Result<Vec<Op>, Error> {
    Ok(vec![
        Op::Put(Keyspace::Meta, ENCRYPTION_KEY.into(), record.encode()?.into()),
        Op::Put(Keyspace::Meta, FORMAT_KEY.into(), record::encode(&ENCRYPTED_FORMAT)?.into()),
    ])
}
