//! Whether the caller's roles allow a route.

use nagaya_design::{Design, Verb};

use crate::{
    Caller, CustomRoute, Problem, RequiredCaller,
    route::{Operation, Route},
};

/// The entity and the verb that a role has to permit for a route; `None`: no role is needed.
pub(crate) fn required_permission<'r>(
    design: &'r Design,
    route: &Route,
    custom: &'r [CustomRoute],
) -> Option<(&'r str, Verb)> {
    match route.operation {
        Operation::Custom(id) => id.find_in(custom)?.requires.as_ref().map(|(entity, verb)| (entity.as_str(), *verb)),
        _ => route.subject(design).map(|(entity, verb)| (entity.name.as_str(), verb)),
    }
}

/// Refuses a caller whose roles do not allow a route; the problem names the roles that do.
pub(crate) fn authorize(
    design: &Design,
    route: &Route,
    custom: &[CustomRoute],
    caller: &Caller,
) -> Result<(), Problem> {
    let is_operator_route = route.required_caller == RequiredCaller::Operator;
    if is_operator_route && !caller.is_operator(design) {
        return Err(Problem::operators_only(design, caller));
    }
    // What a visitor without a token may read, every caller may read.
    if route.admits_visitors(design) {
        return Ok(());
    }
    match required_permission(design, route, custom) {
        Some((entity, verb)) if !design.permits(&caller.roles, entity, verb) => {
            let sufficient = design.roles_permitting(entity, verb, is_operator_route);
            Err(Problem::no_role(&format!("The roles of the token do not allow `{entity}.{verb}`"), &sufficient))
        }
        _ => Ok(()),
    }
}
