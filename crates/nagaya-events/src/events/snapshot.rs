//! Snapshots: states that are kept so that not all events have to be read. A cache, and nothing else.

use nagaya_tenancy::{ErrorKind as Kind, Tenant};
use serde_json::Value as Json;

use super::{Events, Loaded, append::object};
use crate::{Error, Evolve, Recorded};

impl<S: Evolve> Events<S> {
    /// A state that was kept and the event that it ends with, if there is one that this program understands.
    pub(super) async fn snapshot(
        &self,
        tenant: &Tenant,
        id: &str,
        version: u64,
    ) -> Result<Option<(String, Loaded<S>)>, Error> {
        let Some(entity) = self.layout.snapshot.as_ref().filter(|_| self.is_long(version)) else { return Ok(None) };
        let kept = match tenant.get(&entity.name, &[id]).await {
            Ok(kept) => kept.to_json(),
            Err(error) if matches!(error.kind(), Kind::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let made = kept.get("state").and_then(Json::as_object);
        let made = made.filter(|made| made.get("form").and_then(Json::as_u64) == Some(S::form().into()));
        let state = made.and_then(|made| serde_json::from_value(made.get("state")?.clone()).ok());
        let at = kept.get("aggregateVersion").and_then(Json::as_u64).filter(|at| *at <= version);
        let last = kept.get("lastEventId").and_then(Json::as_str).map(str::to_owned);
        Ok(state
            .zip(at)
            .zip(last)
            .map(|((state, version), last)| (last, Loaded { state, version, latest: None, head: None })))
    }

    /// Keeps a state, when it is time for it. That it fails is nothing to tell the one who gave the command.
    pub(super) async fn keep_snapshot(&self, tenant: &Tenant, state: &S, latest: &Recorded, added: usize) {
        let every = self.options.snapshot_every;
        let Some(entity) = &self.layout.snapshot else { return };
        let (id, version) = (latest.aggregate.as_str(), latest.version);
        let before = version.saturating_sub(added as u64);
        if every == 0 || before / every == version / every {
            return;
        }
        let Ok(state) = serde_json::to_value(state) else { return };
        let fields = object([
            ("aggregateVersion", version.into()),
            ("lastEventId", latest.id.as_str().into()),
            ("state", object([("form", S::form().into()), ("state", state)]).into()),
        ]);
        let mut made = fields.clone();
        made.insert(self.layout.id.clone(), id.into());
        let written = match tenant.update(&entity.name, &[id], fields, None).await {
            Err(error) if matches!(error.kind(), Kind::NotFound { .. }) => tenant.create(&entity.name, made).await,
            written => written,
        };
        if let Err(error) = written {
            tracing::debug!(%error, aggregate = self.layout.aggregate, "a snapshot was not kept");
        }
    }

    fn is_long(&self, version: u64) -> bool {
        self.options.snapshot_every > 0 && version >= self.options.snapshot_every
    }
}
