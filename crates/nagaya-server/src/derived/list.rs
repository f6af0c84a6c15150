//! `GET` of an access pattern.

use nagaya_design::ResultKind;

use super::read::record_or_not_modified;
use crate::{Answer, Call, Problem, route::AccessId};

/// Answers an access pattern: with a page, the first item, or a count.
pub(super) async fn list(call: &Call, id: AccessId) -> Result<Answer, Problem> {
    let access = id.pattern_in(call.design());
    let page = call.list_access(access, &[]).await?;
    match access.returns {
        ResultKind::One => {
            let record = page.records.into_iter().next().ok_or_else(Problem::not_found)?;
            Ok(record_or_not_modified(call, record))
        }
        ResultKind::Many | ResultKind::Count => Ok(Answer::page(page)),
    }
}
