//! `DELETE`: deletes an item.

use crate::{Answer, Call, Problem, call::with_handle, route::EntityId};

/// Deletes an item; with `If-Match`, only that version.
pub(super) async fn delete(call: &Call, id: EntityId) -> Result<Answer, Problem> {
    let handle = call.write_handle()?;
    let entity = id.entity_in(call.design());
    let expected = call.expected_version(&entity.name).await?;

    with_handle!(&handle, handle => handle.delete(&entity.name, &call.id(), expected).await)?;
    Ok(Answer::no_content())
}
