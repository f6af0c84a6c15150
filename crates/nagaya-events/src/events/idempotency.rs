//! Idempotency: a request that is repeated with the same key is executed once.

use nagaya_tenancy::{Principal, Tenant};

use super::{Events, LoadedAggregate};
use crate::{Error, ErrorKind, Evolve};

/// A request with an idempotency key.
pub(super) struct IdempotentRequest<'r> {
    /// The key, as the caller gave it.
    key: &'r str,
    /// The id of its idempotency record.
    pub(super) record_id: String,
    /// The hash of the request.
    pub(super) hash: String,
}

impl<'r> IdempotentRequest<'r> {
    pub(super) fn new(tenant: &Tenant, (key, request): (&'r str, &[u8])) -> Self {
        IdempotentRequest { key, record_id: record_id(tenant, key), hash: hash(request) }
    }
}

impl<S: Evolve> Events<S> {
    /// The aggregate that an earlier request with this key has changed, and its state after that.
    pub(super) async fn find_recorded_answer(
        &self,
        tenant: &Tenant,
        request: &IdempotentRequest<'_>,
    ) -> Result<Option<(String, LoadedAggregate<S>)>, Error> {
        let Some(entity) = &self.layout.idempotency else { return Ok(None) };
        let earlier = match tenant.get(&entity.name, &[&request.record_id]).await {
            Ok(earlier) => earlier,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if earlier.text("requestHash") != Some(request.hash.as_str()) {
            return Err(ErrorKind::KeyReused.into());
        }
        let damaged = || Error::damaged(request.key, "an idempotency record cannot be read");
        let aggregate = earlier.text(&self.layout.id).ok_or_else(damaged)?.to_owned();
        let event = earlier.text("eventId").ok_or_else(damaged)?;
        let loaded = self.load_until(tenant, &aggregate, Some(event)).await?;
        Ok(Some((aggregate, loaded)))
    }
}

/// The id of an idempotency record. Keys belong to a user: two users of a tenant may choose the same one, and two issuers may
/// give one user id to two people.
fn record_id(tenant: &Tenant, key: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    let Principal { user, issuer, .. } = tenant.principal();
    for part in [issuer.as_deref().unwrap_or_default(), user, key] {
        hasher.update(&(part.len() as u64).to_be_bytes()).update(part.as_bytes());
    }
    hasher.finalize().to_hex()[..40].to_owned()
}

fn hash(request: &[u8]) -> String {
    format!("blake3:{}", blake3::hash(request).to_hex())
}
