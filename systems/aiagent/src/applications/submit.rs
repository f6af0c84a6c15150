//! Submitting an application.

use axum::http::StatusCode;
use nagaya_server::{Answer, Call, Problem};

use super::{APPLICATION, SAID};
use crate::body;

/// Takes an application from anybody with a good token: the applicant has no tenant yet.
///
/// The applicant gets this one answer; the list of applications is the reviewers'.
pub(crate) async fn submit(call: &Call) -> Result<Answer, Problem> {
    // It says what an applicant says, and nothing about its own review.
    body::only(&call.body, &SAID, "An application has other fields.", "Is not the applicant's to set.")?;

    let mut fields = call.body.clone();
    fields.insert("applicantUserId".to_owned(), call.caller.user.as_str().into());
    let application = call.system("somebody applies for a tenant").create(APPLICATION, fields).await?;
    let mut answer = Answer::record(application);
    answer.status = StatusCode::CREATED;
    Ok(answer)
}
