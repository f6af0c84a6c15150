//! Snapshots: a cache of states, so that not all events of a long aggregate have to be read.

use nagaya_tenancy::Tenant;
use serde_json::Value as Json;

use super::{Events, LoadedAggregate, append::json_object};
use crate::{Error, Evolve, RecordedEvent};

/// The name under which snapshots store the schema version of their state.
const SCHEMA_VERSION_FIELD: &str = "form";

impl<S: Evolve> Events<S> {
    /// The state of a snapshot and the id of its last event, if there is one with this schema version.
    pub(super) async fn load_snapshot(
        &self,
        tenant: &Tenant,
        id: &str,
        version: u64,
    ) -> Result<Option<(String, LoadedAggregate<S>)>, Error> {
        let Some(entity) = self.layout.snapshot.as_ref().filter(|_| self.may_have_snapshot(version)) else {
            return Ok(None);
        };
        let snapshot = match tenant.get(&entity.name, &[id]).await {
            Ok(snapshot) => snapshot.to_json(),
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let stored = snapshot.get("state").and_then(Json::as_object);
        let stored = stored.filter(|stored| {
            stored.get(SCHEMA_VERSION_FIELD).and_then(Json::as_u64) == Some(S::schema_version().into())
        });
        let state = stored.and_then(|stored| serde_json::from_value(stored.get("state")?.clone()).ok());
        let at = snapshot.get("aggregateVersion").and_then(Json::as_u64).filter(|at| *at <= version);
        let last = snapshot.get("lastEventId").and_then(Json::as_str).map(str::to_owned);
        Ok(state
            .zip(at)
            .zip(last)
            .map(|((state, version), last)| (last, LoadedAggregate { state, version, latest: None, head: None })))
    }

    /// Stores a snapshot, if enough events have come since the last one. A failure does not concern the caller of a command.
    pub(super) async fn store_snapshot(&self, tenant: &Tenant, state: &S, latest: &RecordedEvent, added: usize) {
        let every = self.options.snapshot_every;
        let Some(entity) = &self.layout.snapshot else { return };
        let (id, version) = (latest.aggregate.as_str(), latest.version);
        let before = version.saturating_sub(added as u64);
        if every == 0 || before / every == version / every {
            return;
        }
        let Ok(state) = serde_json::to_value(state) else { return };
        let fields = json_object([
            ("aggregateVersion", version.into()),
            ("lastEventId", latest.id.as_str().into()),
            ("state", json_object([(SCHEMA_VERSION_FIELD, S::schema_version().into()), ("state", state)]).into()),
        ]);
        let mut new = fields.clone();
        new.insert(self.layout.id.clone(), id.into());
        let written = match tenant.update(&entity.name, &[id], fields, None).await {
            Err(error) if error.is_not_found() => tenant.create(&entity.name, new).await,
            written => written,
        };
        if let Err(error) = written {
            tracing::debug!(%error, aggregate = self.layout.aggregate, "a snapshot was not stored");
        }
    }

    fn may_have_snapshot(&self, version: u64) -> bool {
        self.options.snapshot_every > 0 && version >= self.options.snapshot_every
    }
}
