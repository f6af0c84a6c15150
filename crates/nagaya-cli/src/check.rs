//! `nagaya check`: all problems of designs at once.

use std::{
    io::{IsTerminal as _, Write as _},
    path::PathBuf,
};

use nagaya_design::{Diagnostic, Engine, Severity, check};
use serde_json::json;

use super::{Outcome, report, source};

/// Check designs: every problem of a file at once, with its position and a remedy
#[derive(Debug, clap::Args)]
#[command(after_help = "A warning that you can live with is explained by a comment above its line that starts with \
                        its code:\n\n    # NG0304: a handful of tenants a day; the list is for operators.\n\nSuch a \
                        warning is counted but not shown; --all shows it. Every code has a page in \
                        docs/reference/errors/, which `nagaya explain CODE` prints.")]
pub(super) struct Args {
    /// Design files, or built-in systems (a file of that name wins); `-` reads the standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Also report what this engine cannot do (may be given several times)
    #[arg(long, value_enum, value_name = "ENGINE")]
    engine: Vec<EngineName>,
    /// Fail on warnings that no comment explains
    #[arg(long)]
    deny_warnings: bool,
    /// Show explained warnings too
    #[arg(long)]
    all: bool,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(super) enum EngineName {
    Embedded,
    Dynamodb,
    Cosmos,
}

impl From<EngineName> for Engine {
    fn from(name: EngineName) -> Engine {
        match name {
            EngineName::Embedded => Engine::Embedded,
            EngineName::Dynamodb => Engine::Dynamodb,
            EngineName::Cosmos => Engine::Cosmos,
        }
    }
}

/// The number of findings in all files.
#[derive(Debug, Default)]
struct Totals {
    errors: usize,
    warnings: usize,
    explained: usize,
}

impl Totals {
    fn count(&mut self, diagnostic: &Diagnostic) {
        match (diagnostic.severity(), &diagnostic.explained) {
            (Severity::Error, _) => self.errors += 1,
            (Severity::Warning, None) => self.warnings += 1,
            (Severity::Warning, Some(_)) => self.explained += 1,
        }
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let engines: Vec<Engine> = args.engine.iter().map(|name| (*name).into()).collect();
    let mut totals = Totals::default();
    let mut files = Vec::new();
    // A file that cannot be read is wrong usage, and is reported before any file is checked.
    let sources = args.files.iter().map(|path| source::read(path)).collect::<anyhow::Result<Vec<_>>>()?;
    for source in &sources {
        let checked = check(&source.text, &engines);
        checked.diagnostics.iter().for_each(|diagnostic| totals.count(diagnostic));
        if args.json {
            let diagnostics: Vec<_> = checked.diagnostics.iter().map(|each| report::json(source, each)).collect();
            files.push(json!({ "file": source.name, "ok": checked.design.is_some(), "diagnostics": diagnostics }));
        } else {
            let shown: Vec<_> =
                checked.diagnostics.iter().filter(|each| args.all || each.explained.is_none()).collect();
            report::show(source, &shown)?;
        }
    }
    let failed = totals.errors > 0 || args.deny_warnings && totals.warnings > 0;
    if args.json {
        let result = json!({
            "ok": !failed,
            "errors": totals.errors,
            "warnings": totals.warnings,
            "explained": totals.explained,
            "files": files,
        });
        writeln!(std::io::stdout(), "{result:#}")?;
    } else {
        writeln!(std::io::stdout(), "{}", summary(sources.len(), &totals))?;
    }
    Ok(if failed { Outcome::FoundProblem } else { Outcome::Fine })
}

fn summary(files: usize, totals: &Totals) -> String {
    let some = |count: usize, what: &str| match count {
        0 => format!("no {what}s"),
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    };
    let explained = match totals.explained {
        0 => String::new(),
        count => format!(" ({} explained)", some(count, "more")).replace("mores", "more"),
    };
    let text = format!(
        "{} checked: {}, {}{explained}",
        some(files, "design"),
        some(totals.errors, "error"),
        some(totals.warnings, "warning")
    );
    let plain = !std::io::stdout().is_terminal() || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    match (plain, totals.errors) {
        (true, _) => text,
        (false, 0) => format!("\u{1b}[32m{text}\u{1b}[0m"),
        (false, _) => format!("\u{1b}[31m{text}\u{1b}[0m"),
    }
}
