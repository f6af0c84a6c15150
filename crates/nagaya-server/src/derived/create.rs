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
    let key = idempotency_key(call)?;

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

/// The caller's key for this request.
fn idempotency_key(call: &Call) -> Result<Option<&str>, Problem> {
    let Some(key) = call.headers.get("idempotency-key") else { return Ok(None) };
    let refused = |why: &str| {
        Problem::bad_request("bad_idempotency_key", "The key has to be 1 to 255 printable characters.")
            .parameter("Idempotency-Key", why)
    };
    match key.to_str() {
        Ok(key) if (1..=255).contains(&key.len()) => Ok(Some(key)),
        Ok(_) => Err(refused("Is too long, or empty.")),
        Err(_) => Err(refused("Is not printable.")),
    }
}

/// What tells a repetition from another request: the entity and the fields, whatever their order.
fn request(entity: &str, fields: &serde_json::Map<String, serde_json::Value>) -> Vec<u8> {
    // Maps are sorted, and everything in them can be written.
    serde_json::to_vec(&(entity, fields)).unwrap_or_default()
}
