//! Applications: somebody without a tenant asks for one, and operators review it.

mod review;
mod submit;

use nagaya_server::Problem;
use serde_json::{Map, Value as Json};

use crate::body::{self, Shape};

pub(crate) use self::{
    review::{approve, reject},
    submit::submit,
};

const APPLICATION: &str = "tenant_application";
/// What comes of a review, and of nothing else.
pub(crate) const OUTCOME: [&str; 6] =
    ["status", "reviewedBy", "reviewedAt", "reviewComment", "createdTenantId", "applicantUserId"];

/// What an applicant says.
pub(crate) const SAID: Shape = Shape {
    entity: APPLICATION,
    fields: &[
        ("tenantName", "tenantName"),
        ("plan", "plan"),
        ("applicantName", "applicantName"),
        ("applicantEmail", "applicantEmail"),
        ("reason", "reason"),
    ],
};
/// What an applicant cannot leave out.
pub(crate) const NEEDED: [&str; 3] = ["tenantName", "applicantName", "applicantEmail"];

/// What an operator says who approves.
pub(crate) const APPROVAL: Shape =
    Shape { entity: APPLICATION, fields: &[("tenantId", "createdTenantId"), ("comment", "reviewComment")] };

/// What an operator says who rejects.
pub(crate) const REJECTION: Shape = Shape { entity: APPLICATION, fields: &[("comment", "reviewComment")] };

/// Refuses to change the outcome of a review other than by reviewing.
pub(crate) fn outcome_untouched(patch: &Map<String, Json>) -> Result<(), Problem> {
    body::without(patch, &OUTCOME, "comes of a review; approve or reject the application")
}
