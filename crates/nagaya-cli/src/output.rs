//! Results on the standard output.

use std::io::Write as _;

use jiff::Timestamp;
use serde_json::Value as Json;

use super::Outcome;

/// Prints a result, for programs or for people; a command that is not `fine` has found a problem.
pub(crate) fn print(as_json: bool, json: &Json, text: &str, fine: bool) -> anyhow::Result<Outcome> {
    let mut out = std::io::stdout().lock();
    if as_json {
        writeln!(out, "{json:#}")?;
    } else {
        write!(out, "{text}")?;
    }
    Ok(if fine { Outcome::Fine } else { Outcome::FoundProblem })
}

/// An instant as text.
pub(crate) fn instant(millis: i64) -> String {
    Timestamp::from_millisecond(millis).map_or_else(|_| millis.to_string(), |instant| instant.to_string())
}

/// A number of things.
pub(crate) fn counted(count: u64, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}
