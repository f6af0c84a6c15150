//! Tenants as operators see them, and the tenants of somebody who signs in.

use axum::http::StatusCode;
use nagaya_server::{Answer, Call, Content, Problem, Shape};
use nagaya_tenancy::{ErrorKind, Expected, List, Tenant};

use crate::product::Product;

/// What operators change of a tenant. Nothing else in it can be changed by anybody.
pub(crate) const CHANGE: Shape =
    Shape { entity: "tenant", fields: &[("name", "name"), ("plan", "plan"), ("enabled", "enabled")], required: &[] };

/// A tenant's item outlives everything else of it: an id without one looks free, and would be given to somebody else.
pub(crate) fn not_deleted() -> Problem {
    Problem::forbidden("A tenant is not deleted; operators can disable it.")
}

/// A tenant, for an operator.
pub(crate) async fn read(call: &Call) -> Result<Answer, Problem> {
    let tenant = within(call)?;
    Ok(Answer::record(tenant.get("tenant", &[]).await?))
}

/// Changes a tenant, for an operator; with `If-Match`, only if it is the one that the caller knows.
pub(crate) async fn change(product: &Product, call: &Call) -> Result<Answer, Problem> {
    CHANGE.check(call.design(), &call.body)?;
    // It is the one that the caller knows.
    let tenant = within(call)?;
    let expected = match call.header("if-match") {
        None => Expected::Any,
        Some(_) => {
            let current = tenant.get("tenant", &[]).await?;
            call.knows(&current)?;
            Expected::from(&current)
        }
    };

    let changed = tenant.update("tenant", &[], call.body.clone(), expected).await?;
    product.standings.forget(&tenant.principal().tenant);
    Ok(Answer::record(changed))
}

/// The handle of the tenant in the path, for an operator.
fn within(call: &Call) -> Result<Tenant, Problem> {
    let tenant = call.parameter("tenantId").unwrap_or_default();
    call.operator()?.within(tenant).map_err(|error| match error.kind() {
        // What could not be a tenant's id is no tenant's.
        ErrorKind::BadTenant => Problem::not_found(),
        _ => error.into(),
    })
}

/// The caller in each tenant that it is a user of: what somebody who signs in asks before a token can name a tenant.
pub(crate) async fn mine(call: &Call) -> Result<Answer, Problem> {
    let list = List::by("tenants_of_user").with("userId", &*call.caller.user);
    let page = call.system("somebody signs in and asks for their own tenants").list(&list.limit(1_000)).await?;
    Ok(Answer::new(StatusCode::OK, Content::Page(page)))
}
