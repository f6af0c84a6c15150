//! What a domain says: what happened becomes a state, and what is wanted becomes what happens. Pure, and without waiting.

use nagaya_tenancy::Ids;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value as Json};

/// A state that events make.
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
    /// What can happen: an enum with the types of events as the design has them, tagged by `eventType` with its fields in
    /// `data`.
    type Event: Serialize + DeserializeOwned + Clone + Send + Sync + 'static;

    /// Takes in what has happened. It cannot be refused any more.
    fn evolve(&mut self, event: &Self::Event);

    /// The version in which events of a type are written today.
    fn version(event_type: &str) -> u32 {
        let _ = event_type;
        1
    }

    /// The form of the state. States that are kept as snapshots have it with them, and one of another form is not used: it
    /// becomes another one when the state gets other fields, or when the same events make something else of it.
    fn form() -> u32 {
        1
    }

    /// Lifts an event of an older version to the next one. Called until it has today's.
    fn upcast(event: Raw) -> Raw {
        Raw { version: event.version + 1, ..event }
    }
}

/// A state that decides about commands.
pub trait Decide<Command>: Evolve {
    /// What the one who asked is told.
    type Reply;
    /// Why a command is refused.
    type Refusal;

    /// What happens because of a command: nothing, if it is as wanted already.
    fn decide(&self, command: &Command, context: &Context) -> Result<Vec<Self::Event>, Self::Refusal>;

    /// What the one who asked is told, from the state after what happened: the same however often it is asked.
    fn reply(&self, command: &Command) -> Self::Reply;
}

/// An event as it was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Raw {
    /// Its type.
    pub event_type: String,
    /// The version of its form.
    pub version: u32,
    /// Its own fields.
    pub data: Map<String, Json>,
}

/// What a decision knows besides the state.
#[derive(Debug, Clone)]
pub struct Context {
    /// The time, in milliseconds since 1970.
    pub now: i64,
    /// Who asks.
    pub user: String,
    /// The same for everything that one request set off.
    pub correlation: String,
    /// What causes this: the request, or an earlier event.
    pub causation: String,
    /// Makes ids.
    pub ids: Ids,
}

impl Context {
    /// A new ULID of this moment.
    pub fn new_id(&self) -> String {
        self.ids.ulid(self.now)
    }
}
