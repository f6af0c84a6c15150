//! Asks before an irreversible action.

use std::io::{BufRead as _, IsTerminal as _};

use anyhow::bail;

/// Asks unless `yes`; anything but a yes is an error.
pub(super) fn confirm(yes: bool, question: &str) -> anyhow::Result<()> {
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        bail!("nothing was done: there is no terminal to ask on; give --yes to go on without a question");
    }
    eprint!("{question} [y/N] ");
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => bail!("nothing was done"),
    }
}
