//! `GET /events`: the events of the family as they happen.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    body::Body,
    http::{Method, StatusCode},
};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use nagaya_design::Verb;
use nagaya_events::{FeedListener, RecordedEvent};
use nagaya_server::{Answer, Call, Content, CustomRoute, Problem};
use serde_json::json;

use super::{Todos, errors::problem_from_error};

/// How often a comment is sent when there are no events, so that proxies keep the connection open.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

pub(super) fn route(todos: &Arc<Todos>) -> CustomRoute {
    let last_event = json!({
        "name": "Last-Event-ID",
        "in": "header",
        "description": "The last event that is known. Those after it, and some before it, are sent first.",
        "schema": { "type": "string" },
    });
    let summary = "Sends the events of the family's todos as they happen (server-sent events).";
    todos
        .route(Method::GET, "/events", summary, Verb::Read, stream)
        .parameter(last_event)
        .answers_stream("text/event-stream")
}

/// Server-sent events of the family, each at least once; `Last-Event-ID` starts after a known one.
async fn stream(todos: Arc<Todos>, call: Arc<Call>) -> Result<Answer, Problem> {
    let listener =
        todos.feed.listen(&call.tenant()?, call.header("last-event-id")).await.map_err(problem_from_error)?;
    let lines = stream::unfold(Some(listener), |listener| async move {
        let mut listener: FeedListener = listener?;
        let line = match tokio::time::timeout(KEEP_ALIVE_INTERVAL, listener.next()).await {
            Ok(Some(event)) => server_sent_event(&event),
            // Too far behind, or the server stops: the client reconnects after the last event that it has.
            Ok(None) => return None,
            Err(_elapsed) => ": still here\n\n".to_owned(),
        };
        Some((Ok::<_, Infallible>(Bytes::from(line)), Some(listener)))
    });
    // The first bytes are sent at once, so that the client knows that it is connected.
    let first = stream::once(async { Ok(Bytes::from_static(b"retry: 1000\n\n")) });
    let body = Body::from_stream(first.chain(lines));
    Ok(Answer::new(StatusCode::OK, Content::Stream("text/event-stream", body)))
}

fn server_sent_event(event: &RecordedEvent) -> String {
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
