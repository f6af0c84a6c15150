//! Paging: items that keep their place while a list is read page by page.

use crate::{
    codes,
    design::{Design, ResultKind},
    diagnostic::{Diagnostic, list},
};

pub(super) fn check(design: &Design, diagnostics: &mut Vec<Diagnostic>) {
    for access in design.access_patterns.iter().filter(|access| access.returns == ResultKind::Many) {
        let moving = design.moving_fields(access);
        if moving.is_empty() {
            continue;
        }
        let message = format!("`{}` sorts by {}, which can change", access.name, list(&moving));
        codes::MOVING_ITEMS
            .report(diagnostics, &access.span, message)
            .also(&design.key_of_access(access).1.sort.span, "the sort key")
            .here("a walk through its pages can miss an item that changes meanwhile, or return it twice")
            .help("sort by fields that are `immutable` or in the key, or explain why it is fine: `# NG0410: …` above this line");
    }
}
