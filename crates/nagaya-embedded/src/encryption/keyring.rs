//! The data keys that a process uses now.

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use nagaya_store::{Error, files::FileCipher};

use super::{
    data_keys::{self, DataKeys},
    key::EncryptionKey,
    state::EncryptionRecord,
};

/// How much longer an encrypted file is than its content.
pub const FILE_OVERHEAD: u64 = data_keys::FILE_OVERHEAD;

/// The keys of a store as they are now; empty if the store is not encrypted. It encrypts and decrypts the files beside the
/// store.
#[derive(Default)]
pub struct Keyring(RwLock<Option<Arc<DataKeys>>>);

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keyring({:?})", self.keys())
    }
}

impl Keyring {
    /// The keys of a store that another process has open, from [`EmbeddedStore::encryption_record`].
    ///
    /// [`EmbeddedStore::encryption_record`]: crate::EmbeddedStore::encryption_record
    pub fn from_record(record: &[u8], key: &EncryptionKey) -> Result<Self, Error> {
        let keys = EncryptionRecord::decode(record)?.unlock(key)?;
        Ok(Keyring(RwLock::new(Some(Arc::new(keys)))))
    }

    pub(crate) fn keys(&self) -> Option<Arc<DataKeys>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Uses these keys from now on.
    pub(crate) fn install(&self, keys: DataKeys) {
        let mut current = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let keys = match &*current {
            Some(former) => former.followed_by(keys),
            None => keys,
        };
        *current = Some(Arc::new(keys));
    }

    /// The encryption key of the store, if it is encrypted.
    pub fn encryption_key(&self) -> Option<EncryptionKey> {
        self.keys().map(|keys| keys.encryption_key.clone())
    }

    /// Whether a file is encrypted with a data key that is not known here.
    pub(crate) fn lacks_key_of(&self, head: &[u8]) -> bool {
        self.keys().is_some_and(|keys| keys.lacks_key_of_file(head))
    }

    /// The length of a file's content, by the length and the first bytes of the stored file.
    pub(crate) fn content_length(&self, stored: u64, head: &[u8]) -> u64 {
        let is_encrypted = self.keys().is_some() && data_keys::is_encrypted_file(head);
        if is_encrypted { stored.saturating_sub(FILE_OVERHEAD) } else { stored }
    }
}

impl FileCipher for Keyring {
    fn seal(&self, name: &str, content: Vec<u8>) -> Result<Vec<u8>, Error> {
        match self.keys() {
            Some(keys) => keys.seal_file(name, &content),
            None => Ok(content),
        }
    }

    fn open(&self, name: &str, stored: Vec<u8>) -> Result<Vec<u8>, Error> {
        match self.keys() {
            Some(keys) => keys.open_file(name, stored),
            None => Ok(stored),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_a_file_tells_whether_its_key_is_known_and_how_long_its_content_is() -> Result<(), Error> {
        let plain = Keyring::default();
        let [own, other] = [Keyring::default(), Keyring::default()];
        let (_, first) = EncryptionRecord::first(&EncryptionKey::parse(&[1; 32]).expect("a key"))?;
        let (_, second) =
            EncryptionRecord::next(Some(&first), &EncryptionKey::parse(&[2; 32]).expect("a key"), Some(0))?;
        own.install(first);
        other.install(second);
        let (old, new) = (own.seal("a", b"text".to_vec())?, other.seal("a", b"text".to_vec())?);
        assert_eq!([&old[..], &new, b"text"].map(|head| own.lacks_key_of(head)), [false, true, false]);
        assert_eq!([&old[..], &new, b"text"].map(|head| other.lacks_key_of(head)), [false; 3]);
        assert_eq!([&old[..], &new, b"text"].map(|head| plain.lacks_key_of(head)), [false; 3]);

        let stored = old.len() as u64;
        assert_eq!((stored, own.content_length(stored, &old)), (4 + FILE_OVERHEAD, 4));
        assert_eq!(own.content_length(4, b"text"), 4, "it is not encrypted");
        assert_eq!(plain.content_length(stored, &old), stored, "a store without keys leaves files as they are");
        Ok(())
    }
}
