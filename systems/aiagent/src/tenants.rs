//! Tenants for operators, and the tenants of a user who signs in.

use axum::http::StatusCode;
use nagaya_server::{Answer, Call, Content, Problem, Shape};
use nagaya_tenancy::{ErrorKind, Expected, List, Tenant};

use crate::extension::Product;

/// The fields of a tenant that operators change. All others are read-only.
pub(crate) const CHANGE: Shape =
    Shape { entity: "tenant", fields: &[("name", "name"), ("plan", "plan"), ("enabled", "enabled")], required: &[] };

/// The item of a tenant is never deleted: an id without one looks free, and could be given to another tenant.
pub(crate) fn deletion_refused() -> Problem {
    Problem::forbidden("A tenant is not deleted; operators can disable it.")
}

/// A tenant, for an operator.
pub(crate) async fn read(call: &Call) -> Result<Answer, Problem> {
    let tenant = within(call)?;
    Ok(Answer::record(tenant.get("tenant", &[]).await?))
}

/// Changes a tenant, for an operator; with `If-Match`, only in that version.
pub(crate) async fn change(product: &Product, call: &Call) -> Result<Answer, Problem> {
    CHANGE.check(call.design(), &call.body)?;
    // It has the version that the caller knows.
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
    product.statuses.forget(&tenant.principal().tenant);
    Ok(Answer::record(changed))
}

/// The handle of the tenant in the path, for an operator.
fn within(call: &Call) -> Result<Tenant, Problem> {
    let tenant = call.parameter("tenantId").unwrap_or_default();
    call.operator()?.within(tenant).map_err(|error| match error.kind() {
        // An impossible id is no tenant: 404.
        ErrorKind::BadTenant => Problem::not_found(),
        _ => error.into(),
    })
}

/// The caller's user item in each tenant, which a sign-in needs before a token can name a tenant.
pub(crate) async fn of_caller(call: &Call) -> Result<Answer, Problem> {
    let list = List::by("tenants_of_user").with("userId", &*call.caller.user);
    let page = call.system("somebody signs in and asks for their own tenants").list(&list.limit(1_000)).await?;
    Ok(Answer::new(StatusCode::OK, Content::Page(page)))
}
