//! The functions of a domain: events change a state, and commands lead to events. Both are pure and synchronous.

use nagaya_tenancy::IdGenerator;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value as Json};

/// A state that is built from events.
///
/// ```
/// use nagaya_events::Evolve;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Debug, Clone, Default, Serialize, Deserialize)]
/// struct Door {
///     open: bool,
/// }
///
/// #[derive(Debug, Clone, Serialize, Deserialize)]
/// #[serde(tag = "eventType", content = "data")]
/// enum DoorEvent {
///     DoorOpened {},
///     DoorClosed {},
/// }
///
/// impl Evolve for Door {
///     type Event = DoorEvent;
///
///     fn evolve(&mut self, event: &DoorEvent) {
///         self.open = matches!(event, DoorEvent::DoorOpened {});
///     }
/// }
/// ```
pub trait Evolve: Default + Clone + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The events: an enum with the event types of the design, tagged by `eventType` with the fields in `data`.
    type Event: Serialize + DeserializeOwned + Clone + Send + Sync + 'static;

    /// Applies an event. An event has happened, so it cannot be refused.
    fn evolve(&mut self, event: &Self::Event);

    /// The schema version in which events of a type are written today.
    fn event_version(event_type: &str) -> u32 {
        let _ = event_type;
        1
    }

    /// The schema version of the state. It is stored in snapshots, and a snapshot with another one is not used. Change it
    /// when the fields of the state change, or when the same events lead to another state.
    fn schema_version() -> u32 {
        1
    }

    /// Converts an event of an older schema version to the next one. Called until it has today's.
    fn upcast(event: RawEvent) -> RawEvent {
        RawEvent { version: event.version + 1, ..event }
    }
}

/// A state that decides on commands.
pub trait Decide<Command>: Evolve {
    /// The answer to the caller.
    type Reply;
    /// Why a command is refused.
    type Refusal;

    /// The events that a command leads to; none if the state is already as the command wants it.
    fn decide(&self, command: &Command, context: &Context) -> Result<Vec<Self::Event>, Self::Refusal>;

    /// The answer to the caller, from the state after the events. A repeated request gets the same answer.
    fn reply(&self, command: &Command) -> Self::Reply;
}

/// An event as it is stored, before it is upcast.
#[derive(Debug, Clone, PartialEq)]
pub struct RawEvent {
    /// Its type.
    pub event_type: String,
    /// Its schema version.
    pub version: u32,
    /// Its fields.
    pub data: Map<String, Json>,
}

/// What a decision knows besides the state and the command.
#[derive(Debug, Clone)]
pub struct Context {
    /// The time, in milliseconds since 1970.
    pub now: i64,
    /// The user who sent the command.
    pub user: String,
    /// The correlation id: the same for everything that one request has caused.
    pub correlation: String,
    /// The causation id: the request or the event that caused the command.
    pub causation: String,
    /// Creates ids.
    pub ids: IdGenerator,
}

impl Context {
    /// A new ULID of the current time.
    pub fn new_id(&self) -> String {
        self.ids.ulid(self.now)
    }
}
