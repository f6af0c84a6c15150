//! `DELETE`: removes an item.

use axum::http::StatusCode;

use crate::{Answer, Call, Problem, answer::Content, call::with};

/// Removes an item; with `If-Match`, only if it is the one that the caller knows.
pub(super) async fn delete(call: &Call, at: usize) -> Result<Answer, Problem> {
    let handle = call.handle()?;
    let entity = &call.design().entities[at];
    let expected = call.expected(&entity.name).await?;

    with!(&handle, handle => handle.delete(&entity.name, &call.id(), expected).await)?;
    Ok(Answer::new(StatusCode::NO_CONTENT, Content::None))
}
