//! Notifications: marked as read, one or all of them.

use std::sync::Arc;

use axum::http::Method;
use nagaya_design::Verb;
use nagaya_server::{Answer, Call, CustomRoute, Problem};
use nagaya_tenancy::{List, Retry};
use serde_json::{Map, Value as Json, json};

use crate::product::{MAX_CHANGES, item_schema, object_fields, retry_lost_races, unless_lost_race};

const NOTIFICATION_ENTITY: &str = "notification";
/// The most characters of a title and of a body.
const MAX_LENGTHS: (usize, usize) = (200, 2_000);

pub(crate) fn routes() -> Vec<CustomRoute> {
    let count = json!({ "read": { "type": "integer", "minimum": 0, "description": "How many were unread." } });
    let count = json!({ "type": "object", "properties": count, "required": ["read"] });
    vec![
        CustomRoute::new(Method::POST, "/notifications/{createdAt}/{notificationId}/read", "Marks one as read.", read)
            .requires_permission(NOTIFICATION_ENTITY, Verb::Update)
            .answers(200, Some(item_schema("Notification"))),
        CustomRoute::new(Method::POST, "/notifications/read", "Marks all as read.", read_all)
            .requires_permission(NOTIFICATION_ENTITY, Verb::Update)
            .answers(200, Some(count)),
    ]
}

/// The fields of a notification, for the change set that it reports. Only the system creates notifications.
pub(crate) fn notification_fields(kind: &str, title: &str, body: &str) -> Map<String, Json> {
    // Titles of other items may be longer.
    let cut = |text: &str, length| text.chars().take(length).collect::<String>();
    object_fields(json!({ "kind": kind, "title": cut(title, MAX_LENGTHS.0), "body": cut(body, MAX_LENGTHS.1) }))
}

/// Marks a notification as read, and keeps the time of the first reading.
async fn read(call: Arc<Call>) -> Result<Answer, Problem> {
    let id = call.path_parameters(["createdAt", "notificationId"]);
    let tenant = call.tenant()?;

    let read = retry_lost_races(|| async {
        let found = tenant.get(NOTIFICATION_ENTITY, &id).await?;
        if found.get("readAt").is_some() {
            return Ok(Some(found));
        }
        unless_lost_race(tenant.update(NOTIFICATION_ENTITY, &id, read_at_patch(&call), &found).await)
    });
    read.await.map(Answer::record)
}

/// Marks all notifications as read, page by page; those that arrive meanwhile stay unread.
async fn read_all(call: Arc<Call>) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;

    let mut unread = List::by("notifications_unread").limit(MAX_CHANGES);
    let mut read = 0;
    let mut retry = Retry::default();
    loop {
        let page = tenant.list(&unread).await?;
        let set = page.records.iter().fold(tenant.change_set(), |set, each| {
            let id = each.id();
            let id: Vec<_> = id.iter().map(String::as_str).collect();
            set.update(NOTIFICATION_ENTITY, &id, read_at_patch(&call), each)
        });
        match set.commit().await {
            // One of them was read or deleted meanwhile: read the page again.
            Err(error) if error.is_lost_race() => retry.attempt().await?,
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

fn read_at_patch(call: &Call) -> Map<String, Json> {
    object_fields(json!({ "readAt": call.timestamp_now(NOTIFICATION_ENTITY, "readAt") }))
}
