//! Appending: events, head and idempotency record in one write.

use nagaya_tenancy::{Error as LayerError, ErrorKind as Kind, Tenant};
use serde_json::{Map, Value as Json};

use super::{Appended, Events, Loaded, Maker, Request, chained, fields};
use crate::{Error, Evolve, Failure, chain, seal};

impl<S: Evolve> Events<S> {
    /// Appends what was decided on a state; who was faster, if the state is not the last one any more.
    pub(super) async fn append<R>(
        &self,
        tenant: &Tenant,
        id: &str,
        loaded: Loaded<S>,
        decided: Vec<S::Event>,
        request: &Request<'_>,
    ) -> Result<Result<Appended<S>, LayerError>, Failure<R>> {
        let Loaded { mut state, mut version, mut latest, head } = loaded;
        let name = std::sync::Arc::clone(&tenant.principal().tenant);
        let maker = Maker { layout: &self.layout, tenant: &name, id, context: &request.context };
        let mut events = Vec::with_capacity(decided.len());
        for event in &decided {
            version += 1;
            let recorded = maker.make::<S>(event, version, latest.as_ref().map(|latest| latest.id.as_str()))?;
            state.evolve(event);
            events.push(recorded.clone());
            latest = Some(recorded);
        }
        let mut stored = std::borrow::Cow::Borrowed(events.as_slice());
        if self.layout.keys.is_some() {
            seal::seal(&self.layout, tenant, &request.context.user, stored.to_mut()).await?;
        }
        let mut set = tenant.set();
        for event in &*stored {
            set = set.create(&self.layout.events.name, fields(&self.layout, event));
        }
        if let (Some(latest), false) = (&latest, events.is_empty()) {
            let entity = &self.layout.head;
            let mut stand = Map::new();
            stand.insert("aggregateVersion".to_owned(), version.into());
            stand.insert("lastEventId".to_owned(), latest.id.as_str().into());
            // A chain begins with the first event, or not at all.
            let chain = head.as_ref().map_or(Some(chain::START), |head| head.text("hash"));
            if let (Some(chain), Some(_)) = (chain, entity.field("hash")) {
                stand.insert("hash".to_owned(), chained(chain, &stored).into());
            }
            set = match &head {
                Some(head) => set.update(&entity.name, &[id], stand, head),
                None => {
                    stand.insert(self.layout.id.clone(), id.into());
                    set.create(&entity.name, stand)
                }
            };
        }
        if let (Some(once), Some(latest)) = (request.once, &latest) {
            set = self.remember(set, tenant, once, id, &latest.id);
        } else if events.is_empty() {
            return Ok(Ok(Appended { state, version, latest, events }));
        }
        match set.commit().await {
            Ok(_) => {}
            Err(error) if overtaken(&error) => return Ok(Err(error)),
            Err(error) => return Err(Error::from(error).into()),
        }
        if let Some(latest) = &latest {
            self.keep_snapshot(tenant, &state, latest, events.len()).await;
        }
        Ok(Ok(Appended { state, version, latest, events }))
    }
}

/// Whether somebody else was faster: with the next event, with the first one, or with the same request.
fn overtaken(error: &LayerError) -> bool {
    matches!(error.kind(), Kind::VersionConflict { .. } | Kind::Taken { .. } | Kind::Contended | Kind::NotFound { .. })
}

/// The fields of a map as JSON.
pub(super) fn object(fields: impl IntoIterator<Item = (&'static str, Json)>) -> Map<String, Json> {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
