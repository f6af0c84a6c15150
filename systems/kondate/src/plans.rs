//! The current and the next plan: a set is applied to either, and the next plan is promoted to the current one.

use std::sync::Arc;

use axum::http::Method;
use nagaya_design::{Design, Field, Verb};
use nagaya_server::{Answer, Call, CustomRoute, Problem, ProblemCode, RequestBody as _, request_body};
use nagaya_tenancy::{Error, ErrorKind, Record, Tenant};
use serde_json::{Map, Value as Json, json};

use crate::product::{collected, fields, item, retried, unless_lost_race};

pub(crate) const PLAN: &str = "plan";
pub(crate) const CURRENT: &str = "CURRENT";
pub(crate) const NEXT: &str = "NEXT";

request_body! {
    /// The body that applies a set.
    struct ApplySet of "set" {
        set_id: String = "setId",
    }
}

pub(crate) fn routes(design: &Design) -> Vec<CustomRoute> {
    vec![
        CustomRoute::new(Method::POST, "/plans/{slot}/apply", APPLY, apply)
            .requires(PLAN, Verb::Update)
            .parameter(json!({ "$ref": "#/components/parameters/IfMatch" }))
            .body(ApplySet::schema(design))
            .answers(200, Some(item("Plan"))),
        CustomRoute::new(Method::POST, "/plans/promote", PROMOTE, promote)
            .requires(PLAN, Verb::Update)
            .answers(200, Some(item("Plan"))),
    ]
}

const APPLY: &str = "Applies a set to a plan: its items replace those of the plan.";
const NOTHING_NEXT: &str = "There is no next plan: make one, or apply a set to `NEXT`.";
const PROMOTE: &str = "Makes the next plan the current one; what was cooked of the old one becomes cooking logs.";

/// Copies the items of a set into a plan, none of them cooked; with `If-Match`, only into that version of the plan.
async fn apply(call: Arc<Call>) -> Result<Answer, Problem> {
    // The plan is one of the two, and the set is the caller's own.
    let slot =
        call.path_parameter("slot").filter(|slot| [CURRENT, NEXT].contains(slot)).ok_or_else(Problem::not_found)?;
    let ApplySet { set_id } = call.parse_body()?;
    let tenant = call.tenant()?;

    let applied = retried(|| async {
        let mut found = tenant.get_many(&[("set", &[&set_id]), (PLAN, &[slot])]).await?.into_iter();
        let (set, plan) = (found.next().flatten(), found.next().flatten());
        let set = set.ok_or_else(|| Problem::not_found().with_field("setId", "There is no such set."))?;
        let mut copied = copy_of(&set);
        copied.insert("appliedAt".to_owned(), call.timestamp_now(PLAN, "appliedAt"));
        copied.insert("menuId".to_owned(), call.ids().ulid(call.now_millis()).into());
        let applied = match &plan {
            Some(plan) => {
                call.check_if_match(plan)?;
                tenant.update(PLAN, &[slot], copied, plan).await
            }
            None if call.header("if-match").is_some() => {
                let detail = "There is no plan to be the expected one: leave `If-Match` out to make it.";
                return Err(Problem::of(ProblemCode::VERSION_CONFLICT, detail));
            }
            None => {
                copied.insert("slot".to_owned(), slot.into());
                tenant.create(PLAN, copied).await
            }
        };
        unless_lost_race(applied)
    });
    applied.await.map(Answer::record)
}

/// The fields of a plan that a set gives.
fn copy_of(set: &Record) -> Map<String, Json> {
    let items = set.json("items").unwrap_or_default();
    let copy = |item: &Json| {
        let mut item = fields(item.clone());
        item.insert("cooked".to_owned(), false.into());
        Json::Object(item)
    };
    let items: Vec<_> = items.as_array().into_iter().flatten().map(copy).collect();
    fields(json!({ "setId": set.text("setId"), "setTitle": set.text("title"), "items": items }))
}

/// Makes the next plan the current one, and creates cooking logs for what was cooked of the old one, in one transaction. Of
/// concurrent promotions one succeeds.
async fn promote(call: Arc<Call>) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;

    let promoted = retried(|| async {
        let mut found = tenant.get_many(&[(PLAN, &[CURRENT]), (PLAN, &[NEXT])]).await?.into_iter();
        let (current, next) = (found.next().flatten(), found.next().flatten());
        let next = next.ok_or_else(|| Problem::conflict("nothing_next", NOTHING_NEXT))?;
        unless_lost_race(promote_next_plan(&tenant, current.as_ref(), &next, taken(call.design(), &next)).await)
    });
    promoted.await.map(Answer::record)
}

/// Replaces the current plan by the next one, if neither has changed.
async fn promote_next_plan(
    tenant: &Tenant,
    current: Option<&Record>,
    next: &Record,
    mut plan: Map<String, Json>,
) -> Result<Record, Error> {
    let set = match current {
        Some(current) => tenant.change_set().update(PLAN, &[CURRENT], plan, current),
        None => {
            plan.insert("slot".to_owned(), CURRENT.into());
            tenant.change_set().create(PLAN, plan)
        }
    };
    let set = set.delete(PLAN, &[NEXT], next);
    let set = current.into_iter().flat_map(cooked).fold(set, |set, log| set.create("cooklog", log));
    let promoted = set.commit().await?.into_iter().next().flatten();
    promoted.ok_or_else(|| ErrorKind::NotFound { entity: PLAN.to_owned() }.into())
}

/// The fields that the current plan takes from the next one: all but its key, its version and the time of its last change.
fn taken(design: &Design, next: &Record) -> Map<String, Json> {
    let taken = design.entity(PLAN).into_iter().flat_map(|plan| {
        let own = |name: &str| plan.is_key_field(name) || plan.version.as_deref() == Some(name) || name == "updatedAt";
        plan.fields.iter().filter(move |field| !own(&field.name))
    });
    let value = |field: &Field| match next.json(&field.name) {
        // A field that the next plan does not have is removed.
        None if field.optional => Some(Json::Null),
        said => said,
    };
    collected(taken.filter_map(|field| Some((field.name.clone(), value(field)?))))
}

/// The logs of the cooked items of a plan. An item without a date was cooked today.
fn cooked(plan: &Record) -> Vec<Map<String, Json>> {
    let items = plan.json("items").unwrap_or_default();
    let log = |item: &Json| {
        let said = ["date", "title", "recipeId", "servings"];
        let said = said.into_iter().filter_map(|field| Some((field.to_owned(), item.get(field)?.clone())));
        let said = said.filter(|(_, value)| !value.is_null());
        collected(said.chain(plan.json("setId").map(|set| ("setId".to_owned(), set))))
    };
    items.as_array().into_iter().flatten().filter(|item| item["cooked"] == true).map(log).collect()
}
