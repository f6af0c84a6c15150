//! What the OpenAPI document has beyond the design.

use nagaya_design::Design;
use nagaya_server::Document;

use crate::policy;

/// Adds the roles and permissions that a policy can name.
pub(crate) fn describe(design: &Design, document: &mut Document) {
    document.narrow_field("permission_policy", "roles", &policy::schema(design));
}
