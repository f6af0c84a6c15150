//! Flags for the embedded store.

use std::time::Duration;

use nagaya_embedded::Options;

/// Retention and disk space of the embedded store.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct EmbeddedStoreArgs {
    /// How long changes are retained, such as `36h` or `7d`: `store restore --at` can go back this far
    ///
    /// Give the same value to every command that opens the directory, or set the variable: a command with a shorter retention
    /// deletes older changes.
    #[arg(long, help_heading = "Embedded store", value_name = "TIME", default_value = "7d", env = "NAGAYA_RETENTION", value_parser = parse_duration)]
    retention: Duration,
    /// Free bytes that the disk must have. With less, writes are answered 507. With less than twice as much, a warning is
    /// logged. 0 turns the check off
    #[arg(long, help_heading = "Embedded store", value_name = "BYTES", default_value_t = Options::default().min_free_bytes, env = "NAGAYA_MIN_FREE_SPACE")]
    min_free_space: u64,
}

impl EmbeddedStoreArgs {
    pub(crate) fn options(&self) -> Options {
        Options { retention: self.retention, min_free_bytes: self.min_free_space, ..Options::default() }
    }
}

/// Parses a number with a unit.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || "has to be a number with a unit, such as 90s, 30m, 36h or 7d".to_owned();
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = text.strip_suffix(unit).and_then(|number| number.parse().ok()).ok_or_else(wrong)?;
    Ok(Duration::from_secs(number.checked_mul(seconds).ok_or_else(wrong)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        for (text, seconds) in [("90s", 90), ("30m", 1_800), ("36h", 129_600), ("7d", 604_800), ("0s", 0)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "7", "d", "7w", "-1d", "7 d", "1.5h", "七d", "99999999999999999999d", "18446744073709551615d"]
        {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
