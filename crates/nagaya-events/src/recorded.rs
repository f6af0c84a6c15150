//! Events as they are stored.

use nagaya_tenancy::Record;
use serde::de::{DeserializeOwned, DeserializeSeed, IntoDeserializer as _, MapAccess, value::MapAccessDeserializer};
use serde_json::{Map, Value as Json};

use crate::{Error, Evolve, Raw, layout::Layout};

/// An event that has happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// Whose it is.
    pub tenant: String,
    /// The aggregate that it happened to.
    pub aggregate: String,
    /// The version of the aggregate after it; the first is 1.
    pub version: u64,
    /// Its id, a ULID that is greater than those before it in the aggregate.
    pub id: String,
    /// Its type, the version of its form, and its own fields.
    pub raw: Raw,
    /// Who did it, when and why, as the design has it.
    pub metadata: Map<String, Json>,
    /// Whether something personal in it has been erased.
    pub erased: bool,
}

impl Recorded {
    /// Reads an event; an error if it is none.
    pub(crate) fn read(layout: &Layout, tenant: &str, mut record: Record) -> Result<Self, Error> {
        let text = |name: &str| record.text(name).map(str::to_owned).ok_or_else(|| Error::unreadable(&record, name));
        let (aggregate, id, event_type) = (text(&layout.id)?, text("eventId")?, text("eventType")?);
        let number = |name: &str| record.json(name).as_ref().and_then(Json::as_u64);
        let version = number("aggregateVersion").ok_or_else(|| Error::unreadable(&record, "aggregateVersion"))?;
        let form = number(FORM).map_or(Ok(1), u32::try_from).map_err(|_| Error::unreadable(&record, FORM))?;
        let mut map = |name: &str| match record.take(name) {
            Some(Json::Object(map)) => Ok(map),
            None => Ok(Map::new()),
            Some(_) => Err(Error::unreadable(&record, name)),
        };
        let raw = Raw { event_type, version: form, data: map("data")? };
        Ok(Recorded {
            tenant: tenant.to_owned(),
            aggregate,
            version,
            id,
            raw,
            metadata: map("metadata")?,
            erased: false,
        })
    }

    /// The event in the form of today.
    pub fn event<S: Evolve>(&self) -> Result<S::Event, Error> {
        if self.raw.version == S::version(&self.raw.event_type) {
            return self.understood(&self.raw);
        }
        let mut raw = self.raw.clone();
        // An upcaster may give an event another type.
        while raw.version < S::version(&raw.event_type) {
            let before = raw.version;
            raw = S::upcast(raw);
            if raw.version <= before {
                return Err(Error::unknown_event(self, "its upcaster does not lift it"));
            }
        }
        if raw.version > S::version(&raw.event_type) {
            return Err(Error::unknown_event(self, "it is newer than this program"));
        }
        self.understood(&raw)
    }

    fn understood<E: DeserializeOwned>(&self, raw: &Raw) -> Result<E, Error> {
        let tagged = Tagged { raw, next: Part::Type };
        E::deserialize(MapAccessDeserializer::new(tagged))
            .map_err(|error| Error::unknown_event(self, &error.to_string()))
    }

    /// A text of the metadata, such as `timestamp` or `actor.userId`.
    pub fn about(&self, path: &str) -> Option<&str> {
        let mut steps = path.split('.');
        let first = self.metadata.get(steps.next()?)?;
        steps.try_fold(first, |found, step| found.get(step))?.as_str()
    }
}

/// An event as its enum is read, without a copy: its type comes first, so that its fields are read as what they are.
struct Tagged<'r> {
    raw: &'r Raw,
    next: Part,
}

/// What of it comes next.
enum Part {
    Type,
    Data,
    End,
}

impl<'r> MapAccess<'r> for Tagged<'r> {
    type Error = serde_json::Error;

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
            }
            Part::Data | Part::End => seed.deserialize(&self.raw.data),
        }
    }
}

/// The field with the version of an event's form; left out for the first one.
pub(crate) const FORM: &str = "eventVersion";
