//! `nagaya keys`: the keys of a data directory, and their rotation.

use std::{fmt::Write as _, path::PathBuf, time::Duration};

use anyhow::bail;
use serde_json::{Value as Json, json};

use super::{
    Outcome,
    duration::parse_duration,
    key_file::{self, KeyKind, StoredKey},
    output::{instant, print},
};

/// List and rotate the keys of cursors, logs and the operator log
///
/// Running servers use a new key within seconds; nothing has to be restarted.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  nagaya keys list\n  nagaya keys rotate cursor\n  nagaya keys rotate log --accept-older 0s\n\nOther \
                  keys have commands of their own: `nagaya token rotate` (what tokens are signed with), `nagaya store \
                  rotate-key` (what the store is encrypted with), `nagaya events rotate-key` (what personal fields of a user's events \
                  are sealed with).\n\nA key from NAGAYA_CURSOR_KEY or NAGAYA_AUDIT_KEY is not in the directory: give all servers \
                  FORMER,NEW, then all of them NEW,FORMER, and later leave out the former. Keep former keys of the operator log as long as its \
                  entries."
)]
pub(super) struct Args {
    #[command(subcommand)]
    subcommand: Subcommand,
}

#[derive(Debug, clap::Subcommand)]
enum Subcommand {
    /// Show which keys there are, by their ids
    List {
        #[command(flatten)]
        directory: DirectoryArgs,
    },
    /// Use a new key from now on
    Rotate {
        /// The key
        #[arg(value_enum)]
        key: KeyKind,
        /// How long older keys are accepted: by default 24 hours for cursors, 90 days for logs, and 10 years for the
        /// operator log
        #[arg(long, value_name = "TIME", value_parser = parse_duration)]
        accept_older: Option<Duration>,
        #[command(flatten)]
        directory: DirectoryArgs,
    },
}

#[derive(Debug, clap::Args)]
struct DirectoryArgs {
    /// The directory with the keys
    #[arg(long, value_name = "DIR", default_value = "nagaya-data", env = "NAGAYA_DATA")]
    data: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// How long older keys are accepted by default.
fn default_accept_older(kind: KeyKind) -> Duration {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    match kind {
        KeyKind::Cursor => DAY,
        KeyKind::Log => 90 * DAY,
        KeyKind::Audit => 3_650 * DAY,
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<Outcome> {
    match &args.subcommand {
        Subcommand::List { directory } => {
            let mut found = Vec::new();
            for kind in KeyKind::ALL {
                if let Some(keys) = key_file::read(&kind.path(&directory.data))? {
                    found.push((kind, keys));
                }
            }
            let json: Vec<_> = found.iter().map(|(kind, keys)| keys_json(*kind, keys)).collect();
            let mut text: String = found.iter().map(|(kind, keys)| keys_text(*kind, keys)).collect();
            if found.is_empty() {
                let _ = writeln!(text, "{} has no such keys", directory.data.display());
            }
            print(directory.json, &json!({ "keys": json }), &text, true)
        }
        Subcommand::Rotate { key: kind, accept_older, directory } => {
            let path = kind.path(&directory.data);
            // A typo in the name of the directory must not create keys that no server uses.
            if !path.exists() {
                bail!("{} does not exist; name the directory of the server with --data", path.display());
            }
            let keys = key_file::rotate(&path, accept_older.unwrap_or_else(|| default_accept_older(*kind)))?;
            print(directory.json, &keys_json(*kind, &keys), &keys_text(*kind, &keys), true)
        }
    }
}

fn keys_json(kind: KeyKind, keys: &[StoredKey]) -> Json {
    let until = |key: &StoredKey| key.until.map(|until| instant(until.saturating_mul(1000)));
    let keys: Vec<_> = keys.iter().map(|key| json!({ "keyId": key.id(), "acceptedUntil": until(key) })).collect();
    json!({ "kind": kind.name(), "keys": keys })
}

fn keys_text(kind: KeyKind, keys: &[StoredKey]) -> String {
    let line = |key: &StoredKey| match key.until {
        None => format!("{} {}: used\n", kind.name(), key.id()),
        Some(until) => {
            format!("{} {}: accepted until {}\n", kind.name(), key.id(), instant(until.saturating_mul(1000)))
        }
    };
    keys.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_listed_by_their_kind_and_id() {
        let keys = [(1, None), (2, Some(3_600))].map(|(byte, until)| StoredKey { key: [byte; 32], until });
        let listed = "log b8a6c43ee3688852: used\nlog 4d2543931c19cb02: accepted until 1970-01-01T01:00:00Z\n";
        assert_eq!(keys_text(KeyKind::Log, &keys), listed);
        let listed = json!({ "kind": "audit", "keys": [
            { "keyId": "b8a6c43ee3688852", "acceptedUntil": null },
            { "keyId": "4d2543931c19cb02", "acceptedUntil": "1970-01-01T01:00:00Z" },
        ] });
        assert_eq!(keys_json(KeyKind::Audit, &keys), listed);
    }
}
