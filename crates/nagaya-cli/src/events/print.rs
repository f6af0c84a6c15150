//! Output for people and programs.

use std::io::Write as _;

use jiff::Timestamp;
use nagaya_events::RecordedEvent;
use serde_json::{Value as Json, json};

/// Prints a result.
pub(super) fn print(as_json: bool, json: &Json, text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if as_json {
        writeln!(out, "{json:#}")?;
    } else {
        write!(out, "{text}")?;
    }
    Ok(())
}

/// An event for programs.
pub(super) fn event(event: &RecordedEvent) -> Json {
    json!({
        "tenant": event.tenant,
        "aggregateId": event.aggregate,
        "aggregateVersion": event.version,
        "eventId": event.id,
        "eventType": event.raw.event_type,
        "eventVersion": event.raw.version,
        "data": event.raw.data,
        "metadata": event.metadata,
        "erased": event.erased,
    })
}

/// An event's own fields in one line.
pub(super) fn data(event: &RecordedEvent) -> String {
    plain(&Json::Object(event.raw.data.clone()).to_string())
}

/// A text without control characters, which could change a terminal.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}

/// A number of things.
pub(super) fn counted(count: u64, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}

/// A moment.
pub(super) fn instant(millis: i64) -> String {
    Timestamp::from_millisecond(millis).map_or_else(|_| millis.to_string(), |instant| instant.to_string())
}
