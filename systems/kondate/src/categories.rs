//! Categories, in the order of their positions.

use std::sync::Arc;

use axum::http::Method;
use nagaya_design::{Design, Verb};
use nagaya_server::{Answer, Call, CustomRoute, Problem};
use nagaya_tenancy::{List, Page, Record};
use serde_json::json;

use crate::product::{for_each_record, items_schema};

const CATEGORY_ENTITY: &str = "category";
const SCOPE: &str = "scope";
const LIST_SUMMARY: &str = "The categories of a scope in the order of their positions, all of them.";
/// Categories of a scope that are listed at most.
const MAX_CATEGORIES: usize = 1_000;

pub(crate) fn routes(design: &Design) -> Vec<CustomRoute> {
    let schema =
        design.entity(CATEGORY_ENTITY).and_then(|category| category.field(SCOPE)).map(|scope| scope.json_schema());
    vec![
        CustomRoute::new(Method::GET, "/categories", LIST_SUMMARY, list)
            .requires_permission(CATEGORY_ENTITY, Verb::Read)
            .parameter(json!({ "name": SCOPE, "in": "query", "required": true, "schema": schema }))
            .answers(200, Some(items_schema("Category"))),
    ]
}

/// The categories of a scope, by position; those with the same position in the order of their ids.
async fn list(call: Arc<Call>) -> Result<Answer, Problem> {
    if let Some((unknown, _)) = call.query.iter().find(|(name, _)| name != SCOPE) {
        return Err(Problem::bad_parameter(
            unknown,
            "Is not a parameter of this list: it has all categories of the scope, by position.",
        ));
    }
    if call.query.len() > 1 {
        return Err(Problem::bad_parameter(SCOPE, "Is given twice."));
    }
    let scope = call.query_parameter(SCOPE).ok_or_else(|| Problem::bad_parameter(SCOPE, "Is missing."))?;
    let field = call.design().entity(CATEGORY_ENTITY).and_then(|category| category.field(SCOPE));
    if let Some(field) = field.filter(|field| !field.accepts(&scope.into())) {
        return Err(Problem::bad_parameter(SCOPE, format!("Has to be {}.", field.expectation())));
    }

    let mut records: Vec<Record> = Vec::new();
    let all = List::by("categories").with(SCOPE, scope);
    if !for_each_record(&call.tenant()?, all, MAX_CATEGORIES, |category| records.push(category.clone())).await? {
        let detail = format!("The scope has more than {MAX_CATEGORIES} categories: delete some of them.");
        return Err(Problem::conflict("too_many_items", detail));
    }
    // The sort is stable: they come in the order of their ids.
    records
        .sort_by_key(|category| category.json("position").and_then(|position| position.as_i64()).unwrap_or_default());
    Ok(Answer::page(Page { records, next: None, count: None }))
}
