//! Results on the standard output.

use std::io::Write as _;

use jiff::Timestamp;
use serde_json::Value as Json;

/// Prints a result, for programs or for people.
pub(crate) fn print(as_json: bool, json: &Json, text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if as_json {
        writeln!(out, "{json:#}")?;
    } else {
        write!(out, "{text}")?;
    }
    Ok(())
}

/// An instant as text.
pub(crate) fn instant(millis: i64) -> String {
    Timestamp::from_millisecond(millis).map_or_else(|_| millis.to_string(), |instant| instant.to_string())
}
