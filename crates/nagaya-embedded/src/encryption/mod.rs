//! Encryption at rest.
//!
//! fjall writes its files itself, so what is handed to fjall is encrypted: the values of items, index entries and changes,
//! each with XChaCha20-Poly1305 and bound to its keyspace and key. Keys stay readable, because their order is that of the
//! files; so do the names of tables and the times of expiries. Objects and backups are encrypted as whole files.
//!
//! The encryption key encrypts random data keys, which encrypt the values. A new encryption key takes effect in one commit.
//! With it comes a new data key, and all values are encrypted again in small steps between writes.

mod data_keys;
mod key;
mod keyring;
mod reencrypt;
mod state;
mod stream;
mod unlock;

pub(crate) use self::{
    data_keys::DataKeys,
    reencrypt::Reencryption,
    state::{ENCRYPTION_KEY, EncryptionRecord},
    stream::{DecryptingReader, ENCRYPTED_MAGIC, EncryptingWriter},
    unlock::{initial_record, unlock},
};
pub use self::{
    key::EncryptionKey,
    keyring::{FILE_OVERHEAD, Keyring},
    state::{EncryptionProgress, EncryptionState},
    unlock::is_key_refused,
};
