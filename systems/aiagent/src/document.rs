//! What the OpenAPI document says beyond the design: which fields are not the caller's to give.

use nagaya_design::Design;
use nagaya_server::Document;

use crate::{applications, policy, tenants};

/// Says which fields are not the caller's to give.
pub(crate) fn describe(design: &Design, document: &mut Document) {
    for field in tenants::OPERATORS {
        document.not_given("tenant", field);
    }
    for field in applications::OUTCOME {
        document.not_changed("tenant_application", field);
    }
    document.not_given("task", "completedAt");
    // Whoever writes these signs them.
    document.not_given("announcement_board", "updatedBy");
    document.not_given("permission_policy", "updatedBy");
    document.narrow("permission_policy", "roles", &policy::schema(design));
}
