//! Times on the command line.

use std::time::Duration;

use anyhow::Context as _;
use jiff::{Span, SpanRelativeTo, Unit};

/// Parses a time such as `36h`.
pub(crate) fn parse_duration(text: &str) -> anyhow::Result<Duration> {
    let span: Span = text.parse().context("write it as 90s, 30m, 12h or 7d")?;
    let seconds =
        span.total((Unit::Second, SpanRelativeTo::days_are_24_hours())).context("write it in days, or shorter")?;
    Duration::try_from_secs_f64(seconds).context("it has to be zero or more")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        for (text, seconds) in [("90s", 90), ("30m", 1_800), ("36h", 129_600), ("7d", 604_800), ("0s", 0)] {
            assert_eq!(parse_duration(text).ok(), Some(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "7", "d", "1mo", "-1d", "七d", "99999999999999999999d", "18446744073709551615d"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
