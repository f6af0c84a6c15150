//! `nagaya schema`: the language as a JSON Schema.

use std::io::Write as _;

use super::Outcome;

/// Print the JSON Schema of the design language, for editors
#[derive(Debug, clap::Args)]
#[command(after_help = "Write it to a file and name that file in the first line of a design:\n\n    \
                        #:schema ./nagaya.schema.json\n\nEditors with a TOML language server (Taplo, Even Better TOML) \
                        then complete keys and show what they mean.")]
pub(super) struct Args {
    /// Print JSON, which it always does
    #[arg(long, hide = true)]
    json: bool,
}

pub(super) fn run(_: &Args) -> anyhow::Result<Outcome> {
    writeln!(std::io::stdout(), "{:#}", nagaya_design::json_schema())?;
    Ok(Outcome::Fine)
}
