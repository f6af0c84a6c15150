//! `nagaya store`: looking after the embedded store's directory.

use std::{
    fmt::Write as _,
    fs,
    io::{IsTerminal as _, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use indicatif::{ProgressBar, ProgressStyle};
use jiff::Timestamp;
use nagaya_embedded::{Backup, Embedded, Options, Stat, restore_backup};
use serde_json::json;

use super::Outcome;

/// Look after the directory of the embedded store
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Count what is in the directory
    Stat(Place),
    /// Check that items, indexes, expiries and changes agree, and name what does not
    Verify(Place),
    /// Write all tables and items to one file
    Backup {
        #[command(flatten)]
        place: Place,
        /// The file to write
        file: PathBuf,
    },
    /// Fill a new directory from a backup, or with the state of a past moment
    #[command(
        after_help = "Examples:\n  nagaya store restore --from backup.nagaya --to ./restored\n  nagaya store restore \
                            --at 2026-01-31T09:30:00Z --to ./restored\n\nThe directory of --to must not be there yet. The \
                            state at a moment is told by the changes that are kept (7 days by default)."
    )]
    Restore {
        #[command(flatten)]
        place: Place,
        /// The backup to restore
        #[arg(long, value_name = "FILE", conflicts_with = "at", required_unless_present = "at")]
        from: Option<PathBuf>,
        /// The moment to go back to, such as 2026-01-31T09:30:00Z
        #[arg(long, value_name = "INSTANT")]
        at: Option<Timestamp>,
        /// The new directory
        #[arg(long, value_name = "DIR")]
        to: PathBuf,
    },
    /// Rewrite the files without what has been overwritten or deleted
    Compact(Place),
}

#[derive(Debug, clap::Args)]
struct Place {
    /// The directory of the store
    #[arg(long, value_name = "DIR", default_value = "nagaya-data")]
    data: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Outcome> {
    match &args.verb {
        Verb::Stat(place) => {
            let stat = open(place)?.stat()?;
            print(place, &stat_json(&stat), &stat_text(&stat))
        }
        Verb::Verify(place) => verify(place),
        Verb::Backup { place, file } => {
            let made = with_progress("items", |progress| open(place)?.backup(file, progress).map_err(Into::into))?;
            print(place, &backup_json(&made, file), &backup_text("written to", &made, file))
        }
        Verb::Restore { place, from, at, to } => {
            let made = with_progress("items", |progress| match (from, at) {
                (Some(file), _) => restore_backup(file, to, progress).map_err(Into::into),
                (None, Some(at)) => open(place)?.restore_at(at.as_millisecond(), to, progress).map_err(Into::into),
                (None, None) => bail!("give --from or --at"),
            })?;
            print(place, &backup_json(&made, to), &backup_text("restored into", &made, to))
        }
        Verb::Compact(place) => {
            let store = open(place)?;
            let before = store.stat()?.disk_bytes;
            store.compact()?;
            let after = store.stat()?.disk_bytes;
            let text = format!("{} before, {} after\n", bytes(before), bytes(after));
            print(place, &json!({ "before": before, "after": after }), &text)
        }
    }
}

/// Opens a store that is there: looking after one never makes one.
fn open(place: &Place) -> anyhow::Result<Embedded> {
    if !is_store(&place.data) {
        // `nagaya serve` keeps a store for each system.
        let inside = fs::read_dir(&place.data).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut inside: Vec<_> =
            inside.filter(|path| is_store(path)).map(|path| format!("--data {}", path.display())).collect();
        inside.sort();
        let there = if inside.is_empty() {
            "name it with --data".to_owned()
        } else {
            format!("there is {}", inside.join(", "))
        };
        bail!("{} is not the directory of a store; {there}", place.data.display());
    }
    // Nothing goes away while somebody looks.
    let options = Options { sweep_every: None, ..Options::default() };
    Embedded::open(&place.data, options).with_context(|| format!("{} cannot be opened", place.data.display()))
}

/// Whether a directory is one of the embedded store.
pub(super) fn is_store(directory: &Path) -> bool {
    directory.join("data").is_dir()
}

fn print(place: &Place, json: &serde_json::Value, text: &str) -> anyhow::Result<Outcome> {
    let mut out = std::io::stdout().lock();
    if place.json {
        writeln!(out, "{json:#}")?;
    } else {
        write!(out, "{text}")?;
    }
    Ok(Outcome::Fine)
}

/// Shows how far a long task is, on a terminal.
fn with_progress<T>(what: &str, task: impl FnOnce(&mut dyn FnMut(u64)) -> anyhow::Result<T>) -> anyhow::Result<T> {
    let bar = if std::io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    let template = format!("{{spinner}} {{pos}} {what}, {{per_sec}}, {{elapsed}}");
    bar.set_style(ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_spinner()));
    let done = task(&mut |count| bar.set_position(count));
    bar.finish_and_clear();
    done
}

fn verify(place: &Place) -> anyhow::Result<Outcome> {
    let store = open(place)?;
    let findings = with_progress("entries", |progress| store.verify(progress).map_err(Into::into))?;
    let listed: Vec<_> = findings.iter().map(|each| json!({ "table": each.table, "what": each.what })).collect();
    let text = match findings.as_slice() {
        [] => "everything agrees\n".to_owned(),
        findings => findings.iter().map(|each| format!("{}: {}\n", each.table, each.what)).collect(),
    };
    print(place, &json!({ "ok": findings.is_empty(), "findings": listed }), &text)?;
    Ok(if findings.is_empty() { Outcome::Fine } else { Outcome::FoundProblem })
}

fn instant(millis: i64) -> String {
    Timestamp::from_millisecond(millis).map_or_else(|_| millis.to_string(), |instant| instant.to_string())
}

fn stat_json(stat: &Stat) -> serde_json::Value {
    let tables: Vec<_> = stat
        .tables
        .iter()
        .map(|table| {
            let indexes: serde_json::Map<_, _> =
                table.indexes.iter().map(|(name, entries)| (name.clone(), (*entries).into())).collect();
            json!({
                "name": table.name,
                "items": table.items,
                "itemBytes": table.item_bytes,
                "indexes": indexes,
                "changes": table.changes,
                "oldestChange": table.oldest_change.map(instant),
            })
        })
        .collect();
    json!({
        "format": stat.format,
        "diskBytes": stat.disk_bytes,
        "contentHash": stat.content_hash,
        "tables": tables,
    })
}

fn stat_text(stat: &Stat) -> String {
    let mut out =
        format!("format {}, {} on disk\ncontent {}\n", stat.format, bytes(stat.disk_bytes), stat.content_hash);
    // Writing to a string does not fail.
    for table in &stat.tables {
        let _ = writeln!(out, "{}", table.name);
        let _ = writeln!(out, "  {} items, {}", table.items, bytes(table.item_bytes));
        for (name, entries) in &table.indexes {
            let _ = writeln!(out, "  {entries} entries in {name}");
        }
        let since = table.oldest_change.map_or_else(String::new, |oldest| format!(" since {}", instant(oldest)));
        let _ = writeln!(out, "  {} changes{since}", table.changes);
    }
    out
}

fn backup_json(made: &Backup, place: &Path) -> serde_json::Value {
    json!({ "place": place, "tables": made.tables, "items": made.items, "contentHash": made.content_hash })
}

fn backup_text(done: &str, made: &Backup, place: &Path) -> String {
    format!(
        "{} tables and {} items {done} {}\ncontent {}\n",
        made.tables,
        made.items,
        place.display(),
        made.content_hash
    )
}

fn bytes(count: u64) -> String {
    match count {
        0..1_024 => format!("{count} B"),
        1_024..1_048_576 => format!("{:.1} KiB", count as f64 / 1_024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", count as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", count as f64 / 1_073_741_824.0),
    }
}
