//! `nagaya audit verify`.

use nagaya_tenancy::{LogFinding, LogFindingKind, LogHead, LogReport};
use serde_json::{Value as Json, json};

use super::LogArgs;
use crate::{
    Outcome,
    output::{counted, instant, print},
};

/// Verify that no entry was changed, or removed before its time
///
/// Each entry has a keyed hash that includes the one before, and the head of the log has the number and the hash of the last.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  nagaya audit verify todo --reason 'monthly check'\n  nagaya audit verify todo --reason 'monthly check' \
                  --expect-head 17-9f86d081…\n\nSomebody who can write to the store can put back an older state of the log. Note \
                  the head that is printed elsewhere, and give it to the next check by --expect-head.\n\nExit codes: 0 fine, 1 \
                  something was found, 2 the command could not run."
)]
pub(super) struct Args {
    #[command(flatten)]
    log: LogArgs,
    /// A head that this command printed earlier: the log must still have that entry
    #[arg(long, value_name = "HEAD")]
    expect_head: Option<LogHead>,
}

pub(super) async fn run(args: &Args) -> anyhow::Result<Outcome> {
    let Some((operator, _, system)) = args.log.open().await? else { return Ok(Outcome::FoundProblem) };
    let report = operator.verify_log(args.expect_head.as_ref()).await?;
    let fine = report.findings.is_empty();
    let shown = json!({
        "ok": fine,
        "system": system,
        "entries": report.entries,
        "expired": report.expired,
        "unchained": report.unchained,
        "head": report.head.to_string(),
        "findings": report.findings.iter().map(finding_json).collect::<Vec<_>>(),
        "furtherFindings": report.further_findings,
    });
    print(args.log.json, &shown, &report_text(&report), fine)
}

fn report_text(report: &LogReport) -> String {
    let line = |finding: &LogFinding| {
        let at = finding.at.map_or_else(String::new, |at| format!("{}  ", instant(at)));
        format!("{at}{}\n", described(finding))
    };
    let mut text: String = report.findings.iter().map(line).collect();
    if report.further_findings > 0 {
        text += &format!("and {} more\n", report.further_findings);
    }
    let entries = report.entries + report.unchained;
    let mut read = match entries {
        1 => "1 entry".to_owned(),
        entries => format!("{entries} entries"),
    };
    if report.unchained > 0 {
        read +=
            &format!(", of which {} before the log had a chain and cannot be verified", was_written(report.unchained));
    }
    if report.expired > 0 {
        read += &format!("; {} expired", report.expired);
    }
    text += &match report.finding_count() {
        0 => format!("{read}: nothing was changed or removed; the head is\n{}\n", report.head),
        findings => format!("{read}: {}\n", counted(findings, "finding")),
    };
    text
}

fn was_written(count: u64) -> String {
    if count == 1 { "1 was written".to_owned() } else { format!("{count} were written") }
}

fn described(finding: &LogFinding) -> String {
    let number = finding.number.unwrap_or_default();
    match &finding.kind {
        LogFindingKind::Changed => format!("entry {number} was changed"),
        LogFindingKind::Removed if finding.count == 1 => format!("entry {number} was removed before its time"),
        LogFindingKind::Removed => {
            let last = number + finding.count - 1;
            format!("entries {number} to {last} are missing, and at least the last of them was removed before its time")
        }
        LogFindingKind::Repeated => format!("there are two entries {number}"),
        LogFindingKind::Unlinked => format!("entry {number} does not follow the one before it"),
        LogFindingKind::Unchained => {
            "an entry is not part of the chain, although the log had one at that time".to_owned()
        }
        LogFindingKind::UnknownKey(key) => match finding.number {
            Some(number) => {
                format!("entry {number} cannot be verified: it was made with the key {key}, which is not known here")
            }
            None => format!("the head cannot be verified: it was made with the key {key}, which is not known here"),
        },
        LogFindingKind::HeadChanged => match finding.number {
            Some(number) => format!("the head before entry {number} was changed, or made with another key"),
            None => "the head was changed".to_owned(),
        },
        LogFindingKind::HeadReplaced => "the head was removed, or an older one was put back".to_owned(),
        LogFindingKind::NotAsNoted => {
            format!("entry {number} is not the one of --expect-head: an older log was put back")
        }
        LogFindingKind::NotedExpired => {
            format!("entry {number} of --expect-head is gone, so nothing can be compared: note the newest head")
        }
    }
}

fn finding_json(finding: &LogFinding) -> Json {
    json!({
        "kind": finding.kind.name(),
        "number": finding.number,
        "count": finding.count,
        "at": finding.at.map(instant),
        "message": described(finding),
    })
}
