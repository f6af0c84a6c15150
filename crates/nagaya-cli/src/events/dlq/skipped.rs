//! `nagaya events dlq skipped` and `unskip`: the events that were dropped.

use std::{fmt::Write as _, sync::Arc};

use anyhow::Context as _;
use nagaya_events::{Processor, Projection, SkippedEvent, UnparkOutcome};
use nagaya_tenancy::Operator;
use serde_json::{Value as Json, json};

use super::without_control_chars;
use crate::{
    Outcome,
    confirm::confirm,
    output::{counted, instant, print},
};

/// Which dropped events are taken back.
pub(super) struct Chosen<'a> {
    pub(super) id: &'a str,
    /// `None`: all of the aggregate.
    pub(super) version: Option<u64>,
}

/// A dropped event, and the projection that it was dropped from.
type Found<'p> = (&'p str, &'p Processor, SkippedEvent);

async fn find(processors: &[(Arc<dyn Projection>, Processor)]) -> anyhow::Result<Vec<Found<'_>>> {
    let mut found = Vec::new();
    for (projection, processor) in processors {
        let skipped = processor.skipped_events().await?;
        found.extend(skipped.into_iter().map(|event| (projection.entity(), processor, event)));
    }
    Ok(found)
}

pub(super) async fn list(in_json: bool, processors: &[(Arc<dyn Projection>, Processor)]) -> anyhow::Result<Outcome> {
    let found = find(processors).await?;
    let mut out: String = found.iter().map(text).collect();
    let _ = match found.len() {
        0 => writeln!(out, "no dropped events"),
        count => writeln!(out, "{}", counted(count as u64, "dropped event")),
    };
    let listed: Vec<_> = found.iter().map(json).collect();
    print(in_json, &json!({ "skippedEvents": listed }), &out, true)
}

pub(super) async fn take_back(
    in_json: bool,
    processors: &[(Arc<dyn Projection>, Processor)],
    chosen: &Chosen<'_>,
    operator: &Operator,
    yes: bool,
) -> anyhow::Result<Outcome> {
    let mut found = find(processors).await?;
    found.retain(|(_, _, event)| {
        event.aggregate == chosen.id && chosen.version.is_none_or(|version| event.version == version)
    });
    if found.is_empty() {
        eprintln!(
            "nagaya: no such event of {} was dropped; `nagaya events dlq skipped` lists those that were",
            without_control_chars(chosen.id)
        );
        return Ok(Outcome::FoundProblem);
    }
    if !yes {
        found.iter().for_each(|each| eprint!("{}", text(each)));
        eprintln!(
            "they would be applied again, in all generations; if that fails, the item goes back to the state before, and waits there"
        );
    }
    confirm(yes, "take them back?")?;
    let (mut out, mut results, mut fine) = (String::new(), Vec::new(), true);
    for (projection, processor, event) in &found {
        let done = processor.take_back(event, operator).await;
        let done =
            done.with_context(|| format!("version {} of {} was not taken back", event.version, event.aggregate))?;
        let up_to_date = done == UnparkOutcome::UpToDate;
        fine &= up_to_date;
        let _ = writeln!(
            out,
            "{} of {}: version {} is taken back, and it is {}",
            without_control_chars(&event.aggregate),
            without_control_chars(&event.tenant),
            event.version,
            if up_to_date { "up to date" } else { "blocked by an event that cannot be applied" }
        );
        results.push(json!({
            "projection": projection, "tenant": event.tenant, "id": event.aggregate, "version": event.version,
            "upToDate": up_to_date,
        }));
    }
    print(in_json, &json!({ "ok": fine, "results": results }), &out, fine)
}

fn text((projection, _, event): &Found<'_>) -> String {
    let what = match (event.event_type.as_str(), event.event.as_str()) {
        ("", "") => "which is missing".to_owned(),
        ("", id) => format!("which cannot be read ({id})"),
        (event_type, id) => format!("{event_type} ({id})"),
    };
    format!(
        "{} of {}: `{projection}` leaves out version {}, {}\n  dropped {} by {}: {}\n",
        without_control_chars(&event.aggregate),
        without_control_chars(&event.tenant),
        event.version,
        without_control_chars(&what),
        instant(event.at),
        without_control_chars(&event.by),
        without_control_chars(&event.reason),
    )
}

fn json((projection, _, event): &Found<'_>) -> Json {
    json!({
        "projection": projection,
        "tenant": event.tenant,
        "id": event.aggregate,
        "version": event.version,
        "eventId": event.event,
        "eventType": event.event_type,
        "by": event.by,
        "reason": event.reason,
        "droppedAt": instant(event.at),
    })
}
