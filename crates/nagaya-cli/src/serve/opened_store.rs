//! The embedded store that a command has opened, for what lies beside it: objects and key files.

use std::{
    path::Path,
    sync::{Arc, OnceLock, Weak},
};

use anyhow::bail;
use nagaya_embedded::{EmbeddedStore, Keyring};
use nagaya_store::{Error, files::FileCipher};

/// The store, once it has been opened. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenedStore(Arc<OnceLock<Opened>>);

#[derive(Debug)]
struct Opened {
    /// Empty for a store that is no directory.
    store: Weak<EmbeddedStore>,
    keyring: Arc<Keyring>,
}

impl OpenedStore {
    /// The store is open. `None`: it is no directory, and nothing beside it is encrypted.
    pub(super) fn set(&self, store: Option<&Arc<EmbeddedStore>>) {
        let keyring = store.map_or_else(Arc::default, |store| store.keyring());
        let _ = self.0.set(Opened { store: store.map_or_else(Weak::new, Arc::downgrade), keyring });
    }

    fn store(&self) -> Option<Arc<EmbeddedStore>> {
        self.0.get().and_then(|opened| opened.store.upgrade())
    }

    /// Whether this process has the store open, and no other process can.
    pub(crate) fn is_own(&self) -> bool {
        self.store().is_some()
    }

    /// Refuses to go on without a key file that the store once had: new keys would make everything invalid that was issued
    /// with the lost ones, and nobody would know why.
    pub(super) fn refuse_lost_key(&self, data: &Path, name: &str, new_keys: bool) -> anyhow::Result<()> {
        let Some(store) = self.store() else { return Ok(()) };
        if new_keys || data.join(name).exists() || !store.remembers_file(name)? {
            return Ok(());
        }
        bail!(
            "{} is gone, although this store had it: copy it back, or take it from a backup (`nagaya store restore --from FILE --to \
             DIR` writes it to DIR/{name}). To go on with new keys, start once with --new-keys: tokens and cursors issued earlier are \
             refused then, and older entries of the operator log cannot be verified",
            data.join(name).display()
        )
    }

    /// Records that a key file exists.
    pub(super) async fn remember_key(&self, data: &Path, name: &str) -> anyhow::Result<()> {
        match self.store() {
            Some(store) if data.join(name).exists() => Ok(store.remember_file(name).await?),
            _ => Ok(()),
        }
    }

    /// Whether the store is encrypted.
    pub(super) fn is_encrypted(&self) -> bool {
        self.0.get().is_some_and(|opened| opened.keyring.encryption_key().is_some())
    }
}

impl FileCipher for OpenedStore {
    fn seal(&self, name: &str, content: Vec<u8>) -> Result<Vec<u8>, Error> {
        self.keyring()?.seal(name, content)
    }

    fn open(&self, name: &str, stored: Vec<u8>) -> Result<Vec<u8>, Error> {
        self.keyring()?.open(name, stored)
    }
}

impl OpenedStore {
    /// Before the store is open, it is unknown whether objects have to be encrypted.
    fn keyring(&self) -> Result<&Keyring, Error> {
        let opened = self.0.get().ok_or_else(|| Error::unavailable("the store is not open yet"))?;
        Ok(&opened.keyring)
    }
}
