//! `GET` of an access pattern.

use axum::http::StatusCode;
use nagaya_design::{Access, MAX_PAGE, Returns};
use nagaya_tenancy::{ErrorKind, List, Page};

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
    let in_path = call.route.parameters().zip(&call.path);
    let in_query = call.query.iter().map(|(name, value)| (name.as_str(), value));
    for (name, value) in in_path.chain(in_query) {
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
            _ => list.with(name, value),
        };
    }
    reader.list(&list).await.map_err(|error| parameters(call, error))
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
fn parameters(call: &Call, error: nagaya_tenancy::Error) -> Problem {
    match error.kind() {
        // No item has such a path.
        ErrorKind::Invalid(problems)
            if problems.iter().any(|each| call.route.parameters().any(|name| name == each.path)) =>
        {
            Problem::not_found()
        }
        ErrorKind::Invalid(problems) => {
            let problem = Problem::bad_request("bad_parameter", "A parameter is wrong; `errors` says which.");
            problems.iter().fold(problem, |all, each| all.parameter(&each.path, sentence(&each.message)))
        }
        _ => error.into(),
    }
}
