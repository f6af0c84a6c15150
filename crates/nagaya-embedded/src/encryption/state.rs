//! What a store records about its encryption.

use std::collections::BTreeMap;

use nagaya_store::Error;
use serde::{Deserialize, Serialize};

use super::{data_keys::DataKeys, key::EncryptionKey};
use crate::{bytes::random_bytes, layout::Keyspace, record, storage::View};

/// The key of the [`EncryptionRecord`] in [`Keyspace::Meta`].
pub(crate) const ENCRYPTION_KEY: &[u8] = b"encryption";

/// The version of the record that this version writes.
const VERSION: u32 = 1;

/// The encryption of a store, as its users see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncryptionState {
    /// The id of the key.
    pub key_id: String,
    /// How far values are encrypted with the newest data key; `None`: all of them are.
    pub progress: Option<EncryptionProgress>,
}

/// How far a new data key has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncryptionProgress {
    /// The number of values and files that have been looked at.
    pub done: u64,
    /// About how many values there are.
    pub total: u64,
}

/// The record of a store that is encrypted.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct EncryptionRecord {
    version: u32,
    /// The id of the encryption key.
    pub(super) key_id: String,
    /// The data keys, encrypted with it. The last one encrypts; the others are for values from before.
    data_keys: Vec<WrappedKey>,
    /// Whether values from before the encryption are left.
    has_plain: bool,
    /// How far values are encrypted with the last data key; `None`: all of them are.
    pub(super) work: Option<ReencryptionWork>,
    /// Whether the journals may contain values of former data keys.
    pub(crate) purges_journals: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct WrappedKey {
    number: u32,
    wrapped: Vec<u8>,
}

/// What is left to be encrypted with the last data key.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ReencryptionWork {
    pub(super) place: Place,
    pub(super) done: u64,
    pub(super) total: u64,
}

/// Where the work continues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Place {
    /// After this key of a keyspace.
    Values { keyspace: u8, after: Option<Vec<u8>> },
    /// At the objects.
    Objects,
}

impl Place {
    pub(super) const START: Place = Place::Values { keyspace: 0, after: None };
}

/// A store that does not open, because of its key.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeyRefused {
    #[error(
        "it is encrypted with the key {0}, and no key was given: give it with --encryption-key-file or \
         --encryption-key-command"
    )]
    Missing(String),
    #[error("it is encrypted with the key {expected}, and the given one is {given}: give the key {expected}")]
    Other { expected: String, given: String },
    #[error(
        "it is not encrypted, and the key {0} was given: encrypt it with `nagaya store encrypt`, or give no \
         --encryption-key-file and no --encryption-key-command"
    )]
    NotEncrypted(String),
}

impl EncryptionRecord {
    /// The record of a store, if it is encrypted.
    pub(crate) fn read(view: &View<'_>) -> Result<Option<Self>, Error> {
        view.get(Keyspace::Meta, ENCRYPTION_KEY)?.map(|bytes| EncryptionRecord::decode(&bytes)).transpose()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        match bytes.first() {
            Some(version) if u32::from(*version) == VERSION => record::decode(bytes),
            _ => Err(Error::engine("the store was encrypted by another version; use that version")),
        }
    }

    pub(crate) fn encode(&self) -> Result<Vec<u8>, Error> {
        record::encode(self)
    }

    /// The first record of a new store.
    pub(super) fn first(encryption_key: &EncryptionKey) -> Result<(Self, DataKeys), Error> {
        EncryptionRecord::next(None, encryption_key, None)
    }

    /// The record after a change of the encryption key, with a new data key. `work`: about how many values there are.
    pub(super) fn next(
        former: Option<&DataKeys>,
        encryption_key: &EncryptionKey,
        work: Option<u64>,
    ) -> Result<(Self, DataKeys), Error> {
        let mut keys = former.map_or_else(BTreeMap::new, |former| former.keys.clone());
        let number = keys.keys().next_back().map_or(1, |last| last + 1);
        keys.insert(number, random_bytes()?);
        let accepts_plain = work.is_some() && former.is_none_or(|former| former.accepts_plain);
        let keys = DataKeys::new(encryption_key.clone(), keys, accepts_plain)?;
        let work = work.map(|total| ReencryptionWork { place: Place::START, done: 0, total });
        Ok((EncryptionRecord::of(&keys, work)?, keys))
    }

    /// The record when everything is encrypted with the last data key.
    pub(super) fn finished(keys: &DataKeys) -> Result<(Self, DataKeys), Error> {
        let last = keys.keys.iter().next_back().map(|(number, key)| (*number, *key));
        let keys = DataKeys::new(keys.encryption_key.clone(), last.into_iter().collect(), false)?;
        let record = EncryptionRecord { purges_journals: true, ..EncryptionRecord::of(&keys, None)? };
        Ok((record, keys))
    }

    fn of(keys: &DataKeys, work: Option<ReencryptionWork>) -> Result<Self, Error> {
        let key_id = keys.encryption_key.id();
        let wrap = |(number, key): (&u32, &[u8; 32])| {
            let wrapped = keys.encryption_key.wrap(&purpose(&key_id, *number), key)?;
            Ok(WrappedKey { number: *number, wrapped })
        };
        let data_keys = keys.keys.iter().map(wrap).collect::<Result<_, Error>>()?;
        let has_plain = keys.accepts_plain;
        Ok(EncryptionRecord { version: VERSION, key_id, data_keys, has_plain, work, purges_journals: false })
    }

    /// The record when the journals contain nothing of former data keys any more.
    pub(crate) fn with_purged_journals(self) -> Self {
        EncryptionRecord { purges_journals: false, ..self }
    }

    /// Refuses a key that the store is not encrypted with.
    pub(super) fn check_key(&self, encryption_key: &EncryptionKey) -> Result<(), KeyRefused> {
        let given = encryption_key.id();
        if given == self.key_id { Ok(()) } else { Err(KeyRefused::Other { expected: self.key_id.clone(), given }) }
    }

    /// The data keys.
    pub(super) fn unlock(&self, encryption_key: &EncryptionKey) -> Result<DataKeys, Error> {
        self.check_key(encryption_key).map_err(Error::engine)?;
        let unwrap = |key: &WrappedKey| {
            let unwrapped = encryption_key.unwrap(&purpose(&self.key_id, key.number), &key.wrapped);
            let damaged =
                || Error::engine(format!("data key {} of the store is damaged; restore a backup", key.number));
            Ok((key.number, unwrapped.ok_or_else(damaged)?))
        };
        let keys = self.data_keys.iter().map(unwrap).collect::<Result<_, Error>>()?;
        DataKeys::new(encryption_key.clone(), keys, self.has_plain)
    }

    pub(crate) fn state(&self) -> EncryptionState {
        let progress = |work: &ReencryptionWork| EncryptionProgress { done: work.done, total: work.total };
        EncryptionState { key_id: self.key_id.clone(), progress: self.work.as_ref().map(progress) }
    }
}

/// What an encrypted data key is bound to.
fn purpose(key_id: &str, number: u32) -> Vec<u8> {
    [b"nagaya data key ", key_id.as_bytes(), &number.to_be_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> EncryptionKey {
        EncryptionKey::parse(&[byte; 32]).expect("32 bytes")
    }

    #[test]
    fn a_change_of_the_key_adds_a_data_key_and_accepts_plain_values_only_if_there_are_some() -> Result<(), Error> {
        let (_, new) = EncryptionRecord::first(&key(1))?;
        assert_eq!((new.current, new.accepts_plain), (1, false));
        let (_, filled) = EncryptionRecord::next(None, &key(1), Some(5))?;
        assert_eq!((filled.current, filled.accepts_plain), (1, true));
        let (record, changed) = EncryptionRecord::next(Some(&new), &key(2), Some(5))?;
        assert_eq!((changed.current, changed.accepts_plain), (2, false));
        assert_eq!(changed.keys.keys().copied().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(changed.keys[&1], new.keys[&1], "older values can still be read");
        assert_eq!(record.unlock(&key(2))?.keys, changed.keys);
        // The work has not ended, and the key changes again.
        let (_, again) = EncryptionRecord::next(Some(&filled), &key(2), Some(5))?;
        assert_eq!((again.current, again.accepts_plain), (2, true));
        Ok(())
    }

    #[test]
    fn a_record_of_another_version_or_for_another_key_is_refused() -> Result<(), Error> {
        let (record, keys) = EncryptionRecord::first(&key(1))?;
        let encoded = record.encode()?;
        assert_eq!(EncryptionRecord::decode(&encoded)?.unlock(&key(1))?.keys, keys.keys);
        let newer = [&[2], &encoded[1..]].concat();
        for wrong in [&newer[..], b""] {
            let refused = EncryptionRecord::decode(wrong).expect_err("it is not known").to_string();
            assert!(refused.contains("another version"), "{refused}");
        }
        let other = record.unlock(&key(2)).expect_err("another key").to_string();
        assert!(other.contains(&key(1).id()) && other.contains(&key(2).id()), "{other}");
        Ok(())
    }

    #[test]
    fn an_encrypted_data_key_belongs_to_its_number_and_to_its_encryption_key() -> Result<(), Error> {
        let (_, first) = EncryptionRecord::first(&key(1))?;
        let (mut record, _) = EncryptionRecord::next(Some(&first), &key(1), None)?;
        record.unlock(&key(1))?;
        for wrapped in &mut record.data_keys {
            wrapped.number = 3 - wrapped.number;
        }
        let refused = record.unlock(&key(1)).expect_err("they were exchanged").to_string();
        assert!(refused.contains("is damaged"), "{refused}");
        assert_ne!(purpose("one", 1), purpose("other", 1));
        Ok(())
    }
}
