//! Tenants as operators see them, and the tenants of a user who signs in.

use std::sync::Arc;

use nagaya_server::{Answer, Call, Problem, RequestBody as _, request_body};
use nagaya_tenancy::{ErrorKind, Expected, List, Tenant};

use crate::extension::AppState;

request_body! {
    /// What operators can change of a tenant. Nothing else in it can be changed.
    pub(crate) struct TenantChange of "tenant" {
        name: Option<String> = "name",
        plan: Option<String> = "plan",
        enabled: Option<bool> = "enabled",
    }
}

/// The item of a tenant is never deleted: its id would look free and could be given to another tenant.
pub(crate) fn deletion_refused() -> Problem {
    Problem::forbidden("A tenant is not deleted; operators can disable it.")
}

/// A tenant, for an operator.
pub(crate) async fn read(_: Arc<AppState>, call: Arc<Call>) -> Result<Answer, Problem> {
    let tenant = tenant_in_path(&call)?;
    Ok(Answer::record(tenant.get("tenant", &[]).await?))
}

/// Changes a tenant, for an operator; with `If-Match`, only that version.
pub(crate) async fn change(state: Arc<AppState>, call: Arc<Call>) -> Result<Answer, Problem> {
    let change: TenantChange = call.parse_body()?;
    let tenant = tenant_in_path(&call)?;
    let expected = match call.header("if-match") {
        None => Expected::Any,
        Some(_) => {
            let current = tenant.get("tenant", &[]).await?;
            call.check_if_match(&current)?;
            Expected::from(&current)
        }
    };

    let changed = tenant.update("tenant", &[], change.fields(), expected).await?;
    state.tenant_statuses.invalidate(&tenant.principal().tenant);
    Ok(Answer::record(changed))
}

/// The handle of the tenant in the path, for an operator.
fn tenant_in_path(call: &Call) -> Result<Tenant, Problem> {
    let tenant = call.path_parameter("tenantId").unwrap_or_default();
    call.operator()?.as_tenant(tenant).map_err(|error| match error.kind() {
        // A text that cannot be the id of a tenant: 404.
        ErrorKind::BadTenant => Problem::not_found(),
        _ => error.into(),
    })
}

/// Lists the caller's user record in each of its tenants: for a sign-in, before the token names a tenant.
pub(crate) async fn list_own_memberships(_: Arc<AppState>, call: Arc<Call>) -> Result<Answer, Problem> {
    Ok(Answer::page(call.list_own("userId", &List::by("tenants_of_user").limit(1_000)).await?))
}
