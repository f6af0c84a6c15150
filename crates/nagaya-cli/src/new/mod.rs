//! `nagaya new`: a first design to start from.

use std::{
    fs,
    io::{ErrorKind, Write as _},
    path::PathBuf,
};

use anyhow::{Context as _, bail};

use super::Outcome;
use crate::systems;

/// The template: a small design that fits any name.
const DESIGN_TEMPLATE: &str = include_str!("design.toml");
const NAME_PLACEHOLDER: &str = "@NAME@";
/// Table names, which contain it, stay well below the limits of stores.
const MAX_NAME_LENGTH: usize = 64;

/// Write a small, commented design to start from
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  nagaya new desk && nagaya check desk.toml && nagaya serve desk.toml")]
pub(super) struct Args {
    /// The name of the system: lower-case letters, digits and `-`, starting with a letter
    name: String,
    /// The directory to write NAME.toml into
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Print the design instead of writing a file
    #[arg(long, conflicts_with = "dir")]
    print: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let name = args.name.as_str();
    check_name(name)?;
    let design = DESIGN_TEMPLATE.replace(NAME_PLACEHOLDER, name);
    if args.print {
        std::io::stdout().write_all(design.as_bytes())?;
        return Ok(Outcome::Fine);
    }
    let file = format!("{name}.toml");
    let path = if args.dir.as_os_str() == "." { PathBuf::from(file) } else { args.dir.join(file) };
    let shown = path.display();
    fs::create_dir_all(&args.dir).with_context(|| format!("{} cannot be created", args.dir.display()))?;
    match fs::OpenOptions::new().write(true).create_new(true).open(&path) {
        Ok(mut file) => file.write_all(design.as_bytes()).with_context(|| format!("{shown} cannot be written"))?,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("{shown} exists, and is not replaced; choose another name or --dir")
        }
        Err(error) => return Err(error).with_context(|| format!("{shown} cannot be written")),
    }
    eprint!("{}", next_steps(&shown.to_string()));
    Ok(Outcome::Fine)
}

fn check_name(name: &str) -> anyhow::Result<()> {
    let allowed = |each: char| each.is_ascii_lowercase() || each.is_ascii_digit() || each == '-';
    if !name.starts_with(|first: char| first.is_ascii_lowercase()) || !name.chars().all(allowed) {
        bail!("`{name}` cannot name a system; use lower-case letters, digits and `-`, starting with a letter");
    }
    if name.len() > MAX_NAME_LENGTH {
        bail!("`{name}` is too long for the name of a system; {MAX_NAME_LENGTH} characters are enough");
    }
    // It would share that system's directory and tokens.
    if systems::names().any(|known| known == name) {
        bail!("`{name}` is the name of a built-in system; choose another one");
    }
    Ok(())
}

fn next_steps(file: &str) -> String {
    format!(
        "{file} is written. Next:

  nagaya check {file}
  nagaya serve {file} --watch

and in a second terminal, with a token for the team `demo`:

  TOKEN=$(nagaya token --system {file} --tenant demo --role admin)
  curl -H \"Authorization: Bearer $TOKEN\" http://127.0.0.1:8080/v1/items
"
    )
}
