//! Applications: a user without a tenant asks for one, and operators review it.

mod review;
mod submit;

use nagaya_server::Shape;

pub(crate) use self::{
    review::{approve, reject},
    submit::submit,
};

const APPLICATION: &str = "tenant_application";

/// The body of an application.
pub(crate) const SAID: Shape = Shape {
    entity: APPLICATION,
    fields: &[
        ("tenantName", "tenantName"),
        ("plan", "plan"),
        ("applicantName", "applicantName"),
        ("applicantEmail", "applicantEmail"),
        ("reason", "reason"),
    ],
    required: &["tenantName", "applicantName", "applicantEmail"],
};

/// The body of an approval.
pub(crate) const APPROVAL: Shape = Shape {
    entity: APPLICATION,
    fields: &[("tenantId", "createdTenantId"), ("comment", "reviewComment")],
    required: &[],
};

/// The body of a rejection.
pub(crate) const REJECTION: Shape =
    Shape { entity: APPLICATION, fields: &[("comment", "reviewComment")], required: &[] };
