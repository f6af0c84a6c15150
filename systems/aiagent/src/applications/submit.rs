//! Submitting an application.

use std::sync::Arc;

use axum::http::StatusCode;
use nagaya_server::{Answer, Call, Problem, RequestBody as _, request_body};

use super::APPLICATION_ENTITY;
use crate::extension::AppState;

request_body! {
    /// The body of an application.
    pub(crate) struct NewApplication of APPLICATION_ENTITY {
        tenant_name: String = "tenantName",
        plan: Option<String> = "plan",
        applicant_name: String = "applicantName",
        applicant_email: String = "applicantEmail",
        reason: Option<String> = "reason",
    }
}

/// Accepts an application from every caller with a valid token: the applicant has no tenant yet.
///
/// The applicant gets this one answer; only reviewers can list applications. With an `Idempotency-Key`, the same key and
/// body give the same answer and one application.
pub(crate) async fn submit(_: Arc<AppState>, call: Arc<Call>) -> Result<Answer, Problem> {
    // The fields of the review cannot be given.
    let mut fields = call.parse_body::<NewApplication>()?.fields();

    fields.insert("applicantUserId".to_owned(), (&*call.caller.user).into());
    let set = call.unaudited_operator().change_set();
    let set = call.idempotent(set, (APPLICATION_ENTITY, &fields))?.create(APPLICATION_ENTITY, fields);
    let application = set.commit().await?.into_iter().next().flatten().ok_or_else(Problem::internal)?;
    let mut answer = Answer::record(application);
    answer.status = StatusCode::CREATED;
    Ok(answer)
}
