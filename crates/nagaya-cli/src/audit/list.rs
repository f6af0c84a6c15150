//! `nagaya audit list`.

use std::{fmt::Write as _, io::Write as _};

use jiff::Timestamp;
use nagaya_server::log_entry_json;
use nagaya_tenancy::LogEntry;
use serde_json::json;

use super::LogArgs;
use crate::{Outcome, events::without_control_chars, output::instant};

/// List what operators did, the oldest first
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  nagaya audit list todo --reason 'yearly review'\n  nagaya audit list aiagent --reason 'ticket 4711' \
                  --tenant t1 --from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z"
)]
pub(super) struct Args {
    #[command(flatten)]
    log: LogArgs,
    /// Entries from this instant on, such as 2026-01-31T09:30:00Z
    #[arg(long, value_name = "INSTANT", value_parser = parse_instant)]
    from: Option<Timestamp>,
    /// Entries before this instant; by default now
    #[arg(long, value_name = "INSTANT", value_parser = parse_instant)]
    to: Option<Timestamp>,
    /// Entries of this operator
    #[arg(long, value_name = "USER", allow_hyphen_values = true)]
    operator: Option<String>,
    /// Entries that concern this tenant
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
}

fn parse_instant(text: &str) -> Result<Timestamp, &'static str> {
    text.parse().map_err(|_| "write an instant with its offset, such as 2026-01-31T09:30:00Z")
}

impl Args {
    fn is_wanted(&self, entry: &LogEntry) -> bool {
        let by = self.operator.as_ref().is_none_or(|operator| entry.actor == *operator);
        by && self.tenant.as_ref().is_none_or(|tenant| entry.tenant.as_ref() == Some(tenant))
    }
}

pub(super) async fn run(args: &Args) -> anyhow::Result<Outcome> {
    let now = Timestamp::now();
    let Some((operator, _, system)) = args.log.open().await? else { return Ok(Outcome::FoundProblem) };
    let from = args.from.map_or(0, Timestamp::as_millisecond);
    // What this command does itself is not listed.
    let to = args.to.unwrap_or(now).as_millisecond();
    let mut listing = operator.list_log(from, to).await?;
    // A log may be longer than the memory: each page is printed before the next one is read.
    let mut out = std::io::stdout().lock();
    let mut printed = 0_u64;
    if args.log.json {
        write!(out, "{{ \"system\": {}, \"entries\": [", json!(system))?;
    }
    while let Some(page) = listing.next_page().await? {
        for entry in page.iter().filter(|entry| args.is_wanted(entry)) {
            match args.log.json {
                true => write!(out, "{}\n{}", if printed > 0 { "," } else { "" }, log_entry_json(entry))?,
                false => write!(out, "{}", entry_text(entry))?,
            }
            printed += 1;
        }
        out.flush()?;
    }
    match args.log.json {
        true => writeln!(out, "\n] }}")?,
        false if printed == 0 => writeln!(out, "no entries")?,
        false => {}
    }
    Ok(Outcome::Fine)
}

fn entry_text(entry: &LogEntry) -> String {
    let by = match &entry.issuer {
        Some(issuer) => format!("{} ({issuer})", entry.actor),
        None => entry.actor.clone(),
    };
    let tenant = entry.tenant.as_ref().map_or_else(String::new, |tenant| format!(" of {tenant}"));
    let what = format!("{} {}{tenant}  by {by}: {}", entry.action, entry.target, entry.reason);
    let mut line = format!("{}  {}\n", instant(entry.at), without_control_chars(&what));
    for (field, change) in &entry.changes {
        let value = |name: &str| change.get(name).map_or_else(|| "-".to_owned(), ToString::to_string);
        let change = format!("{field}: {} → {}", value("old"), value("new"));
        // Writing to a text does not fail.
        let _ = writeln!(line, "    {}", without_control_chars(&change));
    }
    line
}
