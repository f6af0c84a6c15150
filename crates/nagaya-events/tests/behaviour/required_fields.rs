//! An event has the fields that the design requires.

use nagaya_events::{Context, Decide, ErrorKind, Events, EventsOptions, Evolve, Failure};
use serde::{Deserialize, Serialize};

use crate::app::{App, design, id};

/// A program whose events lack a field.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Careless;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "eventType", content = "data")]
enum CarelessEvent {
    TodoCreated {},
}

impl Evolve for Careless {
    type Event = CarelessEvent;

    fn evolve(&mut self, _: &CarelessEvent) {}
}

impl Decide<()> for Careless {
    type Reply = ();
    type Refusal = ();

    fn decide(&self, (): &(), _: &Context) -> Result<Vec<CarelessEvent>, ()> {
        Ok(vec![CarelessEvent::TodoCreated {}])
    }

    fn reply(&self, (): &()) {}
}

/// Proves the fields part of T1.
#[tokio::test]
async fn an_event_without_a_required_field_is_refused() {
    let app = App::new().await;
    let events = Events::<Careless>::new(&design(), "todo", EventsOptions::default()).expect("an aggregate");
    let refused = events.execute(&app.family("f1"), &id(1), &(), &app.request()).await;
    let Err(Failure::Error(error)) = refused else { panic!("{refused:?}") };
    assert!(matches!(error.kind(), ErrorKind::Tenancy(_)), "{error:?}");
    assert_eq!((error.code(), error.to_string().as_str()), ("invalid", "`data.title` is missing"));
    assert_eq!(app.recorded(1).await, []);
}
