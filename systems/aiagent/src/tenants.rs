//! Tenants as operators see them, and the tenants of a user who signs in.

use std::sync::Arc;

use nagaya_server::{Answer, Call, Problem, RequestBody as _, request_body};
use nagaya_tenancy::{ErrorKind, List, Record, Retry, Tenant};
use serde_json::{Map, Value as Json};

use crate::extension::AppState;

/// How often a change that lost a race is tried.
const MAX_ATTEMPTS: usize = 10;

request_body! {
    /// What operators can change of a tenant. Nothing else in it can be changed.
    pub(crate) struct TenantChange of "tenant" {
        name: Option<String> = "name",
        plan: Option<String> = "plan",
        enabled: Option<bool> = "enabled",
    }
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
    let patch = |current: &Record| {
        if current.get("deletedAt").is_some() && change.enabled == Some(true) {
            let detail = "The tenant was closed for good, and cannot be enabled again.";
            return Err(Problem::conflict("tenant_deleted", detail));
        }
        Ok(change.fields())
    };
    Ok(Answer::record(update(&state, &call, &tenant, patch).await?))
}

/// Closes a tenant for good, for an operator; with `If-Match`, only that version.
///
/// The tenant is disabled, and `deletedAt` says since when it is closed. Its item is never removed: its id would look free and
/// could be given to another customer, who would find what the first one left.
pub(crate) async fn close(state: Arc<AppState>, call: Arc<Call>) -> Result<Answer, Problem> {
    let tenant = tenant_in_path(&call)?;
    let patch = |current: &Record| {
        let closed = current.json("deletedAt").unwrap_or_else(|| state.now("tenant", "deletedAt"));
        Ok(Map::from_iter([("enabled".to_owned(), false.into()), ("deletedAt".to_owned(), closed)]))
    };
    update(&state, &call, &tenant, patch).await?;
    Ok(Answer::no_content())
}

/// Changes the item of a tenant by a patch of the current one; again if another writer was faster.
async fn update(
    state: &AppState,
    call: &Call,
    tenant: &Tenant,
    patch: impl Fn(&Record) -> Result<Map<String, Json>, Problem>,
) -> Result<Record, Problem> {
    let mut retry = Retry::new(MAX_ATTEMPTS);
    loop {
        retry.attempt().await?;
        let current = tenant.get("tenant", &[]).await?;
        call.check_if_match(&current)?;
        match tenant.update("tenant", &[], patch(&current)?, &current).await {
            Err(error) if error.is_version_conflict() => {}
            changed => {
                let changed = changed?;
                state.tenant_statuses.invalidate(&tenant.principal().tenant);
                return Ok(changed);
            }
        }
    }
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
