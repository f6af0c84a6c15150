//! `nagaya doctor`: verifies the settings, the files, the store and the running server against the checklist for production.
//!
//! Each check has a section in `docs/how-to/go-to-production.md`.

mod designs;
mod encryption;
mod files;
mod identity;
mod keys;
mod network;
mod owner;
mod running;
mod store;
mod trusted;

use std::fmt::Write as _;

use serde_json::json;

use super::{Outcome, serve};
use crate::{output::print, serve::StoreKind};

/// Verify the settings, files, store and server for production
///
/// Give it the flags and variables of `nagaya serve`: it reads them in the same way, and changes no data. It opens the
/// embedded store if no server has it open. The checklist is docs/how-to/go-to-production.md.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  nagaya doctor todo --issuer https://id.example.com --audience todo --behind-proxy\n  nagaya doctor \
                  --json                 with the variables of the server's unit file\n\nA running server is asked at its \
                  address and at that of --admin-listen.\nExits with 1 if there is a problem."
)]
#[group(id = "doctor")]
pub(super) struct Args {
    #[command(flatten)]
    serve: serve::Args,
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    /// Its section in the checklist.
    check: Check,
    state: State,
    /// What was found.
    found: String,
    /// What to do about it.
    remedy: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Ok,
    /// It works, and is less safe than it could be.
    Warning,
    /// It is not fit for production.
    Problem,
    /// It could not be verified here.
    Unknown,
    /// No program can verify it.
    ByHand,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Warning => "warning",
            State::Problem => "problem",
            State::Unknown => "unknown",
            State::ByHand => "by hand",
        }
    }
}

/// The checks, by their sections in the checklist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    Designs,
    Mode,
    Transport,
    AdminListener,
    Proxies,
    Cors,
    Issuer,
    TokenAge,
    Files,
    Store,
    Keys,
    Encryption,
    Space,
    Tables,
    Limits,
    Running,
    Operators,
    Backups,
    Alerts,
}

impl Check {
    const ALL: [Check; 19] = [
        Check::Designs,
        Check::Mode,
        Check::Transport,
        Check::AdminListener,
        Check::Proxies,
        Check::Cors,
        Check::Issuer,
        Check::TokenAge,
        Check::Files,
        Check::Store,
        Check::Keys,
        Check::Encryption,
        Check::Space,
        Check::Tables,
        Check::Limits,
        Check::Running,
        Check::Operators,
        Check::Backups,
        Check::Alerts,
    ];

    /// The title of its section.
    fn title(self) -> &'static str {
        match self {
            Check::Designs => "Designs",
            Check::Mode => "Production mode",
            Check::Transport => "TLS",
            Check::AdminListener => "Admin listener",
            Check::Proxies => "Proxies",
            Check::Cors => "CORS",
            Check::Issuer => "Issuer and audiences",
            Check::TokenAge => "Age of tokens and keys",
            Check::Files => "Files",
            Check::Store => "Store",
            Check::Keys => "Keys",
            Check::Encryption => "Encryption at rest",
            Check::Space => "Disk space",
            Check::Tables => "Tables",
            Check::Limits => "Limits",
            Check::Running => "Running server",
            Check::Operators => "Operators",
            Check::Backups => "Backups",
            Check::Alerts => "Alerts",
        }
    }

    fn ok(self, found: impl Into<String>) -> Finding {
        Finding { check: self, state: State::Ok, found: found.into(), remedy: None }
    }

    fn unknown(self, found: impl Into<String>) -> Finding {
        Finding { check: self, state: State::Unknown, found: found.into(), remedy: None }
    }

    fn warning(self, found: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { check: self, state: State::Warning, found: found.into(), remedy: Some(remedy.into()) }
    }

    fn problem(self, found: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { check: self, state: State::Problem, found: found.into(), remedy: Some(remedy.into()) }
    }

    fn by_hand(self, remedy: &str) -> Finding {
        let found = "no program can verify this".to_owned();
        Finding { check: self, state: State::ByHand, found, remedy: Some(remedy.to_owned()) }
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let findings = runtime.block_on(examine(&args.serve));
    let is_fine = findings.iter().all(|finding| finding.state != State::Problem);
    print(args.serve.json, &as_json(&findings), &as_text(&findings), is_fine)
}

async fn examine(args: &serve::Args) -> Vec<Finding> {
    let mut findings = Vec::new();
    let systems = designs::examine(args, &mut findings);
    network::examine(args, &mut findings);
    identity::examine(args, &systems, &mut findings).await;
    files::examine(args, &mut findings);
    let mut examined = encryption::ExaminedStore::default();
    if args.store.kind == StoreKind::Embedded {
        // Opening a store makes its files private, which would hide what is wrong with them.
        let is_fine = !findings.iter().any(|each| each.check == Check::Files && each.state == State::Problem);
        examined = encryption::examine(args, &systems, is_fine, &mut findings);
    } else if args.store.kind.is_in_cloud() {
        // The check of the tables says why it cannot be opened.
        examined.store = args.store.open().await.ok();
    }
    keys::examine(args, &systems, examined, &mut findings).await;
    store::examine(args, &systems, &mut findings).await;
    running::examine(args, &systems, &mut findings).await;
    findings.push(
        Check::Operators
            .by_hand("know who has an operator role at the issuer, and read their log: `nagaya audit list`"),
    );
    findings.push(
        Check::Backups.by_hand("run `nagaya store backup` on a schedule, keep it elsewhere, and restore one once"),
    );
    findings.push(
        Check::Alerts.by_hand("scrape the admin listener, and load the alerts of docs/how-to/operate-the-server.md"),
    );
    findings.sort_by_key(|finding| Check::ALL.iter().position(|check| *check == finding.check));
    findings
}

fn as_json(findings: &[Finding]) -> serde_json::Value {
    let finding = |each: &Finding| {
        json!({
            "check": each.check.title(),
            "state": each.state.name(),
            "found": each.found,
            "remedy": each.remedy,
        })
    };
    let count = |state: State| findings.iter().filter(|finding| finding.state == state).count();
    json!({
        "problems": count(State::Problem),
        "warnings": count(State::Warning),
        "findings": findings.iter().map(finding).collect::<Vec<_>>(),
    })
}

fn as_text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let Finding { check, state, found, remedy } = finding;
        let _ = writeln!(text, "{:<8} {}: {found}", state.name(), check.title());
        if let Some(remedy) = remedy {
            let _ = writeln!(text, "         → {remedy}");
        }
    }
    let count = |state: State| findings.iter().filter(|finding| finding.state == state).count() as u64;
    let counted = |state, name| crate::output::counted(count(state), name);
    let _ = writeln!(text, "\n{}, {}", counted(State::Problem, "problem"), counted(State::Warning, "warning"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_has_its_section_in_the_checklist() {
        let page = include_str!("../../../../docs/how-to/go-to-production.md");
        let sections: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("### ")).collect();
        assert_eq!(sections, Check::ALL.map(Check::title));
    }
}
