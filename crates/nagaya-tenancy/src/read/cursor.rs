//! Cursors: the position where a page ended, encrypted and bound to the caller and the list.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use chacha20poly1305::{
    KeyInit as _, XChaCha20Poly1305, XNonce,
    aead::{Aead as _, Payload},
};
use nagaya_store::{Key, KeyValue, PagePosition};

use crate::{Error, ErrorKind, Settings};

/// Length of the nonce in front of the encrypted position.
const NONCE: usize = 24;

/// Encrypts a position. `bound` is what the cursor is bound to: tenant, access pattern, parameters, design.
pub(crate) fn seal(settings: &Settings, bound: &[u8], position: &PagePosition) -> Result<String, Error> {
    let plain = serde_json::to_vec(&key_texts(position)).map_err(|_| ErrorKind::BadCursor)?;
    // A nonce must not be used for two texts: this one is a keyed hash of the text.
    let mut hasher = blake3::Hasher::new_keyed(&settings.cursor_key);
    hasher.update(&(bound.len() as u64).to_be_bytes()).update(bound).update(&plain);
    let mut nonce = [0; NONCE];
    nonce.copy_from_slice(&hasher.finalize().as_bytes()[..NONCE]);
    let payload = Payload { msg: &plain, aad: bound };
    let sealed = cipher(settings).encrypt(&XNonce::from(nonce), payload).map_err(|_| ErrorKind::BadCursor)?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode([&nonce[..], &sealed].concat()))
}

/// Opens a cursor. The error does not say why one is refused.
pub(crate) fn open(settings: &Settings, bound: &[u8], cursor: &str) -> Result<PagePosition, Error> {
    let refused = || Error::from(ErrorKind::BadCursor);
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(cursor).map_err(|_| refused())?;
    let (nonce, sealed) = bytes.split_first_chunk::<NONCE>().ok_or_else(refused)?;
    let payload = Payload { msg: sealed, aad: bound };
    let plain = cipher(settings).decrypt(&XNonce::from(*nonce), payload).map_err(|_| refused())?;
    let [partition, sort, rest @ ..] = &*serde_json::from_slice::<Vec<String>>(&plain).map_err(|_| refused())? else {
        return Err(refused());
    };
    let index_key = match rest {
        [partition, sort] => Some(Key::new(partition.as_str(), sort.as_str())),
        _ => None,
    };
    Ok(PagePosition { key: Key::new(partition.as_str(), sort.as_str()), index_key })
}

fn cipher(settings: &Settings) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(&settings.cursor_key.into())
}

/// The keys of a position; all keys of a design are texts.
fn key_texts(position: &PagePosition) -> Vec<&str> {
    let keys = [Some(&position.key), position.index_key.as_ref()];
    let values = keys.into_iter().flatten().flat_map(|key| [&key.partition, &key.sort]);
    values.map(|value| if let KeyValue::String(text) = value { text.as_str() } else { "" }).collect()
}
