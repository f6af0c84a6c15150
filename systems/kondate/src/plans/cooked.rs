//! Single dishes of a plan that are cooked.

use std::sync::Arc;

use axum::http::Method;
use nagaya_design::{Design, Verb};
use nagaya_server::{Answer, Call, CustomRoute, Problem, RequestBody as _, request_body};
use serde_json::{Value as Json, json};

use super::{PLAN_ENTITY, slot_in_path};
use crate::product::{item_schema, object_fields, retry_lost_races, unless_lost_race};

const PATH: &str = "/plans/{slot}/items/{position}/cooked";
const COOK_SUMMARY: &str = "Marks a dish of a plan as cooked, by its position in `items` from 0. With a `date`, the dish has this date, which \
                            is the day of its log when the next plan is promoted.";
const UNDO_SUMMARY: &str = "Marks a dish of a plan as not cooked; its date stays.";

request_body! {
    /// The body that marks a dish.
    struct Cooked of "cooklog" {
        date: Option<String> = "date",
    }
}

pub(super) fn routes(design: &Design) -> [CustomRoute; 2] {
    let route = |method, summary, is_cooked| {
        CustomRoute::new(method, PATH, summary, move |call| mark(call, is_cooked))
            .requires_permission(PLAN_ENTITY, Verb::Update)
            .parameter(json!({ "$ref": "#/components/parameters/IfMatch" }))
            .answers(200, Some(item_schema("Plan")))
    };
    let cook = route(Method::PUT, COOK_SUMMARY, true).body(Cooked::schema(design));
    [cook, route(Method::DELETE, UNDO_SUMMARY, false)]
}

/// Marks a dish as cooked or not; with `If-Match`, only in that version of the plan. The same again changes nothing.
async fn mark(call: Arc<Call>, is_cooked: bool) -> Result<Answer, Problem> {
    let slot = slot_in_path(&call)?;
    let position = position_in_path(&call).ok_or_else(Problem::not_found)?;
    let Cooked { date } = if is_cooked { call.parse_body()? } else { Cooked::default() };
    let tenant = call.tenant()?;

    let marked = retry_lost_races(|| async {
        let plan = tenant.get(PLAN_ENTITY, &[slot]).await?;
        call.check_if_match(&plan)?;
        let mut items = plan.json("items").unwrap_or_default();
        let dish = items.get_mut(position).and_then(Json::as_object_mut).ok_or_else(Problem::not_found)?;
        let before = dish.clone();
        if is_cooked || dish.contains_key("cooked") {
            dish.insert("cooked".to_owned(), is_cooked.into());
        }
        dish.extend(date.iter().map(|date| ("date".to_owned(), date.as_str().into())));
        if *dish == before {
            return Ok(Some(plan));
        }
        let patch = object_fields(json!({ "items": items }));
        unless_lost_race(tenant.update(PLAN_ENTITY, &[slot], patch, &plan).await)
    });
    marked.await.map(Answer::record)
}

/// The position of a dish: a whole number as it is usually written.
fn position_in_path(call: &Call) -> Option<usize> {
    let text = call.path_parameter("position")?;
    text.parse().ok().filter(|position: &usize| position.to_string() == text)
}
