//! Idempotency: a request that is repeated with the same key is executed once.

use nagaya_tenancy::{ChangeSet, Tenant};
use serde_json::Value as Json;

use super::{Events, LoadedAggregate, append::json_object};
use crate::{Error, ErrorKind, Evolve};

impl<S: Evolve> Events<S> {
    /// The aggregate that an earlier request with this key has changed, and its state after that.
    pub(super) async fn find_recorded_answer(
        &self,
        tenant: &Tenant,
        (key, request): (&str, &[u8]),
    ) -> Result<Option<(String, LoadedAggregate<S>)>, Error> {
        let Some(entity) = &self.layout.idempotency else { return Ok(None) };
        let earlier = match tenant.get(&entity.name, &[&record_id(tenant, key)]).await {
            Ok(earlier) => earlier,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if earlier.text("requestHash") != Some(hash(request).as_str()) {
            return Err(ErrorKind::KeyReused.into());
        }
        let damaged = || Error::damaged(key, "an idempotency record cannot be read");
        let aggregate = earlier.text(&self.layout.id).ok_or_else(damaged)?.to_owned();
        let event = earlier.text("eventId").ok_or_else(damaged)?;
        let loaded = self.load_until(tenant, &aggregate, Some(event)).await?;
        Ok(Some((aggregate, loaded)))
    }

    /// Adds the idempotency record of a request to what the request writes.
    pub(super) fn record_request(
        &self,
        set: ChangeSet,
        tenant: &Tenant,
        (key, request): (&str, &[u8]),
        id: &str,
        event: &str,
    ) -> ChangeSet {
        let Some(entity) = &self.layout.idempotency else { return set };
        let mut record = json_object([("eventId", event.into()), ("requestHash", hash(request).into())]);
        record.insert("idempotencyKey".to_owned(), Json::from(record_id(tenant, key)));
        record.insert(self.layout.id.clone(), id.into());
        set.create(&entity.name, record)
    }
}

/// The id of an idempotency record. Keys belong to a user: two users of a tenant may choose the same one.
fn record_id(tenant: &Tenant, key: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in [&*tenant.principal().user, key] {
        hasher.update(&(part.len() as u64).to_be_bytes()).update(part.as_bytes());
    }
    hasher.finalize().to_hex()[..40].to_owned()
}

fn hash(request: &[u8]) -> String {
    format!("blake3:{}", blake3::hash(request).to_hex())
}
