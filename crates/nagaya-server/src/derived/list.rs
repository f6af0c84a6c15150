//! `GET` of an access pattern.

use nagaya_design::ResultKind;

use crate::{Answer, Call, Problem, route::AccessId};

/// Answers an access pattern: with a page, the first item, or a count.
pub(super) async fn list(call: &Call, id: AccessId) -> Result<Answer, Problem> {
    let access = id.pattern_in(call.design());
    let page = call.list_access(access, &[]).await?;
    match access.returns {
        ResultKind::One => page.records.into_iter().next().map(Answer::record).ok_or_else(Problem::not_found),
        ResultKind::Many | ResultKind::Count => Ok(Answer::page(page)),
    }
}
