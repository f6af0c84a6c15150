//! The keys of a data directory, in backups and restored.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use nagaya_embedded::KeyFile;
use serde_json::{Map, Value as Json};

use super::{
    access::read_small,
    seal::{self, Secret},
};

/// The files with keys below a data directory: what tokens are signed with, and what cursors are sealed with.
const FILES: [&str; 3] = ["issuer/issuer.json", "issuer/keys.json", "cursor.key"];

/// The variable with the passphrase, for when no option names a secret.
const VARIABLE: &str = "NAGAYA_BACKUP_PASSPHRASE";

/// Characters of the shortest passphrase.
const SHORTEST_PASSPHRASE: usize = 8;
/// Bytes of the shortest key file.
const SHORTEST_KEY: usize = 32;

/// The secret that seals the keys.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Keys")]
pub(super) struct KeyArgs {
    /// The file with the passphrase that seals the keys; by default NAGAYA_BACKUP_PASSPHRASE
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key_file", "without_keys"])]
    passphrase_file: Option<PathBuf>,
    /// The file with the key that seals the keys: 32 random bytes or more
    #[arg(long, value_name = "FILE", conflicts_with = "without_keys")]
    key_file: Option<PathBuf>,
    /// Leave out the keys: after a restore, tokens and cursors issued earlier are refused
    #[arg(long)]
    pub(super) without_keys: bool,
}

impl KeyArgs {
    /// The secret that is given; `None`: none is.
    pub(super) fn secret(&self) -> anyhow::Result<Option<Secret>> {
        let passphrase = match (&self.passphrase_file, &self.key_file) {
            (Some(file), _) => read_small(file)?,
            (None, Some(file)) => {
                let key = read_small(file)?;
                if key.len() < SHORTEST_KEY {
                    bail!("{} has less than {SHORTEST_KEY} bytes, which is no key", file.display());
                }
                return Ok(Some(Secret::KeyFile(key)));
            }
            (None, None) => match std::env::var(VARIABLE) {
                Ok(text) if !text.is_empty() && !self.without_keys => text.into_bytes(),
                _ => return Ok(None),
            },
        };
        // Editors add a line break at the end. All blanks there are cut off, also those of the variable, so that both give the
        // same secret.
        let passphrase = passphrase.trim_ascii_end().to_vec();
        // What is not UTF-8 has no characters to count: each broken sequence counts as one.
        if String::from_utf8_lossy(&passphrase).chars().count() < SHORTEST_PASSPHRASE {
            bail!("a passphrase has {SHORTEST_PASSPHRASE} characters or more");
        }
        Ok(Some(Secret::Passphrase(passphrase)))
    }
}

/// The keys of a data directory.
pub(super) fn read(data: &Path) -> anyhow::Result<Vec<KeyFile>> {
    let there = FILES.into_iter().filter(|name| data.join(name).exists());
    there.map(|name| Ok(KeyFile { path: name.to_owned(), bytes: read_small(&data.join(name))? })).collect()
}

/// The keys of a data directory, sealed for a backup; `None`: there are none, or they are left out.
pub(super) fn sealed(args: &KeyArgs, data: &Path, id: [u8; 16]) -> anyhow::Result<Option<Vec<u8>>> {
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
            "{} has keys ({}), which go into a backup only sealed: give --passphrase-file FILE, {VARIABLE} or --key-file \
             FILE, or leave them out with --without-keys (after a restore, tokens and cursors issued earlier are then refused)",
            data.display(),
            names.join(", ")
        );
    };
    let digits = |bytes: &[u8]| Json::String(bytes.iter().map(|byte| format!("{byte:02x}")).collect());
    let text: Map<_, _> = keys.iter().map(|key| (key.path.clone(), digits(&key.bytes))).collect();
    seal::seal(&secret, id, Json::Object(text).to_string().as_bytes()).map(Some)
}

/// The keys of a backup.
pub(super) fn unsealed(args: &KeyArgs, sealed: &[u8], id: [u8; 16]) -> anyhow::Result<Vec<KeyFile>> {
    let Some(secret) = args.secret()? else {
        bail!(
            "the backup has sealed keys: give the secret that they were sealed with by --passphrase-file FILE, {VARIABLE} or \
             --key-file FILE, or restore without them by --without-keys (tokens and cursors issued earlier are then refused)"
        );
    };
    let text = seal::unseal(&secret, id, sealed)?;
    let text: Map<String, Json> = serde_json::from_slice(&text).context("the sealed keys are damaged")?;
    let file = |(path, digits): (String, Json)| {
        // A backup must not choose the files that it writes to.
        if !FILES.contains(&path.as_str()) {
            bail!("the sealed keys have a file `{path}` that this version does not know");
        }
        let bytes = digits.as_str().and_then(bytes).context("the sealed keys are damaged")?;
        Ok(KeyFile { path, bytes })
    };
    text.into_iter().map(file).collect()
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    if pairs.1.is_empty() { pairs.0.iter().map(byte).collect() } else { None }
}
