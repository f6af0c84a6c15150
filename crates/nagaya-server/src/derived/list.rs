//! `GET` of an access pattern.

use axum::http::StatusCode;
use nagaya_design::{Access, Bound, Design, MAX_PAGE, Precision, Returns, Type};
use nagaya_tenancy::{ErrorKind, List, Page};
use serde_json::Value as Json;

use super::read::unless_known;
use crate::{Answer, Call, Problem, answer::Content, problem::sentence};

/// Answers an access pattern: a page, the one item, or how many there are.
pub(super) async fn list(call: &Call, at: usize) -> Result<Answer, Problem> {
    let access = &call.design().accesses[at];
    let page = page(call, access, &[]).await?;
    match access.returns {
        Returns::One => {
            let record = page.records.into_iter().next().ok_or_else(Problem::not_found)?;
            Ok(unless_known(call, record))
        }
        Returns::Many | Returns::Count => Ok(Answer::new(StatusCode::OK, Content::Page(page))),
    }
}

/// What a call asks of an access pattern; `besides` names parameters that are not the access pattern's.
pub(crate) async fn page(call: &Call, access: &Access, besides: &[&str]) -> Result<Page, Problem> {
    let reader = call.reader()?;
    let mut list = List::by(&access.name);
    let mut seen: Vec<&str> = Vec::new();
    let in_path = call.route.parameters().zip(&call.path).map(|(name, value)| (name, value, true));
    let in_query = call.query.iter().map(|(name, value)| (name.as_str(), value, false));
    for (name, value, is_path) in in_path.chain(in_query) {
        // A parameter has one value.
        if seen.contains(&name) {
            return Err(wrong(name, "Is given twice."));
        }
        seen.push(name);
        if besides.contains(&name) {
            continue;
        }
        list = match (name, access.returns) {
            ("limit", Returns::Many) => list.limit(limit(value)?),
            ("order", Returns::Many) => list.descending(descending(value)?),
            ("cursor", Returns::Many) => list.cursor(value),
            _ => {
                // A path that no item can have leads nowhere.
                check(call.design(), access, name, value)
                    .map_err(|problem| if is_path { Problem::not_found() } else { problem })?;
                list.with(name, value)
            }
        };
    }
    reader.list(&list).await.map_err(parameters)
}

/// Whether a field could have the value: to ask for what cannot be is a mistake, and not a question with an empty answer.
fn check(design: &Design, access: &Access, name: &str, text: &str) -> Result<(), Problem> {
    let entity = &design.entities[access.entity];
    // The ends of a range and the beginning of a text are looked at where they are used.
    match &access.bound {
        Bound::Range(field) if name != field && matches!(name, "from" | "to") => return Ok(()),
        Bound::Prefix(field) if name == field => return Ok(()),
        _ => {}
    }
    let asked = access.filter.iter().flat_map(|filter| filter.parameters()).find(|(each, _)| *each == name);
    let Some(field) = entity.field(asked.map_or(name, |(_, field)| field)) else { return Ok(()) };
    let value = match field.kind {
        Type::Integer | Type::Timestamp(Precision::Epoch) => text.parse::<i64>().ok().map(Json::from),
        Type::Number => text.parse::<serde_json::Number>().ok().map(Json::from),
        Type::Boolean => text.parse::<bool>().ok().map(Json::from),
        _ => None,
    };
    let mut problems = Vec::new();
    field.check(&value.unwrap_or_else(|| text.into()), name, &mut problems);
    problems.first().map_or(Ok(()), |problem| Err(wrong(name, &sentence(&problem.message))))
}

fn limit(text: &str) -> Result<usize, Problem> {
    let limit = text.parse().ok().filter(|limit| (1..=MAX_PAGE).contains(limit));
    limit.ok_or_else(|| wrong("limit", "Has to be a whole number from 1 to 1000."))
}

fn descending(text: &str) -> Result<bool, Problem> {
    match text {
        "asc" => Ok(false),
        "desc" => Ok(true),
        _ => Err(wrong("order", "Has to be `asc` or `desc`.")),
    }
}

fn wrong(parameter: &str, detail: &str) -> Problem {
    Problem::bad_parameter(parameter, detail)
}

/// What is wrong with a list is wrong with its parameters: it has no body.
fn parameters(error: nagaya_tenancy::Error) -> Problem {
    match error.kind() {
        ErrorKind::Invalid(problems) => {
            let problem = Problem::bad_request("bad_parameter", "A parameter is wrong; `errors` says which.");
            problems.iter().fold(problem, |all, each| all.parameter(&each.path, sentence(&each.message)))
        }
        _ => error.into(),
    }
}
