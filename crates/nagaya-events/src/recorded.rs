//! Events as they are stored.

use nagaya_tenancy::{FieldsDeserializer, Record, TypeMismatch};
use serde::de::{DeserializeOwned, DeserializeSeed, IntoDeserializer as _, MapAccess, value::MapAccessDeserializer};
use serde_json::{Map, Value as Json};

use crate::{Error, ErrorKind, Evolve, RawEvent, layout::Layout};

/// An event that has happened.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedEvent {
    /// The tenant that owns it.
    pub tenant: String,
    /// The aggregate that it happened to.
    pub aggregate: String,
    /// The version of the aggregate after it; the first is 1.
    pub version: u64,
    /// Its id, a ULID that is greater than those before it in the aggregate.
    pub id: String,
    /// Its type, schema version and fields.
    pub raw: RawEvent,
    /// Who did it, when and why, as the design describes it.
    pub metadata: Map<String, Json>,
    /// Whether a personal field in it has been erased.
    pub erased: bool,
    /// A personal field in it that cannot be decrypted, if there is one. It has its encrypted value.
    pub undecrypted: Option<String>,
}

impl RecordedEvent {
    /// Reads an event from a stored record.
    pub(crate) fn read(layout: &Layout, tenant: &str, mut record: Record) -> Result<Self, Error> {
        let text = |name: &str| record.text(name).map(str::to_owned).ok_or_else(|| Error::unreadable(&record, name));
        let (aggregate, id, event_type) = (text(&layout.id)?, text("eventId")?, text("eventType")?);
        let number = |name: &str| record.json(name).as_ref().and_then(Json::as_u64);
        let version = number("aggregateVersion").ok_or_else(|| Error::unreadable(&record, "aggregateVersion"))?;
        let schema_version = number(SCHEMA_VERSION_FIELD).map_or(Ok(1), u32::try_from);
        let schema_version = schema_version.map_err(|_| Error::unreadable(&record, SCHEMA_VERSION_FIELD))?;
        let mut map = |name: &str| match record.take(name) {
            Some(Json::Object(map)) => Ok(map),
            None => Ok(Map::new()),
            Some(_) => Err(Error::unreadable(&record, name)),
        };
        let raw = RawEvent { event_type, version: schema_version, data: map("data")? };
        Ok(RecordedEvent {
            tenant: tenant.to_owned(),
            aggregate,
            version,
            id,
            raw,
            metadata: map("metadata")?,
            erased: false,
            undecrypted: None,
        })
    }

    /// The event in today's schema version.
    pub fn event<S: Evolve>(&self) -> Result<S::Event, Error> {
        if self.raw.version == S::event_version(&self.raw.event_type) {
            return self.deserialize(&self.raw);
        }
        let mut raw = self.raw.clone();
        // An upcaster may change the type of an event.
        while raw.version < S::event_version(&raw.event_type) {
            let before = raw.version;
            raw = S::upcast(raw);
            if raw.version <= before {
                return Err(self.unreadable(TypeMismatch::because("its upcaster did not increase the version")));
            }
        }
        if raw.version > S::event_version(&raw.event_type) {
            return Err(self.unreadable(TypeMismatch::because("it is newer than this program")));
        }
        self.deserialize(&raw)
    }

    fn deserialize<E: DeserializeOwned>(&self, raw: &RawEvent) -> Result<E, Error> {
        let tagged = Tagged { raw, next: Part::Type };
        E::deserialize(MapAccessDeserializer::new(tagged)).map_err(|why| self.unreadable(why))
    }

    fn unreadable(&self, why: TypeMismatch) -> Error {
        let RawEvent { event_type, version, .. } = self.raw.clone();
        ErrorKind::UnreadableEvent { event: self.id.clone(), event_type, version, why }.into()
    }

    /// An error if a personal field in it cannot be decrypted.
    pub(crate) fn check_decrypted(&self) -> Result<(), Error> {
        let Some(field) = &self.undecrypted else { return Ok(()) };
        Err(Error::damaged(&self.aggregate, format!("`data.{field}` of {} cannot be decrypted", self.id)))
    }

    /// A text field of the metadata, such as `timestamp` or `actor.userId`.
    pub fn metadata_text(&self, path: &str) -> Option<&str> {
        let mut steps = path.split('.');
        let first = self.metadata.get(steps.next()?)?;
        steps.try_fold(first, |found, step| found.get(step))?.as_str()
    }
}

/// Deserializes the event enum without a copy of the event. The type comes first, so that serde does not have to buffer the
/// fields.
struct Tagged<'r> {
    raw: &'r RawEvent,
    next: Part,
}

/// The entry of the map that comes next.
enum Part {
    Type,
    Data,
    End,
}

impl<'r> MapAccess<'r> for Tagged<'r> {
    type Error = TypeMismatch;

    fn next_key_seed<K: DeserializeSeed<'r>>(&mut self, seed: K) -> Result<Option<K::Value>, Self::Error> {
        let name = match self.next {
            Part::Type => "eventType",
            Part::Data => "data",
            Part::End => return Ok(None),
        };
        seed.deserialize(name.into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'r>>(&mut self, seed: V) -> Result<V::Value, Self::Error> {
        match std::mem::replace(&mut self.next, Part::End) {
            Part::Type => {
                self.next = Part::Data;
                seed.deserialize(self.raw.event_type.as_str().into_deserializer())
                    .map_err(|error: TypeMismatch| error.inside("eventType"))
            }
            Part::Data | Part::End => {
                seed.deserialize(FieldsDeserializer(&self.raw.data)).map_err(|error| error.inside("data"))
            }
        }
    }
}

/// The field with an event's schema version; absent for version 1.
pub(crate) const SCHEMA_VERSION_FIELD: &str = "eventVersion";
