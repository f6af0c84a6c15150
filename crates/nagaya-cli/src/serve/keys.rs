//! The keys beside a store: where they come from, and which commands create them.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use nagaya_tenancy::{KeySet, SecretKey};

use super::{StoreArgs, StoreKind};
use crate::{
    control,
    key_file::{self, KeyKind, parse_key},
};

/// The variable with the keys of cursors.
pub(crate) const CURSOR_KEY: &str = "NAGAYA_CURSOR_KEY";
/// The variable with the keys of the operator log.
pub(crate) const AUDIT_KEY: &str = "NAGAYA_AUDIT_KEY";

/// The variable with the keys of the names in logs.
const LOG_KEY: &str = "NAGAYA_LOG_KEY";

/// What to do about key files that are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyFiles {
    /// Create them.
    Create,
    /// Create none. A server that runs would take over a new key in place of the one that it has.
    Read,
}

/// Where keys come from.
pub(crate) enum KeySource {
    /// Each process makes its own: nothing is kept.
    Random,
    /// They are in the environment, the newest first, so that several processes share them.
    Given(Vec<SecretKey>),
    /// They are in this file.
    File(PathBuf),
}

impl KeyFiles {
    /// For a command that creates a missing store: a directory gets its keys with it. In the cloud the servers have
    /// the keys.
    pub(crate) fn created_with_store(kind: StoreKind) -> Self {
        if kind.is_in_cloud() { KeyFiles::Read } else { KeyFiles::Create }
    }
}

impl StoreArgs {
    /// Where the keys of a kind come from.
    pub(crate) fn key_source(&self, kind: KeyKind) -> anyhow::Result<KeySource> {
        let given = match kind {
            KeyKind::Cursor => keys_in_variable(CURSOR_KEY)?,
            KeyKind::Audit => self.audit_keys_in_variables()?,
            KeyKind::Log => keys_in_variable(LOG_KEY)?,
        };
        Ok(match given {
            Some(keys) => KeySource::Given(keys),
            None if self.kind == StoreKind::Memory => KeySource::Random,
            None => KeySource::File(kind.path(&self.data)),
        })
    }

    /// Processes on a store in the cloud that share only the keys of cursors derive those of the operator log from them.
    fn audit_keys_in_variables(&self) -> anyhow::Result<Option<Vec<SecretKey>>> {
        let given = keys_in_variable(AUDIT_KEY)?;
        if given.is_some() || !self.kind.is_in_cloud() {
            return Ok(given);
        }
        let derive = |key: &SecretKey| blake3::derive_key("nagaya 2026 the key of the operator log", key);
        Ok(keys_in_variable(CURSOR_KEY)?.map(|keys| keys.iter().map(derive).collect()))
    }

    /// The keys of a kind; `None`: this process makes its own. An embedded store has to be open.
    pub(crate) async fn keys(&self, kind: KeyKind, files: KeyFiles) -> anyhow::Result<Option<KeySet>> {
        let path = match self.key_source(kind)? {
            KeySource::Random => return Ok(None),
            KeySource::Given(keys) => return Ok(Some(KeySet::new(keys))),
            KeySource::File(path) => path,
        };
        if kind.is_remembered() {
            self.refuse_lost_key(kind.file_name())?;
        }
        let replaces_lost = self.directory.new_keys && self.opened.is_own();
        let keys = match files {
            KeyFiles::Read if !replaces_lost => key_file::load(&path)?,
            _ => Some(key_file::load_or_create(&path)?),
        };
        match keys {
            Some(_) if kind.is_remembered() => self.remember_key(kind.file_name()).await?,
            None if kind == KeyKind::Audit => bail!(self.missing_audit_key(&path)),
            // Without the others, this process makes its own.
            _ => {}
        }
        Ok(keys)
    }

    /// Refuses to go on without a key file that the store has had.
    pub(super) fn refuse_lost_key(&self, name: &str) -> anyhow::Result<()> {
        self.opened.refuse_lost_key(&self.data, name, self.directory.new_keys)
    }

    /// Records that a key file exists, so that its loss is noticed.
    pub(super) async fn remember_key(&self, name: &str) -> anyhow::Result<()> {
        self.opened.remember_key(&self.data, name).await
    }

    /// The message about a missing key of the operator log.
    fn missing_audit_key(&self, path: &Path) -> String {
        let (path, name) = (path.display(), KeyKind::Audit.file_name());
        if self.kind.is_in_cloud() {
            return format!(
                "no key of the operator log: give this command {AUDIT_KEY} or {CURSOR_KEY} with the keys of the servers, or name \
                 the directory with their {name} by --data. No server would know a new key"
            );
        }
        if self.opened.is_own() {
            return format!(
                "{path} does not exist: `nagaya serve` creates it when it starts there. If the servers have their key in \
                 {AUDIT_KEY}, give it to this command too"
            );
        }
        match control::remembered_files(&self.data, &[name]) {
            Ok(remembered) if !remembered.is_empty() => format!(
                "{path} is gone, and only the server that has the directory open still knows the key: before you stop it, copy \
                 the file back, or take it from a backup (`nagaya store restore --from FILE --to DIR` writes it to DIR/{name})"
            ),
            _ => format!(
                "{path} does not exist: the server that has the directory open has its key in {AUDIT_KEY}, or has not started \
                 yet. Give this command the same {AUDIT_KEY}, or try again"
            ),
        }
    }
}

/// The keys in a variable, the newest first; `None` if it is not set.
fn keys_in_variable(name: &str) -> anyhow::Result<Option<Vec<SecretKey>>> {
    let Some(text) = std::env::var_os(name) else { return Ok(None) };
    let keys = text.to_str().and_then(|text| text.split(',').map(|key| parse_key(key.trim())).collect());
    let wrong = || format!("{name} is not 64 hexadecimal digits, or several such keys with commas between them");
    keys.with_context(wrong).map(Some)
}
