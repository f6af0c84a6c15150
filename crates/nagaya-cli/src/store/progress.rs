//! How far a long task is, on a terminal.

use std::io::IsTerminal as _;

use indicatif::{ProgressBar, ProgressStyle};

/// Shows how far a long task is, on a terminal.
pub(super) fn with_progress<T>(
    what: &str,
    task: impl FnOnce(&mut dyn FnMut(u64)) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let bar = if std::io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    let template = format!("{{spinner}} {{human_pos}} {what}, {{per_sec}}, {{elapsed}}");
    bar.set_style(ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_spinner()));
    let done = task(&mut |count| bar.set_position(count));
    bar.finish_and_clear();
    done
}
