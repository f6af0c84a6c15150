//! Messages of the system to the user: they are read, one or all of them.

use std::sync::Arc;

use axum::http::Method;
use nagaya_design::Verb;
use nagaya_server::{Answer, Call, OwnRoute, Problem};
use nagaya_tenancy::{List, Retry};
use serde_json::{Map, Value as Json, json};

use crate::product::{AT_ONCE, fields, item, is_lost_race};

const NOTIFICATION: &str = "notification";
/// Characters of a title and of a body.
const LONGEST: (usize, usize) = (200, 2_000);

pub(crate) fn routes() -> Vec<OwnRoute> {
    let count = json!({ "read": { "type": "integer", "minimum": 0, "description": "How many were unread." } });
    let count = json!({ "type": "object", "properties": count, "required": ["read"] });
    vec![
        OwnRoute::new(Method::POST, "/notifications/{createdAt}/{notificationId}/read", "Marks one as read.", read)
            .needs(NOTIFICATION, Verb::Update)
            .answers(200, Some(item("Notification"))),
        OwnRoute::new(Method::POST, "/notifications/read", "Marks all as read.", read_all)
            .needs(NOTIFICATION, Verb::Update)
            .answers(200, Some(count)),
    ]
}

/// The fields of a message, for the set that does what it tells about: only the system makes them.
pub(crate) fn notification(kind: &str, title: &str, body: &str) -> Map<String, Json> {
    // It tells of other things, whose names may fill a whole field of their own.
    let short = |text: &str, longest| text.chars().take(longest).collect::<String>();
    fields(json!({ "kind": kind, "title": short(title, LONGEST.0), "body": short(body, LONGEST.1) }))
}

/// Marks one as read; when it was read first stays.
async fn read(call: Arc<Call>) -> Result<Answer, Problem> {
    let id = [call.parameter("createdAt").unwrap_or_default(), call.parameter("notificationId").unwrap_or_default()];
    let tenant = call.tenant()?;

    let mut retry = Retry::default();
    loop {
        retry.attempt().await?;
        let found = tenant.get(NOTIFICATION, &id).await?;
        if found.get("readAt").is_some() {
            return Ok(Answer::record(found));
        }
        match tenant.update(NOTIFICATION, &id, read_now(&call), &found).await {
            Err(error) if is_lost_race(&error) => {}
            read => return Ok(Answer::record(read?)),
        }
    }
}

/// Marks all as read that are there now, page by page; one that comes meanwhile is unread still.
async fn read_all(call: Arc<Call>) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;

    let mut unread = List::by("notifications_unread").limit(AT_ONCE);
    let mut read = 0;
    let mut retry = Retry::default();
    loop {
        let page = tenant.list(&unread).await?;
        let set = page.records.iter().fold(tenant.set(), |set, each| {
            let id = each.id();
            let id: Vec<_> = id.iter().map(String::as_str).collect();
            set.update(NOTIFICATION, &id, read_now(&call), each)
        });
        match set.commit().await {
            // One of them was read or deleted meanwhile: the page is another one now.
            Err(error) if is_lost_race(&error) => retry.attempt().await?,
            Err(error) => return Err(error.into()),
            Ok(_) => {
                read += page.records.len();
                match page.next {
                    Some(next) => unread = unread.cursor(next),
                    None => return Ok(Answer::data(json!({ "read": read }))),
                }
            }
        }
    }
}

fn read_now(call: &Call) -> Map<String, Json> {
    Map::from_iter([("readAt".to_owned(), call.moment(NOTIFICATION, "readAt"))])
}
