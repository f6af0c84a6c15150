//! `POST`: creates an item.

use axum::http::{StatusCode, header};

use super::location;
use crate::{Answer, Call, Problem, call::with_handle, route::EntityId};

/// Creates an item: 201 with its location and its tag.
///
/// With an `Idempotency-Key`, the same key and body give the same answer and one item.
pub(super) async fn create(call: &mut Call, id: EntityId) -> Result<Answer, Problem> {
    let fields = std::mem::take(&mut call.body);
    let handle = call.write_handle()?;
    let entity = id.of(call.design());
    let key = call.idempotency_key()?;

    let request = key.map(|_| request(&entity.name, &fields));
    let set = with_handle!(&handle, handle => handle.change_set()).create(&entity.name, fields);
    let set = match (key, &request) {
        (Some(key), Some(request)) => set.idempotent(key, request),
        _ => set,
    };
    let record = set.commit().await?.into_iter().next().flatten().ok_or_else(Problem::not_found)?;
    let location = location(call, entity, &record);
    let mut answer = Answer::record(record);
    answer.status = StatusCode::CREATED;
    answer.set_header(header::LOCATION, &location);
    Ok(answer)
}

/// The bytes that tell a repeated request from another one: the entity and the fields in sorted order.
fn request(entity: &str, fields: &serde_json::Map<String, serde_json::Value>) -> Vec<u8> {
    // JSON maps are sorted, and always serialize.
    serde_json::to_vec(&(entity, fields)).unwrap_or_default()
}
