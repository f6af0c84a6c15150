//! The encryption key of a store.

use std::fmt;

use chacha20poly1305::{
    KeyInit as _, XChaCha20Poly1305, XNonce,
    aead::{Aead as _, Payload},
};
use nagaya_store::Error;

use crate::bytes::{hex, random_bytes};

const NONCE: usize = 24;

/// The encryption key of a store. It encrypts the keys that data and backups are encrypted with.
#[derive(Clone, PartialEq, Eq)]
pub struct EncryptionKey([u8; 32]);

impl fmt::Debug for EncryptionKey {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EncryptionKey({})", self.id())
    }
}

impl EncryptionKey {
    /// Bytes of its id.
    pub(super) const ID_BYTES: usize = 8;

    /// Reads a key: 32 bytes, or 64 hexadecimal digits with blanks around them.
    pub fn parse(content: &[u8]) -> Option<Self> {
        if let Ok(bytes) = content.try_into() {
            return Some(EncryptionKey(bytes));
        }
        let digits = content.trim_ascii();
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let mut bytes = [0; 32];
        if digits.len() != 64 {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.as_chunks::<2>().0) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(EncryptionKey(bytes))
    }

    /// Its bytes, which are a secret.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Its id: 16 hexadecimal digits, which tell nothing about the key.
    pub fn id(&self) -> String {
        hex(&self.id_bytes())
    }

    pub(super) fn id_bytes(&self) -> [u8; EncryptionKey::ID_BYTES] {
        let mut id = [0; EncryptionKey::ID_BYTES];
        let derived = blake3::derive_key("nagaya 2026 the id of an encryption key", &self.0);
        id.copy_from_slice(&derived[..EncryptionKey::ID_BYTES]);
        id
    }

    /// Encrypts another key, bound to what it is for.
    pub(super) fn wrap(&self, purpose: &[u8], key: &[u8; 32]) -> Result<Vec<u8>, Error> {
        let nonce = random_bytes::<NONCE>()?;
        let payload = Payload { msg: key, aad: purpose };
        let sealed = self.cipher().encrypt(&XNonce::from(nonce), payload);
        let sealed = sealed.map_err(|_| Error::engine("a data key cannot be encrypted"))?;
        Ok([&nonce[..], &sealed].concat())
    }

    /// Decrypts another key; `None` if it was encrypted with another one, for something else, or is damaged.
    pub(super) fn unwrap(&self, purpose: &[u8], wrapped: &[u8]) -> Option<[u8; 32]> {
        let (nonce, sealed) = wrapped.split_first_chunk::<NONCE>()?;
        let payload = Payload { msg: sealed, aad: purpose };
        self.cipher().decrypt(&XNonce::from(*nonce), payload).ok()?.try_into().ok()
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(&blake3::derive_key("nagaya 2026 encryption of data keys", &self.0).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_bytes_or_digits() {
        let digits = "0f".repeat(32);
        let key = EncryptionKey::parse(digits.as_bytes()).expect("digits");
        assert_eq!(EncryptionKey::parse(&[0x0f; 32]), Some(key.clone()));
        assert_eq!(EncryptionKey::parse(format!(" {digits}\n").as_bytes()), Some(key.clone()));
        for wrong in [&b""[..], &[1; 31], &[1; 33], "0g".repeat(32).as_bytes(), "é".repeat(32).as_bytes()] {
            assert_eq!(EncryptionKey::parse(wrong), None, "{wrong:?}");
        }
        assert_eq!(key.bytes(), [0x0f; 32]);
        assert_eq!(key.id().len(), 16);
        assert!(!format!("{key:?}").contains("0f0f"));
    }

    #[test]
    fn only_the_same_key_unwraps_for_the_same_purpose() -> Result<(), Error> {
        let [one, other] = [[1; 32], [2; 32]].map(EncryptionKey);
        let wrapped = one.wrap(b"data 1", &[7; 32])?;
        assert_eq!(one.unwrap(b"data 1", &wrapped), Some([7; 32]));
        assert_eq!((one.unwrap(b"data 2", &wrapped), other.unwrap(b"data 1", &wrapped)), (None, None));
        for at in 0..wrapped.len() {
            let mut changed = wrapped.clone();
            changed[at] ^= 1;
            assert_eq!(one.unwrap(b"data 1", &changed), None, "byte {at}");
        }
        Ok(())
    }
}
