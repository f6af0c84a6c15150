//! `POST`: creates an item.

use crate::{Answer, Call, Problem, call::with_handle, route::EntityId};

/// Creates an item: 201 with its location and its tag.
///
/// With an `Idempotency-Key`, the same key and body give the same answer and one item.
pub(super) async fn create(call: &mut Call, id: EntityId) -> Result<Answer, Problem> {
    let fields = std::mem::take(&mut call.body);
    let handle = call.write_handle()?;
    let entity = id.entity_in(call.design());

    let set = call.idempotent(with_handle!(&handle, handle => handle.change_set()), (&entity.name, &fields))?;
    let set = set.create(&entity.name, fields);
    let record = set.commit().await?.into_iter().next().flatten().ok_or_else(Problem::not_found)?;
    let location = call.location_of(entity, &record);
    Ok(Answer::created(record, &location))
}
