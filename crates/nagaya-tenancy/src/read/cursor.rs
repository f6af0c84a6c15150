//! Cursors: the position where a page ended, encrypted and bound to the caller and the list.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use chacha20poly1305::{
    KeyInit as _, XChaCha20Poly1305, XNonce,
    aead::{Aead as _, Payload},
};
use nagaya_store::{Key, KeyValue, PagePosition};

use crate::{Error, ErrorKind, Settings, key_set::SecretKey};

/// Length of the nonce in front of the encrypted position.
const NONCE: usize = 24;

/// Encrypts a position. `bound` is what the cursor is bound to: tenant, access pattern, parameters, design.
pub(crate) fn seal(settings: &Settings, bound: &[u8], position: &PagePosition) -> Result<String, Error> {
    seal_texts(settings, bound, &key_texts(position))
}

/// Encrypts a position that is made of these texts.
pub(crate) fn seal_texts(settings: &Settings, bound: &[u8], position: &[&str]) -> Result<String, Error> {
    let plain = serde_json::to_vec(position).map_err(|_| ErrorKind::BadCursor)?;
    // A nonce must not be used for two texts: this one is a keyed hash of the text.
    let key = settings.cursor_keys.newest();
    let mut hasher = blake3::Hasher::new_keyed(&key);
    hasher.update(&(bound.len() as u64).to_be_bytes()).update(bound).update(&plain);
    let mut nonce = [0; NONCE];
    nonce.copy_from_slice(&hasher.finalize().as_bytes()[..NONCE]);
    let payload = Payload { msg: &plain, aad: bound };
    let sealed = cipher(&key).encrypt(&XNonce::from(nonce), payload).map_err(|_| ErrorKind::BadCursor)?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode([&nonce[..], &sealed].concat()))
}

/// Opens a cursor. The error does not say why one is refused.
pub(crate) fn open(settings: &Settings, bound: &[u8], cursor: &str) -> Result<PagePosition, Error> {
    let texts = open_texts(settings, bound, cursor)?;
    let [partition, sort, rest @ ..] = texts.as_slice() else { return Err(ErrorKind::BadCursor.into()) };
    let index_key = match rest {
        [partition, sort] => Some(Key::new(partition.as_str(), sort.as_str())),
        _ => None,
    };
    Ok(PagePosition { key: Key::new(partition.as_str(), sort.as_str()), index_key })
}

/// Opens what [`seal_texts`] sealed.
pub(crate) fn open_texts(settings: &Settings, bound: &[u8], cursor: &str) -> Result<Vec<String>, Error> {
    let refused = || Error::from(ErrorKind::BadCursor);
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(cursor).map_err(|_| refused())?;
    let (nonce, sealed) = bytes.split_first_chunk::<NONCE>().ok_or_else(refused)?;
    // A cursor of an older key stays valid as long as the key does.
    let open = |key: &SecretKey| {
        let payload = Payload { msg: sealed, aad: bound };
        cipher(key).decrypt(&XNonce::from(*nonce), payload).ok()
    };
    let plain = settings.cursor_keys.find(open).ok_or_else(refused)?;
    serde_json::from_slice(&plain).map_err(|_| refused())
}

fn cipher(key: &SecretKey) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(key.into())
}

/// The keys of a position; all keys of a design are texts.
fn key_texts(position: &PagePosition) -> Vec<&str> {
    let keys = [Some(&position.key), position.index_key.as_ref()];
    let values = keys.into_iter().flatten().flat_map(|key| [&key.partition, &key.sort]);
    values.map(|value| if let KeyValue::String(text) = value { text.as_str() } else { "" }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_set::KeySet;

    #[test]
    fn a_cursor_stays_valid_as_long_as_its_key() {
        let with = |keys: Vec<SecretKey>| Settings { cursor_keys: KeySet::new(keys), ..Settings::default() };
        let position = PagePosition { key: Key::new("P", "1"), index_key: None };
        let (before, after, later) = (with(vec![[1; 32]]), with(vec![[2; 32], [1; 32]]), with(vec![[2; 32]]));
        let old = seal(&before, b"tenant", &position).expect("it is sealed");
        let new = seal(&after, b"tenant", &position).expect("it is sealed");
        assert_eq!(open(&after, b"tenant", &old).expect("the older key is accepted"), position);
        assert_eq!(open(&later, b"tenant", &new).expect("it has the newest key"), position);
        assert!(open(&before, b"tenant", &new).is_err() && open(&later, b"tenant", &old).is_err());
        assert!(open(&after, b"other", &old).is_err(), "it is bound to its tenant");
    }

    /// With one nonce for two texts, whoever has both cursors learns what is in them.
    #[test]
    fn no_two_cursors_have_the_same_nonce() {
        let settings = Settings { cursor_keys: KeySet::new(vec![[1; 32]]), ..Settings::default() };
        let nonce = |bound: &[u8], sort: &str| {
            let position = PagePosition { key: Key::new("P", sort), index_key: None };
            let sealed = seal(&settings, bound, &position).expect("it is sealed");
            BASE64_URL_SAFE_NO_PAD.decode(sealed).expect("base64")[..NONCE].to_vec()
        };
        let nonces = std::collections::BTreeSet::from([nonce(b"t1", "1"), nonce(b"t1", "2"), nonce(b"t2", "1")]);
        assert_eq!(nonces.len(), 3);
        assert!(nonces.contains(&nonce(b"t1", "1")), "the same cursor has the same nonce");
    }
}
