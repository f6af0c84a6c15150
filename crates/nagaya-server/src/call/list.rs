//! The parameters of a list: from the path and the query to an access pattern.

use nagaya_design::{Access, Bound, Design, Precision, Returns, Type};
use nagaya_tenancy::{ErrorKind, List, Page};
use serde_json::Value as Json;

use crate::{Call, Problem, ProblemCode, problem::sentence};

/// Records of the largest page.
pub(crate) const MAX_LIMIT: usize = 1_000;

impl Call {
    /// A page of an access pattern, by the parameters of the request. `besides` names parameters that the access pattern
    /// does not have.
    pub async fn list(&self, access: &str, besides: &[&str]) -> Result<Page, Problem> {
        let access = self.design().access(access).ok_or_else(Problem::not_found)?;
        self.list_access(access, besides).await
    }

    pub(crate) async fn list_access(&self, access: &Access, besides: &[&str]) -> Result<Page, Problem> {
        let handle = self.read_handle()?;
        let mut list = List::by(&access.name);
        let mut seen: Vec<&str> = Vec::new();
        let in_path = self.route.parameters().zip(&self.path).map(|(name, value)| (name, value, true));
        let in_query = self.query.iter().map(|(name, value)| (name.as_str(), value, false));
        for (name, value, is_path) in in_path.chain(in_query) {
            // A parameter has one value.
            if seen.contains(&name) {
                return Err(Problem::bad_parameter(name, "Is given twice."));
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
                    // A path with a value that the field cannot have is no item's: 404.
                    check(self.design(), access, name, value)
                        .map_err(|problem| if is_path { Problem::not_found() } else { problem })?;
                    list.with(name, value)
                }
            };
        }
        handle.list(&list).await.map_err(parameter_problem)
    }
}

/// Refuses a value that the field cannot have: an empty page would hide the mistake.
fn check(design: &Design, access: &Access, name: &str, text: &str) -> Result<(), Problem> {
    let entity = &design.entities[access.entity];
    // The ends of a range and a prefix need not be values of the field; tenancy checks them.
    match &access.bound {
        Bound::Range(field) if name != field && matches!(name, "from" | "to") => return Ok(()),
        Bound::Prefix(field) if name == field => return Ok(()),
        _ => {}
    }
    let in_filter = access.filter.iter().flat_map(|filter| filter.parameters()).find(|(each, _)| *each == name);
    let Some(field) = entity.field(in_filter.map_or(name, |(_, field)| field)) else { return Ok(()) };
    let value = match field.kind {
        Type::Integer | Type::Timestamp(Precision::Epoch) => text.parse::<i64>().ok().map(Json::from),
        Type::Number => text.parse::<serde_json::Number>().ok().map(Json::from),
        Type::Boolean => text.parse::<bool>().ok().map(Json::from),
        _ => None,
    };
    let mut problems = Vec::new();
    field.check(&value.unwrap_or_else(|| text.into()), name, &mut problems);
    problems.first().map_or(Ok(()), |problem| Err(Problem::bad_parameter(name, sentence(&problem.message))))
}

fn limit(text: &str) -> Result<usize, Problem> {
    let limit = text.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
    limit.ok_or_else(|| Problem::bad_parameter("limit", "Has to be a whole number from 1 to 1000."))
}

fn descending(text: &str) -> Result<bool, Problem> {
    match text {
        "asc" => Ok(false),
        "desc" => Ok(true),
        _ => Err(Problem::bad_parameter("order", "Has to be `asc` or `desc`.")),
    }
}

/// An invalid list is the fault of its parameters: the request has no body.
fn parameter_problem(error: nagaya_tenancy::Error) -> Problem {
    match error.kind() {
        ErrorKind::Invalid(problems) => {
            let problem = Problem::of(ProblemCode::BAD_PARAMETER, "A parameter is wrong; `errors` says which.");
            problems.iter().fold(problem, |all, each| all.parameter(&each.path, sentence(&each.message)))
        }
        _ => error.into(),
    }
}
