//! Reviewing an application: it is approved, and a tenant comes of it, or rejected.
//!
//! An application lies behind the wall of the system and the items of its tenant behind the tenant's own, so that an approval
//! is two writes. The first one decides, and says which tenant is to be made; the second one makes it. When nothing comes
//! after the first, approving again goes on from there.

use axum::http::StatusCode;
use nagaya_server::{Answer, Call, Problem};
use nagaya_tenancy::{Error, ErrorKind, List, Operator, Record, Retry, Tenant};
use serde_json::{Map, Value as Json, json};

use super::{APPLICATION, APPROVAL, REJECTION};
use crate::{body::flaw, policy, product::Product};

/// Approves an application that is pending: 200 with it as it is then.
///
/// Repeated by the operator who approved it, it answers the same; everybody else is told that it is over. Whoever repeats it
/// before the tenant has been made, makes the tenant.
pub(crate) async fn approve(product: &Product, call: &Call) -> Result<Answer, Problem> {
    APPROVAL.check(call.design(), &call.body)?;
    let operator = call.operator()?;
    // The tenant has the id that the operator names, or one of our making.
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

/// Rejects an application that is pending: 200 with it as it is then.
pub(crate) async fn reject(product: &Product, call: &Call) -> Result<Answer, Problem> {
    REJECTION.check(call.design(), &call.body)?;
    let operator = call.operator()?;

    Ok(Answer::record(decide(product, call, &operator, &Verdict::Rejected).await?))
}

/// What a reviewer says.
enum Verdict {
    Approved {
        tenant: String,
        /// Whether the reviewer has named the tenant.
        named: bool,
    },
    Rejected,
}

/// Writes a verdict onto the application as it was when judged. If it has changed meanwhile, it is judged anew.
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
            applicant(&application).ok_or_else(nobody)?;
            is_free(operator, tenant).await?;
        }
        match operator.update(APPLICATION, &id, outcome(product, call, verdict), &application).await {
            Err(error) if error.is_version_conflict() => {}
            decided => return Ok(decided?),
        }
    }
}

/// Whether the verdict is there already, from an approval whose tenant may be missing still; `false` for an application that
/// is pending.
fn is_decided(application: &Record, verdict: &Verdict) -> Result<bool, Problem> {
    match (application.text("status"), verdict) {
        (Some("pending"), _) => Ok(false),
        // One that was approved elsewhere is none of ours to complete.
        (Some("approved"), Verdict::Approved { tenant, named }) if applicant(application).is_some() => {
            let made = application.text("createdTenantId");
            if made.is_some_and(|made| !named || made == tenant) { Ok(true) } else { Err(not_pending()) }
        }
        _ => Err(not_pending()),
    }
}

/// Who applied. Every application that came through this API says so.
fn applicant(application: &Record) -> Option<&str> {
    application.text("applicantUserId")
}

/// Nobody works under this id yet.
async fn is_free(operator: &Operator, tenant: &str) -> Result<(), Problem> {
    let handle = operator.within(tenant).map_err(|error| match error.kind() {
        ErrorKind::BadTenant => ErrorKind::Invalid(vec![flaw("tenantId", "cannot be a tenant's id")]).into(),
        _ => error,
    })?;
    let users = handle.list(&List::by("users").limit(1)).await?;
    if found(&handle).await?.is_none() && users.records.is_empty() { Ok(()) } else { Err(taken()) }
}

/// What a verdict writes onto the application.
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

/// Makes the tenant of an approved application with its first user and its policy, all or nothing, unless that is there.
/// `false`: the id belongs to somebody else.
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

/// The tenant's item, if it is there.
async fn found(handle: &Tenant) -> Result<Option<Record>, Error> {
    Ok(handle.get_many(&[("tenant", &[])]).await?.into_iter().next().flatten())
}

/// Makes an application pending again whose tenant cannot be made. If another review was faster, that one stands.
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

/// An application that did not come through this API, and does not say whose it is.
fn nobody() -> Problem {
    let detail = "The application does not say which user it is from.";
    Problem::new(StatusCode::CONFLICT, "no_applicant", detail)
}
