//! The key that the embedded store is encrypted with.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, bail};
use nagaya_embedded::EncryptionKey;

use crate::store::read_small;

/// Where the key of the store comes from.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct EncryptionArgs {
    /// File with the key of the embedded store: 32 bytes, or 64 hexadecimal digits. A new directory is encrypted with it; one that
    /// is not encrypted is refused with it (see `nagaya store encrypt`)
    #[arg(
        long,
        help_heading = "Encryption",
        value_name = "FILE",
        env = "NAGAYA_ENCRYPTION_KEY_FILE",
        conflicts_with = "encryption_key_command"
    )]
    encryption_key_file: Option<PathBuf>,
    /// Command that prints that key, for example one that asks a key management service to decrypt it; run by `sh -c`
    #[arg(long, help_heading = "Encryption", value_name = "COMMAND", env = "NAGAYA_ENCRYPTION_KEY_COMMAND")]
    encryption_key_command: Option<String>,
}

impl EncryptionArgs {
    /// The file with the key, if one is given.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.encryption_key_file.as_deref().filter(|file| !file.as_os_str().is_empty())
    }

    /// The flag that gives the same key to another command, after a space; empty if there is none. A command may contain a
    /// secret, and is not shown.
    pub(crate) fn as_flag(&self) -> String {
        match (self.file(), &self.encryption_key_command) {
            (Some(file), _) => format!(" --encryption-key-file {}", file.display()),
            (None, Some(command)) if !command.is_empty() => " --encryption-key-command COMMAND".to_owned(),
            _ => String::new(),
        }
    }

    /// The key, if one is given.
    pub(crate) fn key(&self) -> anyhow::Result<Option<EncryptionKey>> {
        key_from(self.encryption_key_file.as_deref(), self.encryption_key_command.as_deref())
    }

    /// The key; an error if none is given.
    pub(crate) fn required_key(&self) -> anyhow::Result<EncryptionKey> {
        self.key()?.context("give the key with --encryption-key-file FILE or --encryption-key-command COMMAND")
    }
}

/// The key from a file or from a command; `None` if neither is given.
pub(crate) fn key_from(file: Option<&Path>, command: Option<&str>) -> anyhow::Result<Option<EncryptionKey>> {
    // A variable that is set to nothing is as good as unset.
    let file = file.filter(|file| !file.as_os_str().is_empty());
    let command = command.filter(|command| !command.is_empty());
    let (content, source) = match (file, command) {
        (Some(file), _) => {
            warn_if_others_can_read(file);
            (read_small(file)?, file.display().to_string())
        }
        (None, Some(command)) => (output(command)?, "the output of --encryption-key-command".to_owned()),
        (None, None) => return Ok(None),
    };
    let key = EncryptionKey::parse(&content);
    Ok(Some(key.with_context(|| format!("{source} is no key: a key has 32 bytes, or 64 hexadecimal digits"))?))
}

fn output(command: &str) -> anyhow::Result<Vec<u8>> {
    // Its messages are for the operator; the key is for nobody. The command is not named: it may contain a secret.
    let run = Command::new("sh").args(["-c", command]).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let run = run.with_context(|| "the command of --encryption-key-command cannot be run".to_owned())?;
    if !run.status.success() {
        bail!("--encryption-key-command, which should print the encryption key, failed ({})", run.status);
    }
    Ok(run.stdout)
}

fn warn_if_others_can_read(file: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let others = std::fs::metadata(file).is_ok_and(|found| found.permissions().mode() & 0o077 != 0);
        if others {
            eprintln!("nagaya: other users can read {}; chmod 600 it", file.display());
        }
    }
    #[cfg(not(unix))]
    let _ = file;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_comes_from_a_file_or_a_command() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("key");
        std::fs::write(&file, "0f".repeat(32)).expect("a file");
        let key = key_from(Some(&file), None).expect("it is a key").expect("it is given");
        let printed = key_from(None, Some("printf '0f%.0s' $(seq 32)")).expect("it is a key").expect("it is given");
        assert_eq!(key, printed);
        assert_eq!(key_from(None, None).expect("none"), None);
        assert_eq!(key_from(Some(Path::new("")), Some("")).expect("none"), None);
        for (command, why) in [("exit 3", "exit status: 3"), ("echo short", "is no key")] {
            let refused = key_from(None, Some(command)).expect_err("no key").to_string();
            assert!(refused.contains(why) && !refused.contains(command), "{refused}");
        }
    }
}
