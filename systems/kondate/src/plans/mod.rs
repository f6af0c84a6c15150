//! The current and the next plan: a set is applied to either, and the next plan is promoted to the current one.

mod cooked;

use std::sync::Arc;

use axum::http::Method;
use nagaya_design::{Design, Field, Verb};
use nagaya_server::{Answer, Call, CustomRoute, Problem, ProblemCode, RequestBody as _, request_body};
use nagaya_tenancy::{Error, ErrorKind, Record, Tenant};
use serde_json::{Map, Value as Json, json};

use crate::{
    catalog::{self, Kind},
    product::{find, item_schema, object_fields, object_from_fields, retry_lost_races, unless_lost_race},
};

pub(crate) const PLAN_ENTITY: &str = "plan";
pub(crate) const CURRENT_SLOT: &str = "CURRENT";
pub(crate) const NEXT_SLOT: &str = "NEXT";

request_body! {
    /// The body that applies a set.
    struct ApplySet of "set" {
        set_id: String = "setId",
    }
}

pub(crate) fn routes(design: &Design) -> Vec<CustomRoute> {
    let apply = CustomRoute::new(Method::POST, "/plans/{slot}/apply", APPLY_SUMMARY, apply)
        .requires_permission(PLAN_ENTITY, Verb::Update)
        .parameter(json!({ "$ref": "#/components/parameters/IfMatch" }))
        .body(ApplySet::schema(design))
        .answers(200, Some(item_schema("Plan")))
        .also_answers(402, catalog::PAYMENT_REQUIRED_DESCRIPTION);
    let promote = CustomRoute::new(Method::POST, "/plans/promote", PROMOTE_SUMMARY, promote)
        .requires_permission(PLAN_ENTITY, Verb::Update)
        .answers(200, Some(item_schema("Plan")));
    [apply, promote].into_iter().chain(cooked::routes(design)).collect()
}

/// The slot with this name, in either case.
pub(crate) fn slot_named(name: &str) -> Option<&'static str> {
    [CURRENT_SLOT, NEXT_SLOT].into_iter().find(|slot| slot.eq_ignore_ascii_case(name))
}

/// The slot in the path of a request.
pub(crate) fn slot_in_path(call: &Call) -> Result<&'static str, Problem> {
    call.path_parameter("slot").and_then(slot_named).ok_or_else(Problem::not_found)
}

/// Gives a slot in a body the form in which it is stored. What is no slot stays, and is refused later.
pub(crate) fn normalize_slot(body: &mut Map<String, Json>) {
    if let Some(slot) = body.get_mut("slot")
        && let Some(known) = slot.as_str().and_then(slot_named)
    {
        *slot = known.into();
    }
}

/// The same for a request of a derived route.
pub(crate) fn normalize_slots(call: &mut Call) {
    if call.subject().is_none_or(|(entity, _)| entity != PLAN_ENTITY) {
        return;
    }
    normalize_slot(&mut call.body);
    if let [slot] = call.path.as_mut_slice()
        && let Some(known) = slot_named(slot)
    {
        known.clone_into(slot);
    }
}

const APPLY_SUMMARY: &str =
    "Applies a set, of one's own or of the catalog, to a plan: its items replace those of the plan.";
const PROMOTE_SUMMARY: &str =
    "Makes the next plan the current one, and creates cooking logs for the cooked items of the old one.";

/// Copies the items of a set into a plan, none of them cooked; with `If-Match`, only into that version of the plan.
async fn apply(call: Arc<Call>) -> Result<Answer, Problem> {
    // The plan is one of the two.
    let slot = slot_in_path(&call)?;
    let ApplySet { set_id } = call.parse_body()?;
    let tenant = call.tenant()?;
    // The set is the caller's own, or one of the catalog that the caller may read in full.
    let set = match find(&tenant, "set", &[&set_id]).await? {
        Some(own) => own,
        None => match catalog::usable_item(&call, Kind::Set, &set_id).await? {
            Some(of_catalog) => of_catalog,
            None => return Err(Problem::not_found().with_field("setId", "There is no such set.")),
        },
    };

    let applied = retry_lost_races(|| async {
        let plan = find(&tenant, PLAN_ENTITY, &[slot]).await?;
        let mut copied = plan_fields_of_set(&set);
        copied.insert("appliedAt".to_owned(), call.timestamp_now(PLAN_ENTITY, "appliedAt"));
        copied.insert("menuId".to_owned(), call.ids().ulid(call.now_millis()).into());
        let applied = match &plan {
            Some(plan) => {
                call.check_if_match(plan)?;
                tenant.update(PLAN_ENTITY, &[slot], copied, plan).await
            }
            None if call.header("if-match").is_some() => {
                let detail = "There is no plan to be the expected one: leave `If-Match` out to make it.";
                return Err(Problem::from_code(ProblemCode::VERSION_CONFLICT, detail));
            }
            None => {
                copied.insert("slot".to_owned(), slot.into());
                tenant.create(PLAN_ENTITY, copied).await
            }
        };
        unless_lost_race(applied)
    });
    applied.await.map(Answer::record)
}

/// The fields of a plan that a set gives.
fn plan_fields_of_set(set: &Record) -> Map<String, Json> {
    let items = set.json("items").unwrap_or_default();
    let copy = |item: &Json| {
        let mut item = object_fields(item.clone());
        item.insert("cooked".to_owned(), false.into());
        Json::Object(item)
    };
    let items: Vec<_> = items.as_array().into_iter().flatten().map(copy).collect();
    object_fields(json!({ "setId": set.text("setId"), "setTitle": set.text("title"), "items": items }))
}

/// Makes the next plan the current one, and creates cooking logs for the cooked items of the old one, in one transaction. Of
/// concurrent promotions one succeeds.
async fn promote(call: Arc<Call>) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;

    let promoted = retry_lost_races(|| async {
        let mut found =
            tenant.get_many(&[(PLAN_ENTITY, &[CURRENT_SLOT]), (PLAN_ENTITY, &[NEXT_SLOT])]).await?.into_iter();
        let (current, next) = (found.next().flatten(), found.next().flatten());
        let next = next.ok_or_else(no_next_plan)?;
        unless_lost_race(
            promote_next_plan(&tenant, current.as_ref(), &next, fields_of_promoted_plan(call.design(), &next)).await,
        )
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
        Some(current) => tenant.change_set().update(PLAN_ENTITY, &[CURRENT_SLOT], plan, current),
        None => {
            plan.insert("slot".to_owned(), CURRENT_SLOT.into());
            tenant.change_set().create(PLAN_ENTITY, plan)
        }
    };
    let set = set.delete(PLAN_ENTITY, &[NEXT_SLOT], next);
    let set = current.into_iter().flat_map(cooked_meals).fold(set, |set, log| set.create("cooklog", log));
    let promoted = set.commit().await?.into_iter().next().flatten();
    promoted.ok_or_else(|| ErrorKind::NotFound { entity: PLAN_ENTITY.to_owned() }.into())
}

/// The fields that the current plan takes from the next one: all but its key, its version and the time of its last change.
fn fields_of_promoted_plan(design: &Design, next: &Record) -> Map<String, Json> {
    let fields = design.entity(PLAN_ENTITY).into_iter().flat_map(|plan| {
        let own = |name: &str| plan.is_key_field(name) || plan.version.as_deref() == Some(name) || name == "updatedAt";
        plan.fields.iter().filter(move |field| !own(&field.name))
    });
    let value = |field: &Field| match next.json(&field.name) {
        // A field that the next plan does not have is removed.
        None if field.optional => Some(Json::Null),
        said => said,
    };
    object_from_fields(fields.filter_map(|field| Some((field.name.clone(), value(field)?))))
}

/// The logs of the cooked items of a plan. An item without a date was cooked today.
fn cooked_meals(plan: &Record) -> Vec<Map<String, Json>> {
    let items = plan.json("items").unwrap_or_default();
    let log = |item: &Json| {
        let said = ["date", "title", "recipeId", "servings"];
        let said = said.into_iter().filter_map(|field| Some((field.to_owned(), item.get(field)?.clone())));
        let said = said.filter(|(_, value)| !value.is_null());
        object_from_fields(said.chain(plan.json("setId").map(|set| ("setId".to_owned(), set))))
    };
    items.as_array().into_iter().flatten().filter(|item| item["cooked"] == true).map(log).collect()
}

fn no_next_plan() -> Problem {
    let detail = "There is no next plan: make one, or apply a set to `NEXT`.";
    Problem::conflict("nothing_next", detail)
}
