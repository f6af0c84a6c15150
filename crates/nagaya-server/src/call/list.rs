//! The parameters of a list: from the path and the query to an access pattern.

use nagaya_design::{AccessPattern, MAX_PAGE, ResultKind};
use nagaya_tenancy::{ErrorKind, List, Page};

use crate::{Call, Problem, ProblemCode, problem::sentence};

impl Call {
    /// A page of an access pattern, by the parameters of the request. `besides` names parameters that the access pattern
    /// does not have.
    pub async fn list(&self, access: &str, besides: &[&str]) -> Result<Page, Problem> {
        let access = self.design().access_pattern(access).ok_or_else(Problem::not_found)?;
        self.list_access(access, besides).await
    }

    pub(crate) async fn list_access(&self, access: &AccessPattern, besides: &[&str]) -> Result<Page, Problem> {
        let handle = self.read_handle()?;
        let mut list = List::by(&access.name);
        let mut seen: Vec<&str> = Vec::new();
        let in_path = self.route.parameters().zip(&self.path);
        let in_query = self.query.iter().map(|(name, value)| (name.as_str(), value));
        for (name, value) in in_path.chain(in_query) {
            // A parameter has one value.
            if seen.contains(&name) {
                return Err(Problem::bad_parameter(name, "Is given twice."));
            }
            seen.push(name);
            if besides.contains(&name) {
                continue;
            }
            list = match (name, access.returns) {
                ("limit", ResultKind::Many) => list.limit(limit(value)?),
                ("order", ResultKind::Many) => list.descending(descending(value)?),
                ("cursor", ResultKind::Many) => list.cursor(value),
                _ => list.with(name, value),
            };
        }
        if let Some(head) = self.design().head_of_listed_events(access) {
            // Another tenant's events are not read to leave them out: that takes the longer the more there are.
            let value = |field| self.path_parameter(field).or_else(|| self.query_parameter(field));
            let id: Option<Vec<_>> = head.id_fields().into_iter().map(value).collect();
            // Without its id, the list says which parameter is missing.
            if let Some(id) = id {
                handle.get(&head.name, &id).await?;
            }
        }
        handle.list(&list).await.map_err(|error| self.parameter_problem(error))
    }

    /// An invalid list is the fault of its parameters: the request has no body.
    fn parameter_problem(&self, error: nagaya_tenancy::Error) -> Problem {
        match error.kind() {
            // No item has such a path.
            ErrorKind::Invalid(problems)
                if problems.iter().any(|each| self.route.parameters().any(|name| name == each.path)) =>
            {
                Problem::not_found()
            }
            ErrorKind::Invalid(problems) => {
                let problem =
                    Problem::from_code(ProblemCode::BAD_PARAMETER, "A parameter is wrong; `errors` says which.");
                problems.iter().fold(problem, |all, each| all.with_parameter(&each.path, sentence(&each.message)))
            }
            _ => error.into(),
        }
    }
}

fn limit(text: &str) -> Result<usize, Problem> {
    let limit = text.parse().ok().filter(|limit| (1..=MAX_PAGE).contains(limit));
    limit.ok_or_else(|| Problem::bad_parameter("limit", "Has to be a whole number from 1 to 1000."))
}

fn descending(text: &str) -> Result<bool, Problem> {
    match text {
        "asc" => Ok(false),
        "desc" => Ok(true),
        _ => Err(Problem::bad_parameter("order", "Has to be `asc` or `desc`.")),
    }
}
