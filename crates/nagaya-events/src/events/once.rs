//! Commands that happen once, however often they are asked for.

use nagaya_tenancy::{ErrorKind as Kind, Set, Tenant};
use serde_json::Value as Json;

use super::{Events, Loaded, append::object};
use crate::{Error, ErrorKind, Evolve};

/// What a request has done before.
pub(super) struct Before<S> {
    pub(super) aggregate: String,
    /// The aggregate as it was then.
    pub(super) loaded: Loaded<S>,
}

impl<S: Evolve> Events<S> {
    /// What a request with this key has done already.
    pub(super) async fn recall(
        &self,
        tenant: &Tenant,
        (key, request): (&str, &[u8]),
    ) -> Result<Option<Before<S>>, Error> {
        let Some(entity) = &self.layout.idempotency else { return Ok(None) };
        let kept = match tenant.get(&entity.name, &[&own(tenant, key)]).await {
            Ok(kept) => kept,
            Err(error) if matches!(error.kind(), Kind::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if kept.text("requestHash") != Some(hash(request).as_str()) {
            return Err(ErrorKind::KeyReused.into());
        }
        let damaged = || Error::damaged(key, "the record of a request cannot be read");
        let aggregate = kept.text(&self.layout.id).ok_or_else(damaged)?.to_owned();
        let event = kept.text("eventId").ok_or_else(damaged)?;
        let loaded = self.load_until(tenant, &aggregate, Some(event)).await?;
        Ok(Some(Before { aggregate, loaded }))
    }

    /// Adds the record of a request to what it writes.
    pub(super) fn remember(
        &self,
        set: Set,
        tenant: &Tenant,
        (key, request): (&str, &[u8]),
        id: &str,
        event: &str,
    ) -> Set {
        let Some(entity) = &self.layout.idempotency else { return set };
        let mut record = object([("eventId", event.into()), ("requestHash", hash(request).into())]);
        record.insert("idempotencyKey".to_owned(), Json::from(own(tenant, key)));
        record.insert(self.layout.id.clone(), id.into());
        set.create(&entity.name, record)
    }
}

/// A key is one user's: another user of the tenant who chooses the same one means something else by it.
fn own(tenant: &Tenant, key: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in [&*tenant.principal().user, key] {
        hasher.update(&(part.len() as u64).to_be_bytes()).update(part.as_bytes());
    }
    hasher.finalize().to_hex()[..40].to_owned()
}

fn hash(request: &[u8]) -> String {
    format!("blake3:{}", blake3::hash(request).to_hex())
}
