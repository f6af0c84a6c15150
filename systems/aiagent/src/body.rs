//! Bodies of the product's own routes: which fields they have, and which are not the caller's to set.

use axum::http::StatusCode;
use nagaya_design::Design;
use nagaya_server::Problem;
use serde_json::{Map, Value as Json, json};

/// Refuses fields other than these.
pub(crate) fn only(body: &Map<String, Json>, allowed: &[&str], detail: &str, each: &str) -> Result<(), Problem> {
    let others = body.keys().map(String::as_str).filter(|field| !allowed.contains(field));
    refuse(others, Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail), each)
}

/// Refuses fields, if there are any.
pub(crate) fn refuse<'b>(
    fields: impl Iterator<Item = &'b str>,
    problem: Problem,
    each: &str,
) -> Result<(), Problem> {
    let mut fields = fields.peekable();
    if fields.peek().is_none() {
        return Ok(());
    }
    Err(fields.fold(problem, |problem, field| problem.at(field, each)))
}

/// The JSON Schema of a body with some fields of an entity, each under the name that it has in the body.
pub(crate) fn schema(design: &Design, entity: &str, fields: &[(&str, &str)]) -> Json {
    let field = |name: &str| design.entity(entity).and_then(|entity| entity.field(name));
    let named = fields.iter().filter_map(|(name, of)| Some((*name, field(of)?)));
    let properties: Map<_, _> = named.map(|(name, field)| (name.to_owned(), field.json_schema())).collect();
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

/// The names of an entity's fields that cannot be left out.
pub(crate) fn required(design: &Design, entity: &str, fields: &[&str]) -> Vec<String> {
    let field = |name: &&str| design.entity(entity).and_then(|entity| entity.field(name));
    let needed = fields.iter().filter(|name| field(name).is_some_and(|field| !field.optional && field.default.is_none()));
    needed.map(|name| (*name).to_owned()).collect()
}
