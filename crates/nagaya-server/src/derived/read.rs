//! `GET` of an item.

use crate::{Answer, Call, Problem, route::EntityId};

/// Reads an item by its id. The service answers 304 if the caller has the current version.
pub(super) async fn read(call: &Call, id: EntityId) -> Result<Answer, Problem> {
    let entity = id.entity_in(call.design());
    call.read_handle()?.get(&entity.name, &call.id()).await.map(Answer::record).map_err(Problem::from)
}
