//! `PATCH`: changes an item.

use crate::{Answer, Call, Problem, call::with_handle, route::EntityId};

/// Changes an item by a merge patch (RFC 7386); with `If-Match`, only that version.
pub(super) async fn update(call: &mut Call, id: EntityId) -> Result<Answer, Problem> {
    let patch = std::mem::take(&mut call.body);
    let handle = call.write_handle()?;
    let entity = id.entity_in(call.design());
    let expected = call.expected_version(&entity.name).await?;

    let record = with_handle!(&handle, handle => handle.update(&entity.name, &call.id(), patch, expected).await)?;
    Ok(Answer::record(record))
}
