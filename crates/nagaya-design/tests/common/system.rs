//! What the design tests of the systems share: each includes this file by its path.

#[path = "mod.rs"]
mod shared;

use nagaya_design::Permission;

pub(crate) use shared::*;

/// Compares the query of an access pattern, with names in place of values, with the text of the document.
pub(crate) fn check_outline(path: &str, access: &str, expected: &str) {
    let design = design(path);
    let found = design.access_pattern(access).unwrap_or_else(|| panic!("no access pattern {access}"));
    assert_eq!(design.query_outline(found, &[]).to_string(), expected);
}

/// Whether a role of a design may and may not do these things, such as `user.read`.
pub(crate) fn check_role(path: &str, role: &str, may: &[&str], may_not: &[&str]) {
    let design = design(path);
    for (texts, expected) in [(may, true), (may_not, false)] {
        for text in texts {
            let permission = Permission::parse(text).expect("a permission");
            let (entity, verb) = (permission.entity.expect("an entity"), permission.verb.expect("a verb"));
            assert!(design.entity(&entity).is_some(), "{path} has no {entity}");
            assert_eq!(design.permits(&[role.to_owned()], &entity, verb), expected, "{path}: {role} and {text}");
        }
    }
}
