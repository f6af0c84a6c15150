//! The progress of long work, on a terminal.

use std::{io::IsTerminal as _, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};

/// A bar; hidden where there is no terminal.
pub(crate) fn bar(template: &str, total: Option<u64>) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = total.map_or_else(ProgressBar::new_spinner, ProgressBar::new).with_style(style(template));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Shows how far a long task is.
pub(crate) fn with_progress<T>(
    what: &str,
    task: impl FnOnce(&mut dyn FnMut(u64)) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let bar = bar(&format!("{{spinner}} {{human_pos}} {what}, {{per_sec}}, {{elapsed}}"), None);
    let done = task(&mut |count| bar.set_position(count));
    bar.finish_and_clear();
    done
}

/// A bar that counts events, with their speed.
pub(crate) fn of_events(what: &str) -> ProgressBar {
    bar(&format!("{{spinner}} {what} {{human_pos}}, {{per_sec}}, {{elapsed}} {{msg}}"), None)
}

/// Starts again with a total, and with the time left.
pub(crate) fn restart(bar: &ProgressBar, what: &str, total: u64) {
    let numbers = "{bar:30} {human_pos}/{human_len}, {per_sec}, {eta} left {msg}";
    bar.set_style(style(&format!("{{spinner}} {what} {numbers}")));
    bar.set_length(total);
    bar.reset();
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}
