//! Reviewing an application: approving it creates a tenant; rejecting it does not.
//!
//! An application is behind the wall of the system and the items of its tenant behind the tenant's own, so an approval is two
//! writes. The first one decides, and names the tenant; the second one creates it. If a crash comes between them, approving
//! again completes it.

use axum::http::StatusCode;
use nagaya_server::{Answer, Call, Problem};
use nagaya_tenancy::{Error, ErrorKind, List, Operator, Record, Retry, Tenant};
use serde_json::{Map, Value as Json, json};

use super::{APPLICATION, APPROVAL, REJECTION};
use crate::{body::flaw, extension::Product, policy};

/// Approves a pending application: 200 with the application.
///
/// A repetition by the operator who approved it gets the same answer, others a conflict. Any repetition before the tenant
/// exists creates the tenant.
pub(crate) async fn approve(product: &Product, call: &Call) -> Result<Answer, Problem> {
    APPROVAL.check(call.design(), &call.body)?;
    let operator = call.operator()?;
    // The tenant has the id that the operator names, or a new one.
    let named = call.body.get("tenantId").and_then(Json::as_str);
    let tenant = named.map_or_else(|| product.ids.ulid(product.clock.millis()), str::to_owned);

    let verdict = Verdict::Approved { tenant, named: named.is_some() };
    let application = decide(product, call, &operator, &verdict).await?;
    let tenant = application.text("createdTenantId").ok_or_else(Problem::internal)?;
    let opened = open(call, &operator.within(tenant)?, &application).await?;
    if !opened {
        put_back(&operator, &application).await?;
        return Err(taken());
    }
    if application.text("reviewedBy") != Some(&*call.caller.user) {
        return Err(not_pending());
    }
    Ok(Answer::record(application))
}

/// Rejects a pending application: 200 with the application.
pub(crate) async fn reject(product: &Product, call: &Call) -> Result<Answer, Problem> {
    REJECTION.check(call.design(), &call.body)?;
    let operator = call.operator()?;

    Ok(Answer::record(decide(product, call, &operator, &Verdict::Rejected).await?))
}

/// The decision of a reviewer.
enum Verdict {
    Approved {
        tenant: String,
        /// Whether the reviewer has named the tenant.
        named: bool,
    },
    Rejected,
}

/// Writes a verdict to the application. If it has changed meanwhile, decides again.
async fn decide(product: &Product, call: &Call, operator: &Operator, verdict: &Verdict) -> Result<Record, Problem> {
    let id = [call.parameter("applicationId").ok_or_else(Problem::not_found)?];
    let mut retry = Retry::default();
    loop {
        retry.attempt().await?;
        let application = operator.get(APPLICATION, &id).await?;
        if is_decided(&application, verdict)? {
            return Ok(application);
        }
        if let Verdict::Approved { tenant, .. } = verdict {
            applicant(&application).ok_or_else(no_applicant)?;
            is_free(operator, tenant).await?;
        }
        match operator.update(APPLICATION, &id, outcome(product, call, verdict), &application).await {
            Err(error) if error.is_version_conflict() => {}
            decided => return Ok(decided?),
        }
    }
}

/// Whether the verdict is written, by an approval whose tenant may still be missing; `false` if the application is pending.
fn is_decided(application: &Record, verdict: &Verdict) -> Result<bool, Problem> {
    match (application.text("status"), verdict) {
        (Some("pending"), _) => Ok(false),
        // An approval from elsewhere is not completed here.
        (Some("approved"), Verdict::Approved { tenant, named }) if applicant(application).is_some() => {
            let made = application.text("createdTenantId");
            if made.is_some_and(|made| !named || made == tenant) { Ok(true) } else { Err(not_pending()) }
        }
        _ => Err(not_pending()),
    }
}

/// The applicant. Every application that came through this API has one.
fn applicant(application: &Record) -> Option<&str> {
    application.text("applicantUserId")
}

/// Refuses an id that a tenant has.
async fn is_free(operator: &Operator, tenant: &str) -> Result<(), Problem> {
    let handle = operator.within(tenant).map_err(|error| match error.kind() {
        ErrorKind::BadTenant => ErrorKind::Invalid(vec![flaw("tenantId", "cannot be a tenant's id")]).into(),
        _ => error,
    })?;
    let users = handle.list(&List::by("users").limit(1)).await?;
    if found(&handle).await?.is_none() && users.records.is_empty() { Ok(()) } else { Err(taken()) }
}

/// The fields that a verdict sets in the application.
fn outcome(product: &Product, call: &Call, verdict: &Verdict) -> Map<String, Json> {
    let mut outcome = Map::from_iter([
        ("reviewedBy".to_owned(), (&*call.caller.user).into()),
        ("reviewedAt".to_owned(), product.now(APPLICATION, "reviewedAt")),
    ]);
    match verdict {
        Verdict::Rejected => drop(outcome.insert("status".to_owned(), "rejected".into())),
        Verdict::Approved { tenant, .. } => {
            outcome.insert("status".to_owned(), "approved".into());
            outcome.insert("createdTenantId".to_owned(), tenant.as_str().into());
        }
    }
    if let Some(comment) = call.body.get("comment") {
        outcome.insert("reviewComment".to_owned(), comment.clone());
    }
    outcome
}

/// Creates the tenant of an approved application with its first user and its policy in one write, unless it exists. `false`:
/// the id belongs to another tenant.
async fn open(call: &Call, handle: &Tenant, application: &Record) -> Result<bool, Problem> {
    let said = |field: &str| application.text(field).unwrap_or_default();
    let fields = |fields: Json| fields.as_object().cloned().unwrap_or_default();
    let tenant = json!({
        "name": said("tenantName"),
        "plan": said("plan"),
        "applicationId": said("applicationId"),
    });
    let user = json!({
        "userId": applicant(application),
        "email": said("applicantEmail"),
        "name": said("applicantName"),
        "role": "admin",
    });
    let policy = json!({ "roles": policy::initial(call.design()), "updatedBy": &*call.caller.user });
    let set = handle.set().create("tenant", fields(tenant)).create("user", fields(user));
    match set.create("permission_policy", fields(policy)).commit().await {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::Taken { .. }) => {
            let there = found(handle).await?;
            Ok(there.is_some_and(|tenant| tenant.text("applicationId") == application.text("applicationId")))
        }
        Err(error) => Err(error.into()),
    }
}

/// The tenant's item, if it exists.
async fn found(handle: &Tenant) -> Result<Option<Record>, Error> {
    Ok(handle.get_many(&[("tenant", &[])]).await?.into_iter().next().flatten())
}

/// Makes an application pending again whose tenant cannot be created, unless another review was first.
async fn put_back(operator: &Operator, application: &Record) -> Result<(), Problem> {
    let id = application.id();
    let id: Vec<_> = id.iter().map(String::as_str).collect();
    let undone = ["createdTenantId", "reviewedBy", "reviewedAt", "reviewComment"];
    let mut patch: Map<_, _> = undone.into_iter().map(|field| (field.to_owned(), Json::Null)).collect();
    patch.insert("status".to_owned(), "pending".into());
    match operator.update(APPLICATION, &id, patch, application).await {
        Err(error) if !error.is_version_conflict() => Err(error.into()),
        _ => Ok(()),
    }
}

fn not_pending() -> Problem {
    Problem::new(StatusCode::CONFLICT, "not_pending", "The application has been reviewed.")
}

fn taken() -> Problem {
    let problem = Problem::new(StatusCode::CONFLICT, "taken", "The id of the tenant is taken.");
    problem.at("tenantId", "Is taken.")
}

/// The application did not come through this API, and has no applicant.
fn no_applicant() -> Problem {
    let detail = "The application does not say which user it is from.";
    Problem::new(StatusCode::CONFLICT, "no_applicant", detail)
}
