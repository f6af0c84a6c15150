//! What the OpenAPI document says beyond the design.

use nagaya_design::Design;
use nagaya_server::Document;

use crate::policy;

/// Says which roles and permissions a policy can name.
pub(crate) fn describe(design: &Design, document: &mut Document) {
    document.narrow("permission_policy", "roles", &policy::schema(design));
}
