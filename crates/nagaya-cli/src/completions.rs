//! `nagaya completions` and `nagaya man`: what shells and `man` read about the command.

use std::{fs, io::Write as _, path::PathBuf};

use anyhow::Context as _;
use clap::CommandFactory as _;
use clap_complete::Shell;

use super::{Cli, Outcome};

/// Print the completions of a shell
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  nagaya completions bash > ~/.local/share/bash-completion/completions/nagaya\n  nagaya \
                        completions zsh > \"${fpath[1]}/_nagaya\"\n  nagaya completions fish > \
                        ~/.config/fish/completions/nagaya.fish"
)]
pub(super) struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "nagaya", &mut text);
    std::io::stdout().write_all(&text)?;
    Ok(Outcome::Fine)
}

/// Write the man pages, one for each command
#[derive(Debug, clap::Args)]
pub(super) struct ManArgs {
    /// The directory to write them into
    #[arg(value_name = "DIR", default_value = "man")]
    dir: PathBuf,
}

pub(super) fn write_man_pages(args: &ManArgs) -> anyhow::Result<Outcome> {
    fs::create_dir_all(&args.dir).with_context(|| format!("{} cannot be created", args.dir.display()))?;
    clap_mangen::generate_to(Cli::command(), &args.dir)
        .with_context(|| format!("{} cannot be written", args.dir.display()))?;
    Ok(Outcome::Fine)
}
