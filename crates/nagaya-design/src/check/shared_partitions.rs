//! Access patterns that would read what all tenants have in a partition.
//!
//! A page of a partition that tenants share ends after a number of items of others, and a cursor goes on. A count and a search for one
//! item have no cursor: they would read all of it, and other tenants could make them slow.

use crate::{
    codes,
    design::{AccessPattern, Design, ResultKind, SortBound, Wall},
    diagnostic::Diagnostic,
};

pub(super) fn check(design: &Design, diagnostics: &mut Vec<Diagnostic>) {
    for access in &design.access_patterns {
        let what = match access.returns {
            ResultKind::Many => continue,
            ResultKind::One => "looks for one item",
            ResultKind::Count => "counts",
        };
        if reads_items_of_others(design, access) {
            let message =
                format!("`{}` {what} in a partition that tenants share, so it reads the items of all", access.name);
            let entity = &design.entities[access.entity];
            let help = match &entity.tenant {
                Some(tenant) => format!("put `{{{tenant}}}` into the partition key of an index, or return `many`"),
                None => "return `many`".to_owned(),
            };
            codes::READS_ALL_TENANTS.report(diagnostics, &access.span, message).help(help);
        }
    }
}

/// Whether the items that the store reads for a tenant may be those of others.
fn reads_items_of_others(design: &Design, access: &AccessPattern) -> bool {
    let entity = &design.entities[access.entity];
    let (_, key) = design.key_of_access(access);
    let mut fixed = key.partition.fields().chain(key.sort.fields().take(access.fixed));
    let is_one_item = access.mapping.is_none() && access.bound == SortBound::Full;
    design.wall_of(access) == Wall::Attribute
        && !is_one_item
        && !fixed.any(|path| entity.tenant.as_deref() == Some(path))
}
