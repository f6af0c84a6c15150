//! Applications: somebody without a tenant asks for one, and operators review it.

mod review;
mod submit;

use nagaya_design::Design;
use nagaya_server::Problem;
use serde_json::{Map, Value as Json, json};

use crate::body;

pub(crate) use self::{
    review::{approve, reject},
    submit::submit,
};

const APPLICATION: &str = "tenant_application";
/// What an applicant says. Everything else in an application is the review's.
const SAID: [&str; 5] = ["tenantName", "plan", "applicantName", "applicantEmail", "reason"];

/// Refuses to change the outcome of a review other than by reviewing.
pub(crate) fn outcome_untouched(patch: &Map<String, Json>) -> Result<(), Problem> {
    let detail = "The outcome of a review comes from `approve` or `reject`.";
    body::only(patch, &SAID, detail, "Is the review's to set.")
}

/// What the body of an application is like.
pub(crate) fn application(design: &Design) -> Json {
    let mut schema = body::schema(design, APPLICATION, &SAID.map(|field| (field, field)));
    schema["required"] = json!(body::required(design, APPLICATION, &SAID));
    schema
}

/// What the body of an approval is like.
pub(crate) fn approval(design: &Design) -> Json {
    body::schema(design, APPLICATION, &[("tenantId", "createdTenantId"), ("comment", "reviewComment")])
}

/// What the body of a rejection is like.
pub(crate) fn rejection(design: &Design) -> Json {
    body::schema(design, APPLICATION, &[("comment", "reviewComment")])
}
