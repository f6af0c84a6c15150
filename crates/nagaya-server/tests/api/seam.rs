//! What a system adds to its derived routes.

use axum::http::Method;
use nagaya_server::{Answer, Call, Extension, Later, OwnRoute, Problem, System};
use serde_json::json;

use crate::{
    desk::DESK,
    house::{House, design},
};

struct Desk;

impl Extension for Desk {
    fn routes(&self) -> Vec<OwnRoute> {
        let close = OwnRoute::new(
            Method::POST,
            "/tickets/{ticketId}/close",
            "Close a ticket.",
            async |call: std::sync::Arc<Call>| {
                let id = call.parameter("ticketId").unwrap_or_default().to_owned();
                let patch = json!({ "status": "closed" }).as_object().cloned().unwrap_or_default();
                Ok(Answer::record(call.tenant()?.update("ticket", &[&id], patch, None).await?))
            },
        );
        let teams = OwnRoute::new(Method::GET, "/teams", "No teams.", async |_| Ok(Answer::data(json!(["none"]))));
        vec![close.needs("ticket", nagaya_design::Verb::Update), teams]
    }

    fn before<'a>(&'a self, call: &'a mut Call) -> Later<'a, Result<Option<Answer>, Problem>> {
        Box::pin(async move {
            match call.subject() {
                Some(("ticket", nagaya_design::Verb::Create)) => {
                    if call.body.get("subject") == Some(&json!("forbidden")) {
                        return Err(Problem::forbidden("Not this."));
                    }
                    call.body.insert("tags".to_owned(), json!(["new"]));
                    Ok(None)
                }
                Some(("seat", _)) => Ok(Some(Answer::data(json!("sit anywhere")))),
                _ => Ok(None),
            }
        })
    }

    fn after<'a>(&'a self, _: &'a Call, answer: &'a mut Answer) -> Later<'a, Result<(), Problem>> {
        answer.set(axum::http::HeaderName::from_static("x-desk"), "yes");
        Box::pin(async { Ok(()) })
    }
}

#[test]
fn a_system_puts_its_own_before_after_and_in_place_of_what_is_derived() {
    let house = House::serve(System::new("desk", design(DESK), Desk));
    let t1 = house.client("t1", "admin");
    // Before: changed, or refused.
    let made = t1.post("/v1/tickets", &json!({ "ticketId": "a", "subject": "a" }));
    assert_eq!(made.data(201)["tags"], json!(["new"]));
    assert_eq!(t1.post("/v1/tickets", &json!({ "subject": "forbidden" })).problem(403), "forbidden");
    // After.
    assert_eq!(made.header("x-desk"), Some("yes"));
    // In place: by hook, and by route.
    assert_eq!(t1.get("/v1/seats").data(200), "sit anywhere");
    assert_eq!(t1.get("/v1/teams").data(200), &json!(["none"]));
    t1.post("/v1/teams", &json!({ "name": "A" })).data(201);
    // A route of its own, on this side of the wall only and for those who may.
    assert_eq!(t1.post("/v1/tickets/a/close", &json!({})).data(200)["status"], "closed");
    assert_eq!(house.client("t2", "admin").post("/v1/tickets/a/close", &json!({})).problem(404), "not_found");
    assert_eq!(house.client("t1", "viewer").post("/v1/tickets/a/close", &json!({})).problem(403), "forbidden");
    assert_eq!(house.nobody().post("/v1/tickets/a/close", &json!({})).problem(401), "no_token");
}
