//! `GET /events`: what happens to the family's todos, as it happens.

use std::{convert::Infallible, time::Duration};

use axum::{body::Body, http::StatusCode};
use bytes::Bytes;
use futures_util::stream;
use nagaya_events::{FeedListener, Recorded};
use nagaya_server::{Answer, Call, Content, Problem};
use serde_json::{Value as Json, json};

use super::{Todos, errors::problem};

pub(super) const SUMMARY: &str = "Tells what happens to the family's todos as it happens (server-sent events).";

/// How often a line is sent when nothing happens, so that nobody in between takes the connection for dead.
const ALIVE: Duration = Duration::from_secs(15);

/// Server-sent events of the family, each at least once; `Last-Event-ID` begins after one that is known.
pub(super) async fn stream(todos: &Todos, call: &Call) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;
    let listening = todos.feed.listen(&tenant, call.header("last-event-id")).await.map_err(problem)?;
    let lines = stream::unfold(Some(listening), |listening| async move {
        let mut listening: FeedListener = listening?;
        let line = match tokio::time::timeout(ALIVE, listening.next()).await {
            Ok(Some(event)) => written(&event),
            // Too far behind, or the server stops: whoever listens begins anew from what it knows.
            Ok(None) => return None,
            Err(_elapsed) => ": still here\n\n".to_owned(),
        };
        Some((Ok::<_, Infallible>(Bytes::from(line)), Some(listening)))
    });
    // The first bytes go out at once, so that the other end knows that it listens.
    let first = stream::once(async { Ok(Bytes::from_static(b"retry: 1000\n\n")) });
    let body = Body::from_stream(futures_util::StreamExt::chain(first, lines));
    Ok(Answer::new(StatusCode::OK, Content::Stream("text/event-stream", body)))
}

/// An event as it is sent.
fn written(event: &Recorded) -> String {
    let data = json!({
        "aggregateId": event.aggregate,
        "aggregateVersion": event.version,
        "eventId": event.id,
        "eventType": event.raw.event_type,
        "data": event.raw.data,
        "metadata": event.metadata,
    });
    format!("id: {}\nevent: {}\ndata: {data}\n\n", event.id, event.raw.event_type)
}

pub(super) fn last_event() -> Json {
    json!({
        "name": "Last-Event-ID",
        "in": "header",
        "description": "The last event that is known; those after it, and some before it, are told first.",
        "schema": { "type": "string" },
    })
}
