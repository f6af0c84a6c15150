//! What led to what: events below the requests and events that caused them.

use std::{collections::BTreeMap, fmt::Write as _};

use nagaya_events::RecordedEvent;
use serde_json::{Value as Json, json};

use super::print::without_control_chars;

/// What led to an event.
#[derive(Debug, PartialEq, Eq)]
enum Cause<'e> {
    /// A request, or something else outside of the aggregate, and what it was part of.
    Outside { cause: &'e str, correlation: &'e str },
    /// An earlier event of the same aggregate.
    Event(&'e str),
}

/// An event at its place in the tree.
#[derive(Debug)]
struct Node<'e> {
    event: &'e RecordedEvent,
    cause: Cause<'e>,
    /// How many events of the aggregate led to it.
    depth: usize,
}

/// The tree of an aggregate's events: each right below what led to it.
#[derive(Debug)]
pub(super) struct CauseTree<'e>(Vec<Node<'e>>);

impl<'e> CauseTree<'e> {
    pub(super) fn from_events(events: &'e [RecordedEvent]) -> Self {
        let mut below: BTreeMap<&str, Vec<&RecordedEvent>> = BTreeMap::new();
        let mut outside: Vec<((&str, &str), Vec<&RecordedEvent>)> = Vec::new();
        let mut seen: BTreeMap<&str, ()> = BTreeMap::new();
        for event in events {
            let cause = event.metadata_text("causationId").unwrap_or_default();
            if seen.contains_key(cause) {
                below.entry(cause).or_default().push(event);
            } else {
                let from = (cause, event.metadata_text("correlationId").unwrap_or_default());
                match outside.iter_mut().find(|(known, _)| *known == from) {
                    Some((_, caused)) => caused.push(event),
                    None => outside.push((from, vec![event])),
                }
            }
            seen.insert(&event.id, ());
        }
        let mut nodes = Vec::with_capacity(events.len());
        for ((cause, correlation), caused) in outside {
            // By hand instead of by calls: events can cause each other thousands deep.
            let mut open: Vec<_> =
                caused.into_iter().rev().map(|event| (event, Cause::Outside { cause, correlation }, 0)).collect();
            while let Some((event, cause, depth)) = open.pop() {
                let caused = below.remove(event.id.as_str()).unwrap_or_default();
                open.extend(caused.into_iter().rev().map(|next| (next, Cause::Event(&event.id), depth + 1)));
                nodes.push(Node { event, cause, depth });
            }
        }
        CauseTree(nodes)
    }

    pub(super) fn json(&self) -> Json {
        let nodes = self.0.iter().map(|Node { event, cause, depth }| {
            let cause = match cause {
                Cause::Outside { cause, correlation } => json!({ "cause": cause, "correlationId": correlation }),
                Cause::Event(id) => json!({ "eventId": id }),
            };
            json!({ "eventId": event.id, "eventType": event.raw.event_type, "depth": depth, "causedBy": cause })
        });
        nodes.collect()
    }

    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        let (mut last, mut correlation) = (None, None);
        for Node { event, cause, depth } in &self.0 {
            if let Cause::Outside { cause: id, correlation: of } = cause
                && last != Some(cause)
            {
                // Writing to a text does not fail.
                let _ = match id == of {
                    true => writeln!(out, "  request {}", without_control_chars(id)),
                    false => writeln!(out, "  {}, part of {}", without_control_chars(id), without_control_chars(of)),
                };
                (last, correlation) = (Some(cause), Some(*of));
            }
            let own = match (cause, event.metadata_text("correlationId")) {
                (Cause::Event(_), Some(own)) if Some(own) != correlation => {
                    format!(", part of {}", without_control_chars(own))
                }
                _ => String::new(),
            };
            let _ = writeln!(
                out,
                "{:indent$}{} {}  {}{own}",
                "",
                event.version,
                without_control_chars(&event.raw.event_type),
                event.id,
                // What is deeper than a screen is wide is not told apart any more.
                indent = 4 + 2 * (*depth).min(20)
            );
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use nagaya_events::RawEvent;

    use super::*;

    fn event(version: u64, cause: &str, correlation: &str) -> RecordedEvent {
        let metadata = json!({ "causationId": cause, "correlationId": correlation });
        RecordedEvent {
            tenant: "t".to_owned(),
            aggregate: "a".to_owned(),
            version,
            id: format!("e{version}"),
            raw: RawEvent { event_type: "Changed".to_owned(), version: 1, data: serde_json::Map::new() },
            metadata: metadata.as_object().cloned().unwrap_or_default(),
            erased: false,
            undecrypted: None,
        }
    }

    #[test]
    fn events_stand_below_what_led_to_them() {
        let events = [
            event(1, "r1", "r1"),
            event(2, "r2", "shop"),
            event(3, "e1", "r1"),
            event(4, "r1", "r1"),
            event(5, "e3", "other"),
        ];
        let text = CauseTree::from_events(&events).text();
        let expected = "  request r1\n    1 Changed  e1\n      3 Changed  e3\n        5 Changed  e5, part of other\n    4 Changed  e4\n  \
                        r2, part of shop\n    2 Changed  e2\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn an_event_is_never_lost_however_they_are_tangled() {
        // One that names itself, and one that names a later one.
        let events = [event(1, "e1", "x"), event(2, "e3", "x"), event(3, "e2", "x")];
        let text = CauseTree::from_events(&events).text();
        assert!((1..=3).all(|at| text.contains(&format!("{at} Changed"))), "{text}");
        let deep: Vec<_> = (1..=10_000).map(|at| event(at, &format!("e{}", at - 1), "x")).collect();
        assert_eq!(CauseTree::from_events(&deep).json().as_array().map(Vec::len), Some(10_000));
    }
}
