//! `PATCH`: changes an item.

use crate::{Answer, Call, Problem, call::with};

/// Changes an item by a merge patch (RFC 7386); with `If-Match`, only if it is the one that the caller knows.
pub(super) async fn update(call: &mut Call, at: usize) -> Result<Answer, Problem> {
    let patch = std::mem::take(&mut call.body);
    let handle = call.handle()?;
    let entity = &call.design().entities[at];
    let expected = call.expected(&entity.name).await?;

    let record = with!(&handle, handle => handle.update(&entity.name, &call.id(), patch, expected).await)?;
    Ok(Answer::record(record))
}
