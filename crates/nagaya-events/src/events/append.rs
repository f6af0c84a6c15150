//! Appending: events, head and idempotency record in one write.

use nagaya_tenancy::Tenant;
use serde_json::{Map, Value as Json};

use super::{
    Appended, Events, LoadedAggregate,
    build::{EventBuilder, end_of_chain, event_fields},
    idempotency::IdempotentRequest,
};
use crate::{Context, Evolve, Failure, chain, error::is_lost_race, seal};

impl<S: Evolve> Events<S> {
    /// Appends events to the state that they were decided on; the conflict, if another writer has changed the aggregate.
    pub(super) async fn append<R>(
        &self,
        tenant: &Tenant,
        id: &str,
        loaded: LoadedAggregate<S>,
        decided: Vec<S::Event>,
        context: &Context,
        once: Option<&IdempotentRequest<'_>>,
    ) -> Result<Result<Appended<S>, nagaya_tenancy::Error>, Failure<R>> {
        let LoadedAggregate { mut state, mut version, mut latest, head } = loaded;
        let name = std::sync::Arc::clone(&tenant.principal().tenant);
        let builder = EventBuilder { layout: &self.layout, tenant: &name, id, context };
        let mut events = Vec::with_capacity(decided.len());
        for event in &decided {
            version += 1;
            let recorded = builder.build::<S>(event, version, latest.as_ref().map(|latest| latest.id.as_str()))?;
            state.evolve(event);
            events.push(recorded.clone());
            latest = Some(recorded);
        }
        let mut stored = std::borrow::Cow::Borrowed(events.as_slice());
        if self.layout.keys.is_some() {
            seal::seal(&self.layout, tenant, &context.user, stored.to_mut()).await?;
        }
        let mut set = tenant.change_set();
        for event in &*stored {
            set = set.create(&self.layout.events.name, event_fields(&self.layout, event));
        }
        if let (Some(latest), false) = (&latest, events.is_empty()) {
            let entity = &self.layout.head;
            let mut fields = Map::new();
            fields.insert("aggregateVersion".to_owned(), version.into());
            fields.insert("lastEventId".to_owned(), latest.id.as_str().into());
            // An aggregate has a hash chain from its first event on, or none.
            let chain = head.as_ref().map_or(Some(chain::HASH_BEFORE_FIRST), |head| head.text("hash"));
            if let (Some(chain), Some(_)) = (chain, entity.field("hash")) {
                fields.insert("hash".to_owned(), end_of_chain(chain, &stored).into());
            }
            set = match &head {
                Some(head) => set.update(&entity.name, &[id], fields, head),
                None => {
                    fields.insert(self.layout.id.clone(), id.into());
                    set.create(&entity.name, fields)
                }
            };
        }
        if let (Some(once), Some(latest)) = (once, &latest) {
            if let Some(entity) = &self.layout.idempotency {
                let mut record = json_object([
                    ("idempotencyKey", once.record_id.as_str().into()),
                    ("eventId", latest.id.as_str().into()),
                    ("requestHash", once.hash.as_str().into()),
                ]);
                record.insert(self.layout.id.clone(), id.into());
                set = set.create(&entity.name, record);
            }
        } else if events.is_empty() {
            return Ok(Ok(Appended { state, version, latest, events }));
        }
        match set.commit().await {
            Ok(_) => {}
            Err(error) if is_lost_race(&error) => return Ok(Err(error)),
            Err(error) => return Err(error.into()),
        }
        if let Some(latest) = &latest {
            self.store_snapshot(tenant, &state, latest, events.len()).await;
        }
        Ok(Ok(Appended { state, version, latest, events }))
    }
}

/// A JSON object with these fields.
pub(super) fn json_object(fields: impl IntoIterator<Item = (&'static str, Json)>) -> Map<String, Json> {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
