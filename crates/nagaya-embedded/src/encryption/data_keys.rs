//! The data keys of a store: encrypting and decrypting values and files.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use chacha20poly1305::{AeadInPlace as _, KeyInit as _, Tag, XChaCha20Poly1305, XNonce};
use fjall::Slice;
use nagaya_store::Error;

use super::key::EncryptionKey;
use crate::{
    bytes::random_bytes,
    layout::{self, Keyspace},
};

/// How an encrypted value starts. No value that is not encrypted starts like this: it would be an item with two million
/// attributes. The last byte is the version of this format.
const VALUE_START: [u8; 4] = [255, 255, 255, 1];
/// How an encrypted file starts. It is not UTF-8, and so no text. The last byte is the version of this format.
const FILE_START: [u8; 8] = *b"\xffNAGAYA\x01";
const NUMBER: usize = 4;
const NONCE: usize = 24;
const TAG: usize = 16;
/// How much longer an encrypted file is than its content.
pub(super) const FILE_OVERHEAD: u64 = (FILE_START.len() + NUMBER + NONCE + TAG) as u64;
/// Bytes of a file that tell which key it was encrypted with.
pub(super) const FILE_HEAD: usize = FILE_START.len() + NUMBER;

/// Nonces that are used once: random bytes of this process, and a counter.
struct Nonces {
    random: [u8; 16],
    next: AtomicU64,
}

impl Nonces {
    fn next(&self) -> [u8; NONCE] {
        let mut nonce = [0; NONCE];
        nonce[..16].copy_from_slice(&self.random);
        nonce[16..].copy_from_slice(&self.next.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        nonce
    }
}

/// The data keys of a store. They do not change: a rotation gives another set.
#[derive(Clone)]
pub(crate) struct DataKeys {
    /// The encryption key of the store.
    pub(crate) encryption_key: EncryptionKey,
    /// The number of the key that encrypts.
    pub(super) current: u32,
    /// All keys of the record, by their numbers.
    pub(super) keys: BTreeMap<u32, [u8; 32]>,
    /// The ciphers of all keys. They stay here when a key is removed from the record: a reader may still use an old file.
    ciphers: BTreeMap<u32, XChaCha20Poly1305>,
    /// Whether values from before the encryption are left.
    pub(super) accepts_plain: bool,
    nonces: Arc<Nonces>,
}

impl fmt::Debug for DataKeys {
    /// Without the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DataKeys({} of {})", self.current, self.encryption_key.id())
    }
}

impl DataKeys {
    pub(super) fn new(
        encryption_key: EncryptionKey,
        keys: BTreeMap<u32, [u8; 32]>,
        accepts_plain: bool,
    ) -> Result<Self, Error> {
        let nonces = Arc::new(Nonces { random: random_bytes()?, next: AtomicU64::new(0) });
        let current = keys.keys().next_back().copied().ok_or_else(|| Error::engine("the store has no data key"))?;
        let ciphers = ciphers(&keys);
        Ok(DataKeys { encryption_key, current, keys, ciphers, accepts_plain, nonces })
    }

    /// These keys with another set in the record; what this process could decrypt, it still can.
    pub(super) fn followed_by(&self, next: DataKeys) -> DataKeys {
        let mut ciphers = self.ciphers.clone();
        ciphers.extend(next.ciphers);
        DataKeys { ciphers, nonces: Arc::clone(&self.nonces), ..next }
    }

    /// Whether values of this key are encrypted.
    fn covers(keyspace: Keyspace, key: &[u8]) -> bool {
        match keyspace {
            Keyspace::Items | Keyspace::Index => true,
            // The journals are checked by the number of the last commit before the store can be read.
            Keyspace::Changes => key != layout::COMMIT_KEY,
            // An expiry has no value, and what is in `Meta` is needed to open the store.
            Keyspace::Expiry | Keyspace::Meta => false,
        }
    }

    /// The value to store under a key.
    pub(crate) fn seal_value(&self, keyspace: Keyspace, key: &[u8], value: Slice) -> Result<Slice, Error> {
        match DataKeys::covers(keyspace, key) {
            true => self.seal(&VALUE_START, &value_context(keyspace, key), &value).map(Slice::from),
            false => Ok(value),
        }
    }

    /// The value that is stored under a key.
    pub(crate) fn open_value(&self, keyspace: Keyspace, key: &[u8], stored: Slice) -> Result<Slice, Error> {
        if !DataKeys::covers(keyspace, key) || (self.accepts_plain && !stored.starts_with(&VALUE_START)) {
            return Ok(stored);
        }
        self.open(&VALUE_START, &value_context(keyspace, key), &stored).map(Slice::from)
    }

    /// Whether a stored value has to be encrypted again.
    pub(super) fn is_outdated(&self, keyspace: Keyspace, key: &[u8], stored: &[u8]) -> bool {
        DataKeys::covers(keyspace, key) && number(&VALUE_START, stored) != Some(self.current)
    }

    /// Whether the file that starts with these bytes has to be encrypted again.
    pub(super) fn is_outdated_file(&self, head: &[u8]) -> bool {
        number(&FILE_START, head) != Some(self.current)
    }

    /// Whether the file that starts with these bytes has a key that is not known here.
    pub(super) fn lacks_key_of_file(&self, head: &[u8]) -> bool {
        number(&FILE_START, head).is_some_and(|number| !self.ciphers.contains_key(&number))
    }

    pub(super) fn seal_file(&self, name: &str, content: &[u8]) -> Result<Vec<u8>, Error> {
        self.seal(&FILE_START, &file_context(name), content)
    }

    pub(super) fn open_file(&self, name: &str, stored: Vec<u8>) -> Result<Vec<u8>, Error> {
        match self.accepts_plain && !is_encrypted_file(&stored) {
            true => Ok(stored),
            false => self.open(&FILE_START, &file_context(name), &stored),
        }
    }

    /// Start, number of the key, nonce, encrypted content, tag.
    fn seal(&self, start: &[u8], context: &[u8], content: &[u8]) -> Result<Vec<u8>, Error> {
        let failed = || Error::engine("a value cannot be encrypted");
        let cipher = self.ciphers.get(&self.current).ok_or_else(failed)?;
        let nonce = self.nonces.next();
        let mut sealed = [start, &self.current.to_be_bytes(), &nonce, content, &[0; TAG]].concat();
        let (encrypted, tag) = sealed[start.len() + NUMBER + NONCE..].split_at_mut(content.len());
        let computed = cipher.encrypt_in_place_detached(&XNonce::from(nonce), context, encrypted);
        tag.copy_from_slice(&computed.map_err(|_| failed())?);
        Ok(sealed)
    }

    fn open(&self, start: &[u8], context: &[u8], stored: &[u8]) -> Result<Vec<u8>, Error> {
        let Some(number) = number(start, stored) else {
            return Err(damaged("it is not encrypted, although the store is"));
        };
        let Some(cipher) = self.ciphers.get(&number) else {
            return Err(damaged(&format!("it is encrypted with data key {number}, which the store does not have")));
        };
        let rest = stored.get(start.len() + NUMBER..).and_then(|rest| rest.split_first_chunk::<NONCE>());
        let parts = rest.and_then(|(nonce, rest)| Some((nonce, rest.split_last_chunk::<TAG>()?)));
        let Some((nonce, (content, tag))) = parts else { return Err(damaged("it ends early")) };
        let mut content = content.to_vec();
        let opened = cipher.decrypt_in_place_detached(&XNonce::from(*nonce), context, &mut content, &Tag::from(*tag));
        opened.map_err(|_| damaged("it is not what was written there"))?;
        Ok(content)
    }
}

fn ciphers(keys: &BTreeMap<u32, [u8; 32]>) -> BTreeMap<u32, XChaCha20Poly1305> {
    keys.iter().map(|(number, key)| (*number, XChaCha20Poly1305::new(key.into()))).collect()
}

/// Whether a file is encrypted.
pub(super) fn is_encrypted_file(stored: &[u8]) -> bool {
    stored.starts_with(&FILE_START)
}

/// The number of the key that something was encrypted with; `None` if it is not encrypted.
fn number(start: &[u8], stored: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(*stored.strip_prefix(start)?.first_chunk()?))
}

/// What a value is bound to, so that it cannot be moved to another key.
fn value_context(keyspace: Keyspace, key: &[u8]) -> Vec<u8> {
    [&[keyspace as u8], key].concat()
}

/// What a file is bound to. No keyspace has this number.
fn file_context(name: &str) -> Vec<u8> {
    [&[255], name.as_bytes()].concat()
}

fn damaged(what: &str) -> Error {
    Error::engine(format!(
        "something stored cannot be decrypted: {what}. `nagaya store verify` looks for more; restore a backup"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(numbers: &[u32], accepts_plain: bool) -> DataKeys {
        let encryption_key = EncryptionKey::parse(&[9; 32]).expect("a key");
        let keys = numbers.iter().map(|number| (*number, [*number as u8; 32])).collect();
        DataKeys::new(encryption_key, keys, accepts_plain).expect("random bytes")
    }

    #[test]
    fn a_value_opens_only_where_it_was_written() {
        let (own, other) = (keys(&[1], false), keys(&[2], false));
        let sealed = own.seal_value(Keyspace::Items, b"key", b"secret".into()).expect("it is sealed");
        assert!(!sealed.windows(6).any(|part| part == b"secret"));
        let opened = own.open_value(Keyspace::Items, b"key", sealed.clone()).expect("it opens");
        assert_eq!(&*opened, b"secret");
        own.open_value(Keyspace::Items, b"kez", sealed.clone()).expect_err("another key");
        own.open_value(Keyspace::Index, b"key", sealed.clone()).expect_err("another keyspace");
        other.open_value(Keyspace::Items, b"key", sealed.clone()).expect_err("another data key");
        for at in 0..sealed.len() {
            let mut changed = sealed.to_vec();
            changed[at] ^= 1;
            assert!(own.open_value(Keyspace::Items, b"key", changed.into()).is_err(), "byte {at}");
        }
        own.open_value(Keyspace::Items, b"key", b"secret".into()).expect_err("it is not encrypted");
        let again = own.seal_value(Keyspace::Items, b"key", b"secret".into()).expect("it is sealed");
        assert_ne!(sealed, again, "a nonce is used once");
    }

    #[test]
    fn older_keys_open_and_the_newest_one_seals() {
        let (before, during) = (keys(&[1], false), keys(&[1, 2], true));
        let old = before.seal_value(Keyspace::Changes, b"key", b"text".into()).expect("it is sealed");
        assert!(during.is_outdated(Keyspace::Changes, b"key", &old));
        assert_eq!(&*during.open_value(Keyspace::Changes, b"key", old).expect("it opens"), b"text");
        assert_eq!(&*during.open_value(Keyspace::Changes, b"key", b"plain".into()).expect("it opens"), b"plain");
        let new = during.seal_value(Keyspace::Changes, b"key", b"text".into()).expect("it is sealed");
        assert!(!during.is_outdated(Keyspace::Changes, b"key", &new));
        assert!(before.open_value(Keyspace::Changes, b"key", new).is_err());
        // The record of the last commit is read before the store has its keys.
        let commit = during.seal_value(Keyspace::Changes, layout::COMMIT_KEY, b"7".into()).expect("as it is");
        assert_eq!(&*commit, b"7");
        assert!(!during.is_outdated(Keyspace::Changes, layout::COMMIT_KEY, &commit));
    }

    #[test]
    fn two_processes_do_not_use_the_same_nonce() {
        let [one, other] = [(); 2].map(|()| keys(&[1], false).seal_file("a", b"text").expect("it is sealed"));
        assert_ne!(one[FILE_HEAD..FILE_HEAD + NONCE], other[FILE_HEAD..FILE_HEAD + NONCE]);
    }

    #[test]
    fn former_keys_still_open_and_the_keys_that_followed_seal() {
        let (former, next) = (keys(&[1], false), keys(&[2], false));
        let old = former.seal_file("a", b"old").expect("it is sealed");
        let both = former.followed_by(next.clone());
        assert_eq!(both.open_file("a", old).expect("it opens"), b"old");
        let new = both.seal_file("a", b"new").expect("it is sealed");
        assert_eq!(next.open_file("a", new).expect("it opens"), b"new");
    }

    #[test]
    fn a_file_tells_its_key_and_a_plain_one_opens_only_while_plain_ones_are_left() {
        let (before, during, after) = (keys(&[1], false), keys(&[1, 2], true), keys(&[2], false));
        let old = before.seal_file("a", b"text").expect("it is sealed");
        let new = during.seal_file("a", b"text").expect("it is sealed");
        let outdated =
            [&old[..], &new, b"text"].map(|stored| during.is_outdated_file(&stored[..FILE_HEAD.min(stored.len())]));
        assert_eq!(outdated, [true, false, true]);
        let unknown = [&old[..], &new, b"text"].map(|stored| after.lacks_key_of_file(stored));
        assert_eq!(unknown, [true, false, false]);
        for stored in [&old[..], &new, b"text"] {
            assert_eq!(during.open_file("a", stored.to_vec()).expect("it opens"), b"text");
        }
        after.open_file("a", b"text".to_vec()).expect_err("it is not encrypted");
        after.open_file("a", old).expect_err("its key is unknown");
    }
}
