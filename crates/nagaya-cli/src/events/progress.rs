//! The progress of long work, on a terminal.

use std::{io::IsTerminal as _, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};

/// A bar with the time left if the total is known, else with the speed.
pub(super) fn bar(what: &str, total: Option<u64>) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = total.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
    let bar = bar.with_style(style(what, total.is_some()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Starts again with a total.
pub(super) fn again(bar: &ProgressBar, what: &str, total: u64) {
    bar.set_style(style(what, true));
    bar.set_length(total);
    bar.reset();
}

fn style(what: &str, known: bool) -> ProgressStyle {
    let template = match known {
        true => format!("{{spinner}} {what} {{bar:30}} {{human_pos}}/{{human_len}}, {{per_sec}}, {{eta}} left {{msg}}"),
        false => format!("{{spinner}} {what} {{human_pos}}, {{per_sec}}, {{elapsed}} {{msg}}"),
    };
    ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}
