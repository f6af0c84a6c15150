//! Reviewing an application: it is approved, which creates a tenant, or rejected.
//!
//! An application is behind the wall of the system and the items of its tenant behind the wall of the tenant, so an approval
//! is two writes. The first one decides and names the tenant; the second one creates it. If the second one fails, approving
//! again continues there.

use std::sync::Arc;

use nagaya_server::{Answer, Call, Problem, ProblemCode, request_body};
use nagaya_tenancy::{Error, ErrorKind, List, Operator, Record, Retry, Tenant};
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

use super::APPLICATION_ENTITY;
use crate::{extension::AppState, policy};

request_body! {
    /// The body of an approval.
    pub(crate) struct ApplicationApproval of APPLICATION_ENTITY {
        tenant_id: Option<String> = "tenantId",
        comment: Option<String> = "comment" as "reviewComment",
    }
}

request_body! {
    /// The body of a rejection.
    pub(crate) struct Rejection of APPLICATION_ENTITY {
        comment: Option<String> = "comment" as "reviewComment",
    }
}

/// A stored application.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Application {
    application_id: String,
    tenant_name: String,
    plan: String,
    applicant_name: String,
    applicant_email: String,
    /// The user who applied. Every application that came through this API has it.
    applicant_user_id: Option<String>,
    status: String,
    reviewed_by: Option<String>,
    created_tenant_id: Option<String>,
}

/// How often a review that lost a race is tried.
const MAX_ATTEMPTS: usize = 10;

/// Approves a pending application: 200 with the approved application.
///
/// A repeated call by the same operator gets the same answer; other operators get 409. A repeated call creates the tenant if
/// it does not exist yet.
pub(crate) async fn approve(state: Arc<AppState>, call: Arc<Call>) -> Result<Answer, Problem> {
    let approval: ApplicationApproval = call.parse_body()?;
    let operator = call.operator()?;
    // The tenant gets the id that the operator names, or a new one.
    let is_named = approval.tenant_id.is_some();
    let tenant = approval.tenant_id.unwrap_or_else(|| state.ids.ulid(state.clock.millis()));

    let review = Review { decision: Decision::Approved { tenant, is_named }, comment: approval.comment };
    let record = decide(&state, &call, &operator, &review).await?;
    let application: Application = record.deserialize()?;
    let tenant = application.created_tenant_id.as_deref().ok_or_else(Problem::internal)?;
    if !create_tenant(&call, &operator.as_tenant(tenant)?, &application).await? {
        make_pending_again(&operator, &record).await?;
        return Err(tenant_id_taken());
    }
    if application.reviewed_by.as_deref() != Some(&*call.caller.user) {
        return Err(not_pending());
    }
    Ok(Answer::record(record))
}

/// Rejects a pending application: 200 with the rejected application.
pub(crate) async fn reject(state: Arc<AppState>, call: Arc<Call>) -> Result<Answer, Problem> {
    let rejection: Rejection = call.parse_body()?;
    let operator = call.operator()?;

    let review = Review { decision: Decision::Rejected, comment: rejection.comment };
    Ok(Answer::record(decide(&state, &call, &operator, &review).await?))
}

/// What a reviewer decides.
struct Review {
    decision: Decision,
    comment: Option<String>,
}

enum Decision {
    Approved {
        tenant: String,
        /// Whether the reviewer named the tenant.
        is_named: bool,
    },
    Rejected,
}

/// Writes a decision into the application. If the application has changed meanwhile, it is checked again.
async fn decide(state: &AppState, call: &Call, operator: &Operator, review: &Review) -> Result<Record, Problem> {
    let id = [call.path_parameter("applicationId").ok_or_else(Problem::not_found)?];
    let mut retry = Retry::new(MAX_ATTEMPTS);
    loop {
        retry.attempt().await?;
        let record = operator.get(APPLICATION_ENTITY, &id).await?;
        let application: Application = record.deserialize()?;
        if has_this_decision(&application, &review.decision)? {
            return Ok(record);
        }
        if let Decision::Approved { tenant, .. } = &review.decision {
            // An application that did not come through this API may have no applicant.
            if application.applicant_user_id.is_none() {
                let detail = "The application does not say which user it is from.";
                return Err(Problem::conflict("no_applicant", detail));
            }
            check_tenant_id_is_free(operator, tenant).await?;
        }
        match operator.update(APPLICATION_ENTITY, &id, review_patch(state, call, review), &record).await {
            Err(error) if error.is_version_conflict() => {}
            decided => return Ok(decided?),
        }
    }
}

/// Whether the application has this decision already, from an approval whose tenant may not exist yet; `false` for a pending
/// application.
fn has_this_decision(application: &Application, decision: &Decision) -> Result<bool, Problem> {
    match (application.status.as_str(), decision) {
        ("pending", _) => Ok(false),
        // An application without an applicant was not approved through this API, and is not completed here.
        ("approved", Decision::Approved { tenant, is_named }) if application.applicant_user_id.is_some() => {
            let created = application.created_tenant_id.as_ref();
            if created.is_some_and(|created| !is_named || created == tenant) { Ok(true) } else { Err(not_pending()) }
        }
        _ => Err(not_pending()),
    }
}

/// Refuses an id that a tenant has.
async fn check_tenant_id_is_free(operator: &Operator, tenant: &str) -> Result<(), Problem> {
    let handle = operator.as_tenant(tenant)?;
    let users = handle.list(&List::by("users").limit(1)).await?;
    if tenant_item(&handle).await?.is_none() && users.records.is_empty() { Ok(()) } else { Err(tenant_id_taken()) }
}

/// What a decision changes in the application. A rejection names no tenant, and a review without a comment has none.
fn review_patch(state: &AppState, call: &Call, review: &Review) -> Map<String, Json> {
    let (status, tenant) = match &review.decision {
        Decision::Rejected => ("rejected", None),
        Decision::Approved { tenant, .. } => ("approved", Some(tenant)),
    };
    object_fields(json!({
        "status": status,
        "reviewedBy": &*call.caller.user,
        "reviewedAt": state.now(APPLICATION_ENTITY, "reviewedAt"),
        "createdTenantId": tenant,
        "reviewComment": review.comment,
    }))
}

fn object_fields(object: Json) -> Map<String, Json> {
    object.as_object().cloned().unwrap_or_default()
}

/// Creates the tenant of an approved application with its first user and its policy in one transaction, unless it exists.
/// `false`: another tenant has the id.
async fn create_tenant(call: &Call, handle: &Tenant, application: &Application) -> Result<bool, Problem> {
    let tenant = json!({
        "name": application.tenant_name,
        "plan": application.plan,
        "applicationId": application.application_id,
    });
    let user = json!({
        "userId": application.applicant_user_id,
        "email": application.applicant_email,
        "name": application.applicant_name,
        "role": "admin",
        // The applicant asked for the tenant, and needs no invitation.
        "status": "active",
    });
    let policy = json!({ "roles": policy::initial_policy(call.design()), "updatedBy": &*call.caller.user });
    let set = handle.change_set().create("tenant", object_fields(tenant)).create("user", object_fields(user));
    match set.create("permission_policy", object_fields(policy)).commit().await {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::NotUnique { .. }) => {
            let tenant = tenant_item(handle).await?;
            Ok(tenant.is_some_and(|tenant| tenant.text("applicationId") == Some(&application.application_id)))
        }
        Err(error) => Err(error.into()),
    }
}

/// The item of the tenant, if it exists.
async fn tenant_item(handle: &Tenant) -> Result<Option<Record>, Error> {
    Ok(handle.get_many(&[("tenant", &[])]).await?.into_iter().next().flatten())
}

/// Makes an application pending again whose tenant cannot be created. If another review has changed it meanwhile, it stays.
async fn make_pending_again(operator: &Operator, application: &Record) -> Result<(), Problem> {
    let id = application.id();
    let id: Vec<_> = id.iter().map(String::as_str).collect();
    let patch = json!({
        "status": "pending",
        "createdTenantId": null,
        "reviewedBy": null,
        "reviewedAt": null,
        "reviewComment": null,
    });
    match operator.update(APPLICATION_ENTITY, &id, object_fields(patch), application).await {
        Err(error) if error.is_version_conflict() => Ok(()),
        changed => changed.map(drop).map_err(Problem::from),
    }
}

fn not_pending() -> Problem {
    Problem::conflict("not_pending", "The application has been reviewed.")
}

fn tenant_id_taken() -> Problem {
    let problem = Problem::from_code(ProblemCode::TAKEN, "The id of the tenant is taken.");
    problem.with_field("tenantId", "Is taken.")
}
