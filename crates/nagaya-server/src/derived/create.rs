//! `POST`: makes an item.

use axum::http::{StatusCode, header};

use super::location;
use crate::{Answer, Call, Problem, call::with};

/// Makes an item: 201 with its place and its tag.
///
/// With an `Idempotency-Key`, the same key and body give the same answer and one item.
pub(super) async fn create(call: &mut Call, at: usize) -> Result<Answer, Problem> {
    let fields = std::mem::take(&mut call.body);
    let handle = call.handle()?;
    let entity = &call.design().entities[at];
    let key = call.idempotency_key()?;

    let request = key.map(|_| request(&entity.name, &fields));
    let set = with!(&handle, handle => handle.set()).create(&entity.name, fields);
    let set = match (key, &request) {
        (Some(key), Some(request)) => set.once(key, request),
        _ => set,
    };
    let record = set.commit().await?.into_iter().next().flatten().ok_or_else(Problem::not_found)?;
    let place = location(call, entity, &record);
    let mut answer = Answer::record(record);
    answer.status = StatusCode::CREATED;
    answer.set(header::LOCATION, &place);
    Ok(answer)
}

/// What tells a repetition from another request: the entity and the fields, whatever their order.
fn request(entity: &str, fields: &serde_json::Map<String, serde_json::Value>) -> Vec<u8> {
    // Maps are sorted, and everything in them can be written.
    serde_json::to_vec(&(entity, fields)).unwrap_or_default()
}
