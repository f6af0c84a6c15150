//! The hash chain: each event's hash includes the one before, so that a changed, removed or inserted event is detected.
//!
//! The last hash of an aggregate is stored in its head, which is written with every event.

use serde_json::{Map, Value as Json};

use crate::RecordedEvent;

/// The hash before the first event.
pub(crate) const HASH_BEFORE_FIRST: &str = "";

/// The hash of a chain after one more event.
pub(crate) fn next_hash(before: &str, event: &RecordedEvent) -> String {
    let mut hasher = blake3::Hasher::new();
    let mut add = |part: &[u8]| {
        // Each part is prefixed with its length, so that moving bytes from one part to the next changes the hash.
        hasher.update(&(part.len() as u64).to_be_bytes()).update(part);
    };
    [before, &event.tenant, &event.aggregate, &event.id, &event.raw.event_type]
        .into_iter()
        .for_each(|part| add(part.as_bytes()));
    add(&event.version.to_be_bytes());
    add(&event.raw.version.to_be_bytes());
    add(canonical(&event.raw.data).as_bytes());
    add(canonical(&event.metadata).as_bytes());
    hasher.finalize().to_hex().to_string()
}

/// Canonical JSON: equal values have the same text.
pub(crate) fn canonical(fields: &Map<String, Json>) -> String {
    let mut out = String::new();
    write_map(fields, &mut out);
    out
}

fn write_map(fields: &Map<String, Json>, out: &mut String) {
    let mut sorted: Vec<_> = fields.iter().collect();
    sorted.sort_by_key(|(name, _)| *name);
    out.push('{');
    for (at, (name, value)) in sorted.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        write_json_string(name, out);
        out.push(':');
        write(value, out);
    }
    out.push('}');
}

fn write(value: &Json, out: &mut String) {
    match value {
        Json::Object(fields) => write_map(fields, out),
        Json::Array(values) => {
            out.push('[');
            for (at, value) in values.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write(value, out);
            }
            out.push(']');
        }
        // An integer has one text, also when it was written as `1.0`.
        Json::Number(number) => match number.as_f64() {
            Some(float) if float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0 => {
                out.push_str(&(float as i64).to_string());
            }
            _ => out.push_str(&number.to_string()),
        },
        Json::String(text) => write_json_string(text, out),
        Json::Null => out.push_str("null"),
        Json::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
    }
}

fn write_json_string(text: &str, out: &mut String) {
    // Most texts need no escapes.
    if text.bytes().any(|byte| byte < b' ' || byte == b'"' || byte == b'\\') {
        out.push_str(&Json::from(text).to_string());
        return;
    }
    out.push('"');
    out.push_str(text);
    out.push('"');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_escaped_as_in_json() {
        for text in ["", "plain", "長屋", "\u{7f}", "a \"b\"", "\\", "\n", "\u{0}", "\u{1f}x"] {
            let fields = json!({ text: text, "other": [text, null, true, false] });
            let Json::Object(fields) = fields else { continue };
            assert_eq!(canonical(&fields), Json::Object(fields.clone()).to_string());
        }
    }
}
