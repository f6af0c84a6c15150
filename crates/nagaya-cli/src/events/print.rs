//! Output for people and programs.

use nagaya_events::RecordedEvent;
use serde_json::{Value as Json, json};

/// An event for programs.
pub(super) fn event_json(event: &RecordedEvent) -> Json {
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
pub(super) fn data_text(event: &RecordedEvent) -> String {
    without_control_chars(&Json::Object(event.raw.data.clone()).to_string())
}

/// A text without control characters, which could change a terminal.
pub(crate) fn without_control_chars(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}
