//! Keys that seal personal fields of events, as an operator rotates and destroys them beside a running server.

mod common;

use std::{fs, path::Path, process::Command, sync::Arc};

use common::{Run, nagaya};
use nagaya::{
    Nagaya, Principal, Settings, design,
    embedded::{EmbeddedStore, Options},
    store::{Scan, Store as _},
};
use nagaya_events::{CommandRequest, Context, Decide, ERASED, Events, Evolve};
use nagaya_testing::ServeProcess;
use serde::{Deserialize, Serialize};

const DESIGN: &str = r##"
name    = "letters"
version = "1.0"

[tenant]
field = "home"

[table.events]
key    = ["PK", "SK"]
stream = true

[aggregate.letter]
id     = "letterId"
events = "event"
head   = "head"
keys   = "subject_key"

[aggregate.letter.event]
Written = { text = { type = "string", max = 500, personal = true } }

[entity.event]
table = "events"
key   = { PK = "HOME#{home}#LETTER#{letterId}", SK = "EVENT#{eventId}" }

[entity.event.fields]
home             = { type = "string", max = 64 }
letterId         = { type = "ulid" }
aggregateVersion = { type = "integer", min = 1 }
eventId          = { type = "ulid" }
eventType        = { type = "string", max = 20 }
data             = { type = "map", max = 8192 }
metadata         = { type = "map", max = 8192 }

[entity.head]
table = "events"
key   = { PK = "HOME#{home}#LETTER#{letterId}", SK = "HEAD#" }

[entity.head.fields]
home             = { type = "string", max = 64 }
letterId         = { type = "ulid" }
aggregateVersion = { type = "integer", min = 1 }
lastEventId      = { type = "ulid" }

[entity.subject_key]
table = "events"
key   = { PK = "HOME#{home}", SK = "KEY#{subjectId}" }

[entity.subject_key.fields]
home      = { type = "string", max = 64 }
subjectId = { type = "string", max = 64 }
key       = { type = "string", max = 1000, secret = true }

[access.history]
entity = "event"
range  = "eventId"
"##;

const ID: &str = "01KG9S5Q60T4N2Y8ZC3M7VXR1E";

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Letter {
    text: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "eventType", content = "data")]
enum LetterEvent {
    Written { text: String },
}

struct Write;

impl Evolve for Letter {
    type Event = LetterEvent;

    fn evolve(&mut self, LetterEvent::Written { text }: &LetterEvent) {
        self.text.clone_from(text);
    }
}

impl Decide<Write> for Letter {
    type Reply = ();
    type Refusal = ();

    fn decide(&self, _: &Write, _: &Context) -> Result<Vec<LetterEvent>, ()> {
        Ok(vec![LetterEvent::Written { text: "Dear Bob".to_owned() }])
    }

    fn reply(&self, _: &Write) {}
}

/// The letters in a directory that no process has open.
struct Letters {
    store: Arc<EmbeddedStore>,
    nagaya: Nagaya,
    events: Events<Letter>,
}

impl Letters {
    async fn open(data: &Path) -> Self {
        let checked = design::check(DESIGN, &[]);
        let design = checked.design.unwrap_or_else(|| panic!("{:?}", checked.diagnostics));
        let store = Arc::new(EmbeddedStore::open(data, Options::default()).expect("the directory opens"));
        let events = Events::new(&design, "letter", Default::default()).expect("an aggregate");
        let settings = Settings { prefix: "letters/".to_owned(), ..Settings::default() };
        let nagaya = Nagaya::open_with(design, Arc::clone(&store), settings);
        nagaya.ensure_tables().await.expect("the tables are there");
        Letters { store, nagaya, events }
    }

    async fn write(&self) {
        let tenant = self.nagaya.tenant(&Principal::new("h-1", "ann")).expect("a tenant");
        let (user, cause, ids) = ("ann".to_owned(), "request-1".to_owned(), self.nagaya.ids());
        let now = self.nagaya.clock().millis();
        let context = Context { now, user, correlation: cause.clone(), causation: cause, ids };
        let request = CommandRequest { expected: None, idempotency: None, context };
        self.events.execute(&tenant, ID, &Write, &request).await.expect("it is written");
    }

    /// The text of the letter.
    async fn text(&self) -> String {
        let tenant = self.nagaya.tenant(&Principal::new("h-1", "ann")).expect("a tenant");
        self.events.load(&tenant, ID).await.expect("a letter").state.text
    }

    /// How long the item is that holds the keys of the user.
    async fn key_length(&self) -> Option<usize> {
        let items = self.store.scan(Scan::table("letters/letters-events")).await.expect("a page").items;
        let keys = items.into_iter().find(|item| item.get("subjectId").is_some());
        keys.and_then(|item| Some(item.get("key")?.as_str()?.len()))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_events_are_rotated_and_destroyed_beside_a_running_server() {
    let directory = tempfile::tempdir().expect("a directory");
    let (data, file) = (directory.path().join("data"), directory.path().join("letters.toml"));
    let text = |path: &Path| path.to_str().expect("text").to_owned();
    let (data, design) = (text(&data), text(&file));
    fs::write(&file, DESIGN).expect("a file");
    let letters = Letters::open(data.as_ref()).await;
    letters.write().await;
    let one = letters.key_length().await.expect("a key");
    drop(letters);

    let serve = || ServeProcess::start(Command::new(env!("CARGO_BIN_EXE_nagaya")), &[&design, "--data", &data]);
    let events = |words: &[&str]| -> Run {
        let user = ["--tenant", "h-1", "--data", &data, "ann"];
        nagaya(&[&["events", words[0], &design], &words[1..], &user[..]].concat())
    };
    let server = serve();
    let rotated = events(&["rotate-key"]);
    assert_eq!((rotated.status, rotated.stdout.as_str()), (0, "1 key rotated\n"), "{rotated}");
    assert_eq!(server.process.stop(), Some(0));
    let letters = Letters::open(data.as_ref()).await;
    assert!(letters.key_length().await > Some(one), "it has two keys");
    assert_eq!(letters.text().await, "Dear Bob");
    drop(letters);

    let server = serve();
    let erased = events(&["erase", "--yes"]);
    assert!(erased.status == 0 && erased.stdout.starts_with("1 key destroyed"), "{erased}");
    assert_eq!(server.process.stop(), Some(0));
    let letters = Letters::open(data.as_ref()).await;
    assert_eq!(letters.text().await, ERASED);
}
