//! Encrypts the keys of a data directory for a backup, and decrypts them for a restore.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use nagaya_embedded::KeyFile;
use serde_json::{Map, Value as Json};

use super::{
    access::read_small,
    seal::{self, Secret},
};
use crate::hex::{hex, unhex};

/// The files with keys below a data directory: what tokens are signed with, which of them are revoked, what cursors are
/// sealed with, what users in logs are hashed with, and what the operator log is chained with.
const KEY_FILES: [&str; 6] =
    ["issuer/issuer.json", "issuer/keys.json", "issuer/revocations.json", "cursor.key", "log.key", "audit.key"];

/// The variable with the passphrase, for when no option names a secret.
const PASSPHRASE_VARIABLE: &str = "NAGAYA_BACKUP_PASSPHRASE";

/// Characters of the shortest passphrase.
const MIN_PASSPHRASE_LENGTH: usize = 8;
/// Bytes of the shortest key file.
const MIN_KEY_BYTES: usize = 32;

/// The secret that seals the keys.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Keys")]
pub(super) struct KeyArgs {
    /// File with the passphrase that encrypts the store's keys; by default NAGAYA_BACKUP_PASSPHRASE
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key_file", "without_keys"])]
    passphrase_file: Option<PathBuf>,
    /// File with the key that encrypts the store's keys: 32 random bytes or more
    #[arg(long, value_name = "FILE", conflicts_with = "without_keys")]
    key_file: Option<PathBuf>,
    /// Leave out the keys: after a restore, tokens and cursors issued earlier are refused
    #[arg(long)]
    pub(super) without_keys: bool,
}

impl KeyArgs {
    /// The secret from the options or the environment; `None` if neither has one.
    pub(super) fn secret(&self) -> anyhow::Result<Option<Secret>> {
        let passphrase = match (&self.passphrase_file, &self.key_file) {
            (Some(file), _) => read_small(file)?,
            (None, Some(file)) => {
                let key = read_small(file)?;
                if key.len() < MIN_KEY_BYTES {
                    bail!("{} has less than {MIN_KEY_BYTES} bytes, which is no key", file.display());
                }
                return Ok(Some(Secret::KeyFile(key)));
            }
            (None, None) => match std::env::var(PASSPHRASE_VARIABLE) {
                Ok(text) if !text.is_empty() && !self.without_keys => text.into_bytes(),
                _ => return Ok(None),
            },
        };
        // Editors add a line break at the end. All blanks there are cut off, also those of the variable, so that both give the
        // same secret.
        let passphrase = passphrase.trim_ascii_end().to_vec();
        // What is not UTF-8 has no characters to count: each broken sequence counts as one.
        if String::from_utf8_lossy(&passphrase).chars().count() < MIN_PASSPHRASE_LENGTH {
            bail!("a passphrase has {MIN_PASSPHRASE_LENGTH} characters or more");
        }
        Ok(Some(Secret::Passphrase(passphrase)))
    }
}

/// The keys of a data directory.
pub(super) fn read(data: &Path) -> anyhow::Result<Vec<KeyFile>> {
    let there = KEY_FILES.into_iter().filter(|name| data.join(name).exists());
    there.map(|name| Ok(KeyFile { path: name.to_owned(), bytes: read_small(&data.join(name))? })).collect()
}

/// The keys of a data directory, sealed for a backup; `None`: there are none, or they are left out.
pub(super) fn seal_keys(args: &KeyArgs, data: &Path, id: [u8; 16]) -> anyhow::Result<Option<Vec<u8>>> {
    if args.without_keys {
        return Ok(None);
    }
    let keys = read(data)?;
    if keys.is_empty() {
        return Ok(None);
    }
    let Some(secret) = args.secret()? else {
        let names: Vec<_> = keys.iter().map(|key| key.path.as_str()).collect();
        bail!(
            "{} has keys ({}), which are stored in a backup only encrypted: give --passphrase-file FILE, {PASSPHRASE_VARIABLE} or --key-file \
             FILE, or leave them out with --without-keys (after a restore, tokens and cursors issued earlier are then refused)",
            data.display(),
            names.join(", ")
        );
    };
    let text: Map<_, _> = keys.iter().map(|key| (key.path.clone(), Json::String(hex(&key.bytes)))).collect();
    seal::seal(&secret, id, Json::Object(text).to_string().as_bytes()).map(Some)
}

/// The keys of a backup.
pub(super) fn unseal_keys(args: &KeyArgs, sealed: &[u8], id: [u8; 16]) -> anyhow::Result<Vec<KeyFile>> {
    let Some(secret) = args.secret()? else {
        bail!(
            "the backup has sealed keys: give the secret that they were sealed with by --passphrase-file FILE, {PASSPHRASE_VARIABLE} or \
             --key-file FILE, or restore without them by --without-keys (tokens and cursors issued earlier are then refused)"
        );
    };
    let text = seal::unseal(&secret, id, sealed)?;
    let text: Map<String, Json> = serde_json::from_slice(&text).context("the sealed keys are damaged")?;
    let file = |(path, digits): (String, Json)| {
        // A backup must not choose the files that it writes to.
        if !KEY_FILES.contains(&path.as_str()) {
            bail!("the sealed keys have a file `{path}` that this version does not know");
        }
        let bytes = digits.as_str().and_then(unhex).context("the sealed keys are damaged")?;
        Ok(KeyFile { path, bytes })
    };
    text.into_iter().map(file).collect()
}
