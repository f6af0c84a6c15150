//! Building the events to store from those that a domain has decided on.

use nagaya_design::{DefaultValue, Field, FieldError};
use serde_json::{Map, Value as Json};

use crate::{Context, Error, ErrorKind, Evolve, RawEvent, RecordedEvent, chain, event_id, layout::Layout};

/// Builds the events of one aggregate for one command.
pub(super) struct EventBuilder<'m> {
    pub(super) layout: &'m Layout,
    pub(super) tenant: &'m str,
    pub(super) id: &'m str,
    pub(super) context: &'m Context,
}

impl EventBuilder<'_> {
    /// The next event of the aggregate.
    pub(super) fn build<S: Evolve>(
        &self,
        event: &S::Event,
        version: u64,
        last: Option<&str>,
    ) -> Result<RecordedEvent, Error> {
        let EventBuilder { layout, tenant, id, context } = self;
        let invalid = |why: &str| {
            Error::from(ErrorKind::UnknownEvent { event: format!("{} of {id}", layout.aggregate), why: why.to_owned() })
        };
        let Ok(Json::Object(mut tagged)) = serde_json::to_value(event) else {
            return Err(invalid("an event must be tagged by `eventType`, with its fields in `data`"));
        };
        let Some(Json::String(event_type)) = tagged.remove("eventType") else {
            return Err(invalid("it has no `eventType`"));
        };
        let mut data = match tagged.remove("data") {
            Some(Json::Object(data)) => data,
            None | Some(Json::Null) => Map::new(),
            Some(_) => return Err(invalid("its `data` is not a map")),
        };
        let known = layout.types.iter().find(|known| known.name == event_type);
        let known = known.ok_or_else(|| invalid(&format!("the design has no event `{event_type}`")))?;
        for field in &known.fields {
            if let (None, Some(DefaultValue::Constant(value))) = (data.get(&field.name), &field.default) {
                data.insert(field.name.clone(), value.clone());
            }
        }
        let is_missing = |field: &&Field| !field.optional && field.default.is_none() && !data.contains_key(&field.name);
        let missing = known.fields.iter().filter(is_missing);
        let mut problems: Vec<_> = missing
            .map(|field| FieldError { path: format!("data.{}", field.name), message: "is missing".to_owned() })
            .collect();
        for (name, value) in &data {
            match known.fields.iter().find(|field| field.name == *name) {
                Some(field) => field.check(value, &format!("data.{name}"), &mut problems),
                None => return Err(invalid(&format!("the design's `{event_type}` has no field `{name}`"))),
            }
        }
        if !problems.is_empty() {
            return Err(nagaya_tenancy::Error::from(nagaya_tenancy::ErrorKind::Invalid(problems)).into());
        }
        let raw = RawEvent { version: S::event_version(&event_type), event_type, data };
        let id = event_id::next(&context.ids, context.now, last);
        let mut recorded = RecordedEvent {
            tenant: (*tenant).to_owned(),
            aggregate: (*self.id).to_owned(),
            version,
            id,
            raw,
            metadata: Map::new(),
            erased: false,
            undecrypted: None,
        };
        self.add_metadata(&mut recorded);
        Ok(recorded)
    }

    /// Adds who, when and why, as far as the design has fields for it.
    fn add_metadata(&self, event: &mut RecordedEvent) {
        let entity = &self.layout.events;
        let timestamp = entity.field("metadata.timestamp").and_then(|field| field.timestamp_value(self.context.now));
        let known = [
            ("correlationId", Some(self.context.correlation.as_str().into())),
            ("causationId", Some(self.context.causation.as_str().into())),
            ("actor.userId", Some(self.context.user.as_str().into())),
            ("timestamp", timestamp),
        ];
        for (path, value) in known {
            if let (Some(value), Some(_)) = (value, entity.field(&format!("metadata.{path}"))) {
                insert_at_path(&mut event.metadata, path, value);
            }
        }
        if let Some(path) = entity.tenant.as_deref().and_then(|path| path.strip_prefix("metadata.")) {
            insert_at_path(&mut event.metadata, path, self.tenant.into());
        }
    }
}

/// The hash of a chain after some events.
pub(super) fn end_of_chain(before: &str, events: &[RecordedEvent]) -> String {
    events.iter().fold(before.to_owned(), |end, event| chain::next_hash(&end, event))
}

/// The fields of an event's record, without the tenant, which the tenancy layer sets.
pub(super) fn event_fields(layout: &Layout, event: &RecordedEvent) -> Map<String, Json> {
    let mut metadata = event.metadata.clone();
    if let Some(tenant) = layout.events.tenant.as_deref().and_then(|path| path.strip_prefix("metadata.")) {
        remove_at(&mut metadata, tenant);
    }
    let mut fields = Map::new();
    fields.insert(layout.id.clone(), event.aggregate.as_str().into());
    fields.insert("aggregateVersion".to_owned(), event.version.into());
    fields.insert("eventId".to_owned(), event.id.as_str().into());
    fields.insert("eventType".to_owned(), event.raw.event_type.as_str().into());
    fields.insert("data".to_owned(), event.raw.data.clone().into());
    fields.insert("metadata".to_owned(), metadata.into());
    if event.raw.version > 1 {
        fields.insert(crate::recorded::SCHEMA_VERSION_FIELD.to_owned(), event.raw.version.into());
    }
    fields
}

/// Removes the value at a path of nested maps.
fn remove_at(fields: &mut Map<String, Json>, path: &str) {
    match path.split_once('.') {
        None => drop(fields.remove(path)),
        Some((first, rest)) => {
            if let Some(Json::Object(inner)) = fields.get_mut(first) {
                remove_at(inner, rest);
            }
        }
    }
}

/// Inserts a value at a path of nested maps.
fn insert_at_path(fields: &mut Map<String, Json>, path: &str, value: Json) {
    match path.split_once('.') {
        None => drop(fields.insert(path.to_owned(), value)),
        Some((first, rest)) => {
            let inner = fields.entry(first).or_insert_with(|| Map::new().into());
            if let Json::Object(inner) = inner {
                insert_at_path(inner, rest, value);
            }
        }
    }
}
