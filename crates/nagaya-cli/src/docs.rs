//! `nagaya docs`: the document of a design.

use std::{fs, io::Write as _, path::PathBuf};

use anyhow::Context as _;

use super::{Outcome, source};

/// Write the document of a design: tables, keys, indexes, entities with examples, access patterns
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A design file, or a built-in system (a file of that name wins)
    design: PathBuf,
    /// Write one self-contained HTML page instead of Markdown
    #[arg(long)]
    html: bool,
    /// Write to this file instead of the standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the design itself as JSON: tables, entities, access patterns with their queries
    #[arg(long, conflicts_with = "html")]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let Some(design) = source::design(&args.design, &[])? else { return Ok(Outcome::FoundProblem) };
    let text = match (args.html, args.json) {
        (true, _) => nagaya_design::html(&design),
        (_, true) => format!("{:#}\n", nagaya_design::json(&design)),
        _ => nagaya_design::markdown(&design),
    };
    match &args.output {
        Some(path) => fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))?,
        None => std::io::stdout().write_all(text.as_bytes())?,
    }
    Ok(Outcome::Fine)
}
