//! Personal fields of events are erased by destroying their key; the events stay complete.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use nagaya_design::{Design, check};
use nagaya_embedded::{EmbeddedStore, Options as Store};
use nagaya_events::{
    CommandRequest, Context, Decide, ERASED, Error, ErrorKind, Events, EventsOptions, Evolve, Feed, Inspector, Item,
    Processor, ProcessorOptions, Projection, RecordedEvent, UnparkOutcome,
};
use nagaya_store::{Key, Scan, Store as _, Value};
use nagaya_tenancy::{IdGenerator, Nagaya, Principal, Tenant};
use nagaya_testing::{Call, Fault, InstrumentedStore};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

const DESIGN: &str = r##"
name    = "letters"
version = "1.0"

[tenant]
field = "home"

[table.events]
key        = ["PK", "SK"]
index.GSI1 = ["GSI1PK", "GSI1SK"]
stream     = true

[table.list]
key = ["PK", "SK"]

[aggregate.letter]
id          = "letterId"
events      = "event"
head        = "head"
keys        = "subject_key"
projections = ["letter"]

[aggregate.letter.event]
Written = { text = { type = "string", max = 500, personal = true }, words = { type = "integer", personal = true }, draft = { type = "boolean" } }
Noted   = { urgent = { type = "boolean", personal = true }, tags = { type = "list", max = 5, items = { type = "string", max = 50 }, personal = true }, places = { type = "map", max = 500, personal = true } }
Sent    = {}

[entity.event]
table  = "events"
key    = { PK = "LETTER#{letterId}", SK = "EVENT#{eventId}" }
# NG0105: the events of a letter share a partition; whose they are is checked on each.
wall   = "attribute"
tenant = "metadata.actor.home"
index.GSI1 = { GSI1PK = "HOME#{metadata.actor.home}", GSI1SK = "{eventId}" }

[entity.event.fields]
letterId         = { type = "ulid" }
aggregateVersion = { type = "integer", min = 1 }
eventId          = { type = "ulid" }
eventType        = { type = "string", max = 20 }
data             = { type = "map", max = 8192 }

[entity.event.fields.metadata]
type = "map"

[entity.event.fields.metadata.fields.actor]
type = "map"

[entity.event.fields.metadata.fields.actor.fields]
userId = { type = "string", max = 64 }
home   = { type = "string", max = 64 }

[entity.head]
table = "events"
key   = { PK = "LETTER#{letterId}", SK = "HEAD#" }
# NG0105: it lies beside its events.
wall  = "attribute"

[entity.head.fields]
letterId         = { type = "ulid" }
home             = { type = "string", max = 64 }
aggregateVersion = { type = "integer", min = 1 }
lastEventId      = { type = "ulid" }
hash             = { type = "string", max = 64, optional = true }

[entity.subject_key]
table = "events"
key   = { PK = "HOME#{home}", SK = "KEY#{subjectId}" }

[entity.subject_key.fields]
home      = { type = "string", max = 64 }
subjectId = { type = "string", max = 64 }
key       = { type = "string", max = 1000, secret = true }

[entity.letter]
table = "list"
key   = { PK = "HOME#{home}", SK = "LETTER#{letterId}" }

[entity.letter.fields]
home     = { type = "string", max = 64 }
letterId = { type = "ulid" }
text     = { type = "string", max = 500 }
words    = { type = "integer" }
sent     = { type = "boolean", default = false }

[access.history]
entity = "event"
range  = "eventId"

[access.home_events]
entity = "event"
index  = "GSI1"
range  = "eventId"

[access.letters]
entity = "letter"
"##;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Letter {
    text: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "eventType", content = "data")]
enum LetterEvent {
    Written { text: String, words: i64, draft: bool },
    Noted { urgent: bool, tags: Vec<String>, places: Map<String, Json> },
    Sent {},
}

struct Write(&'static str);
struct Note;
struct Send;

impl Evolve for Letter {
    type Event = LetterEvent;

    fn evolve(&mut self, event: &LetterEvent) {
        if let LetterEvent::Written { text, .. } = event {
            self.text.clone_from(text);
        }
    }
}

impl Decide<Write> for Letter {
    type Reply = String;
    type Refusal = ();

    fn decide(&self, Write(text): &Write, _: &Context) -> Result<Vec<LetterEvent>, ()> {
        let words = i64::try_from(text.split(' ').count()).unwrap_or(i64::MAX);
        Ok(vec![LetterEvent::Written { text: (*text).to_owned(), words, draft: true }])
    }

    fn reply(&self, _: &Write) -> String {
        self.text.clone()
    }
}

impl Decide<Note> for Letter {
    type Reply = ();
    type Refusal = ();

    fn decide(&self, _: &Note, _: &Context) -> Result<Vec<LetterEvent>, ()> {
        let places = json!({ "from": "Osaka" }).as_object().cloned().unwrap_or_default();
        Ok(vec![LetterEvent::Noted { urgent: true, tags: vec!["love".to_owned()], places }])
    }

    fn reply(&self, _: &Note) {}
}

impl Decide<Send> for Letter {
    type Reply = ();
    type Refusal = ();

    fn decide(&self, _: &Send, _: &Context) -> Result<Vec<LetterEvent>, ()> {
        Ok(vec![LetterEvent::Sent {}])
    }

    fn reply(&self, _: &Send) {}
}

#[derive(Default)]
struct Letters {
    /// Whether it refuses letters, with an error that contains their text.
    refuses: AtomicBool,
}

impl Projection for Letters {
    fn aggregate_name(&self) -> &str {
        "letter"
    }

    fn entity(&self) -> &str {
        "letter"
    }

    fn apply(&self, before: Option<Map<String, Json>>, event: &RecordedEvent) -> Result<Item, Error> {
        let mut item = before.unwrap_or_default();
        let change = match event.event::<Letter>()? {
            LetterEvent::Written { text, .. } if self.refuses.load(Ordering::SeqCst) => {
                let why = format!("{text:?} cannot be shown");
                return Err(ErrorKind::UnknownEvent { event: event.id.clone(), why }.into());
            }
            LetterEvent::Written { text, words, .. } => {
                json!({ "letterId": event.aggregate, "text": text, "words": words, "sent": false })
            }
            LetterEvent::Noted { .. } => json!({}),
            LetterEvent::Sent {} => json!({ "sent": true }),
        };
        item.extend(change.as_object().cloned().unwrap_or_default());
        Ok(Some(item))
    }
}

fn design() -> Design {
    let checked = check(DESIGN, &[]);
    checked.design.unwrap_or_else(|| panic!("{:?}", checked.diagnostics))
}

struct App {
    store: Arc<EmbeddedStore>,
    nagaya: Nagaya,
    events: Events<Letter>,
    letters: Arc<Letters>,
    processor: Processor,
}

impl App {
    async fn open() -> Self {
        let store = Arc::new(EmbeddedStore::in_memory(Store::default()).expect("memory"));
        let app = App::on(Arc::clone(&store), store);
        app.nagaya.ensure_tables().await.expect("the tables are made");
        app
    }

    /// A process that uses the data through another store.
    fn on(engine: Arc<EmbeddedStore>, store: Arc<dyn nagaya_store::Store>) -> Self {
        let design = design();
        let events = Events::new(&design, "letter", EventsOptions::default()).expect("the aggregate is there");
        let nagaya = Nagaya::open(design, store);
        let letters = Arc::<Letters>::default();
        let processor = Processor::new(&nagaya, Arc::clone(&letters) as _, ProcessorOptions::default());
        App { store: engine, nagaya, events, letters, processor: processor.expect("a processor") }
    }

    /// Another process on the same data, whose store can fail.
    fn instrumented(&self) -> (Self, Arc<InstrumentedStore>) {
        let store = InstrumentedStore::new(Arc::clone(&self.store) as _);
        (App::on(Arc::clone(&self.store), Arc::clone(&store) as _), store)
    }

    fn inspector(&self) -> Inspector {
        Inspector::new(&self.nagaya, "letter").expect("an inspector")
    }

    /// The text of a letter of family `h-1`.
    async fn text(&self, id: &str) -> Result<String, Error> {
        Ok(self.events.load(&self.tenant("h-1", "ann"), id).await?.state.text)
    }

    fn tenant(&self, home: &str, user: &str) -> Tenant {
        self.nagaya.tenant(&Principal::new(home, user)).expect("a tenant")
    }

    async fn write(&self, home: &str, user: &str, id: &str, text: &'static str) -> String {
        let (tenant, request) = (self.tenant(home, user), request(user));
        self.events.execute(&tenant, id, &Write(text), &request).await.expect("it is written").reply
    }

    /// Everything that is stored, as text.
    async fn stored_text(&self) -> String {
        let mut text = String::new();
        for table in ["letters-events", "letters-list"] {
            text += &format!("{:?}", self.store.scan(Scan::table(table)).await.expect("a page").items);
        }
        text
    }

    async fn project_all(&self) {
        while self.processor.step().await.expect("a step").read > 0 {}
    }
}

fn request(user: &str) -> CommandRequest<'static> {
    let context = Context {
        now: 1_756_557_296_000,
        user: user.to_owned(),
        correlation: "c".to_owned(),
        causation: "k".to_owned(),
        ids: IdGenerator::random(),
    };
    CommandRequest { context, expected: None, idempotency: None }
}

const FIRST_ID: &str = "01HARX5BD7F8G9H0J1K2M3N4PQ";
const SECOND_ID: &str = "01HARX5BD7F8G9H0J1K2M3N4PR";

/// Proves the events part of C20.
#[tokio::test]
async fn destroying_a_key_erases_personal_fields_and_nothing_else() {
    let app = App::open().await;
    assert_eq!(app.write("h-1", "ann", FIRST_ID, "Dear Bob").await, "Dear Bob");
    let (ann, bob) = (app.tenant("h-1", "ann"), app.tenant("h-1", "bob"));
    app.events.execute(&bob, FIRST_ID, &Send, &request("bob")).await.expect("it is sent");
    app.write("h-1", "bob", SECOND_ID, "Dear Ann").await;
    app.project_all().await;
    assert_eq!(app.events.load(&ann, FIRST_ID).await.expect("a letter").state.text, "Dear Bob");
    assert_eq!(ann.get("letter", &[FIRST_ID]).await.expect("a letter").text("text"), Some("Dear Bob"));
    let stored = app.store.scan(Scan::table("letters-events")).await.expect("a page").items;
    assert!(!format!("{stored:?}").contains("Dear Bob"), "events have it encrypted only");

    // It is erased with its key, and a repair removes it from the projection.
    let inspector = Inspector::new(&app.nagaya, "letter").expect("an inspector");
    assert!(inspector.erase(&ann, "ann").await.expect("it is erased"));
    assert!(!inspector.erase(&ann, "ann").await.expect("there is none any more"));
    assert_eq!(app.processor.repair("h-1", &|_| {}).await.expect("it is repaired"), 1);
    let letter = ann.get("letter", &[FIRST_ID]).await.expect("a letter");
    assert_eq!((letter.text("text"), &letter.to_json()["words"]), (Some(ERASED), &json!(0)));
    assert_eq!(letter.to_json()["sent"], true, "what is not personal stays");
    assert!(!app.stored_text().await.contains("Dear Bob"));

    // Other users' fields stay, and the events are complete.
    assert_eq!(ann.get("letter", &[SECOND_ID]).await.expect("a letter").text("text"), Some("Dear Ann"));
    let (history, _) = app.events.history(&ann, FIRST_ID, None, None).await.expect("a history");
    assert_eq!(history.iter().map(|event| event.erased).collect::<Vec<_>>(), [true, false]);
    assert_eq!(
        history[0].raw.data,
        json!({ "text": ERASED, "words": 0, "draft": true }).as_object().cloned().expect("a map")
    );
    assert!(inspector.verify(&ann, FIRST_ID).await.expect("it is checked").1.is_ok(), "the chain holds");

    // A rebuild works, and so do new events: a new key decrypts nothing older.
    assert!(app.processor.rebuild(&|_| {}).await.expect("it is rebuilt").is_consistent());
    assert_eq!(app.write("h-1", "ann", FIRST_ID, "Dear all").await, "Dear all");
    let (history, _) = app.events.history(&ann, FIRST_ID, None, None).await.expect("a history");
    assert_eq!(history[0].raw.data["text"], ERASED);
    assert_eq!(history[2].raw.data["text"], "Dear all");
}

#[tokio::test]
async fn an_erased_field_has_the_type_that_it_had() {
    let app = App::open().await;
    let ann = app.tenant("h-1", "ann");
    app.events.execute(&ann, FIRST_ID, &Note, &request("ann")).await.expect("it is noted");
    let data = async || app.events.history(&ann, FIRST_ID, None, None).await.expect("a history").0.remove(0).raw.data;
    let noted = json!({ "urgent": true, "tags": ["love"], "places": { "from": "Osaka" } });
    assert_eq!(Json::from(data().await), noted);
    assert!(app.inspector().erase(&ann, "ann").await.expect("it is erased"));
    assert_eq!(Json::from(data().await), json!({ "urgent": false, "tags": [], "places": {} }));
    app.text(FIRST_ID).await.expect("its events can still be applied");
}

#[tokio::test]
async fn a_user_gets_a_key_with_the_first_personal_field() {
    let app = App::open().await;
    app.write("h-1", "ann", FIRST_ID, "Dear Bob").await;
    let bob = app.tenant("h-1", "bob");
    app.events.execute(&bob, FIRST_ID, &Send, &request("bob")).await.expect("it is sent");
    assert!(!app.inspector().erase(&bob, "bob").await.expect("there is none"));
    app.write("h-1", "bob", FIRST_ID, "Dear Ann").await;
    assert!(app.inspector().erase(&bob, "bob").await.expect("it is erased"));
}

/// A call about the key of a user.
fn is_about_key(call: &Call) -> bool {
    format!("{call:?}").contains("KEY#ann")
}

fn failure() -> Fault {
    Fault::fail_before(|| nagaya_store::Error::engine("the disk is gone for a moment")).matching(is_about_key).once()
}

#[tokio::test]
async fn a_key_that_cannot_be_read_is_not_taken_for_one_that_is_destroyed() {
    let app = App::open().await;
    app.write("h-1", "ann", FIRST_ID, "Dear Bob").await;
    let (process, store) = app.instrumented();
    let (ann, inspector) = (process.tenant("h-1", "ann"), process.inspector());
    for _ in 0..2 {
        store.inject(failure());
        assert_eq!(process.text(FIRST_ID).await.expect_err("it is unknown").code(), "engine");
        store.inject(failure());
        assert_eq!(inspector.erase(&ann, "ann").await.expect_err("it is not erased").code(), "engine");
        store.inject(failure());
        assert_eq!(inspector.rotate_key(&ann, "ann").await.expect_err("it is not rotated").code(), "engine");
        store.inject(failure().matching(|call| call.is_write() && is_about_key(call)));
        assert_eq!(inspector.rotate_key(&ann, "ann").await.expect_err("it is not rotated").code(), "engine");
        assert_eq!(process.text(FIRST_ID).await.expect("the key is there"), "Dear Bob");
    }
    // Nor is a key created again after a failure.
    assert!(inspector.erase(&ann, "ann").await.expect("it is erased"));
    store.inject(failure().matching(|call| call.is_write() && is_about_key(call)));
    let failed = process.events.execute(&ann, SECOND_ID, &Write("Dear Eve"), &request("ann")).await;
    failed.expect_err("its key cannot be stored");
    assert!(!inspector.erase(&ann, "ann").await.expect("there is none"));
}

/// Runs a hook before the first writes about a key: as many as a test may need, and not for ever.
fn before_writes_about_key<F>(hook: impl Fn() -> F + std::marker::Send + Sync + 'static) -> Fault
where
    F: Future<Output = ()> + std::marker::Send + 'static,
{
    let writes = AtomicU64::new(0);
    let is_one = move |call: &Call| call.is_write() && is_about_key(call) && writes.fetch_add(1, Ordering::SeqCst) < 10;
    Fault::run_before(move |_| hook()).matching(is_one)
}

#[tokio::test]
async fn a_key_that_another_process_rotates_meanwhile_is_rotated_again_and_none_is_lost() {
    let app = App::open().await;
    app.write("h-1", "ann", FIRST_ID, "Dear Bob").await;
    let rotate = || {
        let (inspector, ann) = (app.inspector(), app.tenant("h-1", "ann"));
        move || {
            let (inspector, ann) = (inspector.clone(), ann.clone());
            async move { assert!(inspector.rotate_key(&ann, "ann").await.expect("it is rotated")) }
        }
    };
    let (process, store) = app.instrumented();
    let (ann, inspector) = (process.tenant("h-1", "ann"), process.inspector());
    let race = store.inject(before_writes_about_key(rotate()).once());
    assert!(inspector.rotate_key(&ann, "ann").await.expect("it is rotated"));
    assert_eq!(race.hits(), 1);
    assert_eq!(app.text(FIRST_ID).await.expect("a letter"), "Dear Bob");

    // One that loses every race gives up.
    let races = store.inject(before_writes_about_key(rotate()));
    let error = inspector.rotate_key(&ann, "ann").await.expect_err("the others are always faster");
    assert_eq!((error.code(), races.hits()), ("contended", 3));
    assert_eq!(app.text(FIRST_ID).await.expect("a letter"), "Dear Bob");
}

#[tokio::test]
async fn a_key_that_another_process_creates_meanwhile_is_used() {
    let app = App::open().await;
    app.write("h-1", "ann", FIRST_ID, "Dear Bob").await;
    let key = Key::new("HOME#h-1", "KEY#ann");
    let item = app.store.get("letters-events", &key).await.expect("a table").expect("a key");
    let delete = || nagaya_store::Write::delete("letters-events", key.clone());
    app.store.write(delete().into()).await.expect("it is deleted");
    let create = || {
        let (engine, item) = (Arc::clone(&app.store), item.clone());
        move || {
            let (engine, created) = (Arc::clone(&engine), nagaya_store::Write::put("letters-events", item.clone()));
            async move { drop(engine.write(created.into()).await.expect("it is created")) }
        }
    };
    let (process, store) = app.instrumented();
    let race = store.inject(before_writes_about_key(create()).once());
    assert_eq!(process.write("h-1", "ann", SECOND_ID, "Dear Eve").await, "Dear Eve");
    assert_eq!(race.hits(), 1);
    for (id, text) in [(FIRST_ID, "Dear Bob"), (SECOND_ID, "Dear Eve")] {
        assert_eq!(app.text(id).await.expect("a letter"), text);
    }

    // One that loses every race gives up: the key is there when it is created, and gone when it is read.
    app.store.write(delete().into()).await.expect("it is deleted");
    let (engine, deleted) = (Arc::clone(&app.store), key.clone());
    let gone = Fault::run_before(move |_| {
        let (engine, deleted) = (Arc::clone(&engine), nagaya_store::Write::delete("letters-events", deleted.clone()));
        async move { drop(engine.write(deleted.into()).await.expect("it is deleted")) }
    });
    store.inject(gone.matching(|call| !call.is_write() && is_about_key(call)));
    let races = store.inject(before_writes_about_key(create()));
    let ann = process.tenant("h-1", "ann");
    let lost = process.events.execute(&ann, SECOND_ID, &Write("Dear Cat"), &request("ann")).await;
    let lost = format!("{:?}", lost.expect_err("the others are always faster"));
    assert!(lost.contains("Contention"), "{lost}");
    assert_eq!(races.hits(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_gets_personal_fields_decrypted() {
    let app = App::open().await;
    let feed = Feed::new(&design(), "letter").expect("an aggregate");
    let (running, nagaya) = (feed.clone(), app.nagaya.clone());
    tokio::spawn(async move { running.run(&nagaya, Duration::from_millis(1), std::future::pending()).await });
    let mut live = feed.listen(&app.tenant("h-1", "ann"), None).await.expect("listening");
    app.write("h-1", "ann", FIRST_ID, "Dear Bob").await;
    app.write("h-1", "ann", FIRST_ID, "Dear Eve").await;
    let first = live.next().await.expect("an event");
    let replayed = feed.listen(&app.tenant("h-1", "ann"), Some(&first.id)).await;
    let replayed = replayed.expect("listening").next().await.expect("an event");
    let second = live.next().await.expect("an event");
    let texts = [&first, &second, &replayed].map(|event| event.raw.data["text"].clone());
    assert_eq!(texts, ["Dear Bob", "Dear Eve", "Dear Bob"]);
}

#[tokio::test]
async fn a_new_key_seals_later_events_and_older_ones_stay_readable() {
    let app = App::open().await;
    let ann = app.tenant("h-1", "ann");
    let inspector = Inspector::new(&app.nagaya, "letter").expect("an inspector");
    assert!(!inspector.rotate_key(&ann, "ann").await.expect("there is none yet"));
    app.write("h-1", "ann", FIRST_ID, "Dear Bob").await;
    assert!(inspector.rotate_key(&ann, "ann").await.expect("it is rotated"));
    app.write("h-1", "ann", SECOND_ID, "Dear Eve").await;
    assert!(inspector.rotate_key(&ann, "ann").await.expect("it is rotated again"));
    for (id, text) in [(FIRST_ID, "Dear Bob"), (SECOND_ID, "Dear Eve")] {
        assert_eq!(app.events.load(&ann, id).await.expect("a letter").state.text, text);
    }
    // Each event names its key, and the two have different ones.
    let stored = app.store.scan(Scan::table("letters-events")).await.expect("a page").items;
    let stored = format!("{stored:?}");
    let keys: std::collections::BTreeSet<_> = stored
        .split("%by")
        .skip(1)
        .filter_map(|rest| rest.split(|each: char| !each.is_ascii_hexdigit()).find(|word| word.len() == 16))
        .collect();
    assert_eq!(keys.len(), 2, "{stored}");
    // All keys are destroyed together.
    assert!(inspector.erase(&ann, "ann").await.expect("it is erased"));
    for id in [FIRST_ID, SECOND_ID] {
        assert_eq!(app.events.load(&ann, id).await.expect("a letter").state.text, ERASED);
    }
}

#[tokio::test]
async fn an_encrypted_value_cannot_be_moved_and_a_key_belongs_to_one_tenant() {
    let app = App::open().await;
    app.write("h-1", "ann", FIRST_ID, "Dear Bob").await;
    app.write("h-2", "ann", SECOND_ID, "Dear Eve").await;
    let other = app.tenant("h-2", "ann");
    let inspector = Inspector::new(&app.nagaya, "letter").expect("an inspector");
    assert!(inspector.erase(&other, "ann").await.expect("it is erased"));
    let ann = app.tenant("h-1", "ann");
    assert_eq!(
        app.events.load(&ann, FIRST_ID).await.expect("a letter").state.text,
        "Dear Bob",
        "another tenant's key stays"
    );

    // An encrypted value in another event is not decrypted.
    app.write("h-1", "ann", FIRST_ID, "Dear Cat").await;
    let items = app.store.scan(Scan::table("letters-events")).await.expect("a page").items;
    let mut events: Vec<_> = items
        .into_iter()
        .filter(|item| format!("{:?}", item.get("PK")).contains(FIRST_ID) && item.get("eventType").is_some())
        .collect();
    events.sort_by_key(|event| format!("{:?}", event.get("SK")));
    let moved = events[0].get("data").cloned().expect("data");
    events[1].insert("data", moved);
    let forged = nagaya_store::Write::put("letters-events", events[1].clone());
    app.store.write(forged.into()).await.expect("written around the walls");
    let refused = app.events.load(&ann, FIRST_ID).await.expect_err("it does not open");
    assert_eq!(refused.code(), "damaged");
}

impl App {
    /// The stored item of a letter's last event, or of the key of a user of family `h-1`.
    async fn item(&self, partition: String, sort: &str) -> nagaya_store::Item {
        let mut items = self.store.scan(Scan::table("letters-events")).await.expect("a page").items;
        let text = |item: &nagaya_store::Item, name| {
            item.get(name).and_then(|value| value.as_str()).unwrap_or_default().to_owned()
        };
        items.retain(|item| text(item, "PK") == partition && text(item, "SK").starts_with(sort));
        items.sort_by_key(|item| text(item, "SK"));
        items.pop().expect("it is stored")
    }

    async fn put(&self, item: nagaya_store::Item) {
        self.store.write(nagaya_store::Write::put("letters-events", item).into()).await.expect("written directly");
    }

    /// Makes the encrypted text of the last event of a letter undecryptable.
    async fn damage_text(&self, id: &str) {
        let mut item = self.item(format!("LETTER#{id}"), "EVENT#").await;
        let Some(Value::Map(mut data)) = item.get("data").cloned() else { panic!("{item:?} has no data") };
        let Some(Value::Map(sealed)) = data.get_mut("text") else { panic!("{data:?} has no sealed text") };
        sealed.insert("%sealed".to_owned(), Value::from("AAAA"));
        item.insert("data", Value::Map(data));
        self.put(item).await;
    }

    /// The letters of all families as they are listed, as family, id and text.
    async fn listed(&self) -> Vec<(String, String)> {
        let mut listed = Vec::new();
        for (home, user) in [("h-1", "ann"), ("h-2", "bob")] {
            for id in [FIRST_ID, SECOND_ID] {
                if let Ok(letter) = self.tenant(home, user).get("letter", &[id]).await {
                    listed.push((home.to_owned(), letter.text("text").unwrap_or_default().to_owned()));
                }
            }
        }
        listed
    }

    async fn parked(&self) -> Vec<(String, u64, String)> {
        let letters = self.processor.dead_letters().await.expect("letters");
        letters.into_iter().map(|letter| (letter.tenant, letter.version, letter.error)).collect()
    }
}

fn pair(home: &str, text: &str) -> (String, String) {
    (home.to_owned(), text.to_owned())
}

/// Proves the going-on part of T11, in a step.
#[tokio::test]
async fn an_event_whose_key_is_damaged_is_parked_and_letters_of_others_are_listed() {
    let app = App::open().await;
    app.write("h-1", "ann", FIRST_ID, "Dear Bob").await;
    app.project_all().await;
    app.write("h-1", "ann", FIRST_ID, "Dear Cat").await;
    app.write("h-2", "bob", SECOND_ID, "Dear Ann").await;
    let key = app.item("HOME#h-1".to_owned(), "KEY#ann").await;
    app.put(key.clone().with("key", "no key")).await;
    app.project_all().await;
    assert_eq!(app.listed().await, [pair("h-1", "Dear Bob"), pair("h-2", "Dear Ann")]);
    let parked = app.parked().await;
    assert_eq!((parked.len(), parked[0].0.as_str(), parked[0].1), (1, "h-1", 2));
    assert!(parked[0].2.contains("`data.words` of ") && parked[0].2.ends_with("cannot be decrypted"), "{parked:?}");

    // With the key again it is applied.
    app.put(key).await;
    let letter = app.processor.dead_letters().await.expect("letters").remove(0);
    assert_eq!(app.processor.retry(&letter).await.expect("tried"), UnparkOutcome::UpToDate);
    assert_eq!(app.listed().await, [pair("h-1", "Dear Cat"), pair("h-2", "Dear Ann")]);
}

/// Proves the going-on part of T11, where all events are read: after a gap, in a rebuild, a check and a repair.
#[tokio::test]
async fn a_text_that_cannot_be_decrypted_is_parked_in_catch_up_and_rebuild() {
    let app = App::open().await;
    for text in ["Dear Bob", "Dear Cat"] {
        app.write("h-1", "ann", FIRST_ID, text).await;
    }
    app.write("h-2", "bob", SECOND_ID, "Dear Ann").await;
    app.damage_text(FIRST_ID).await;
    // The first step reads all events.
    app.project_all().await;
    let expected = [pair("h-1", "Dear Bob"), pair("h-2", "Dear Ann")];
    assert_eq!(app.listed().await, expected);
    assert_eq!(app.parked().await.iter().map(|(home, at, _)| (home.as_str(), *at)).collect::<Vec<_>>(), [("h-1", 2)]);

    let built = app.processor.rebuild(&|_| {}).await.expect("it is built");
    assert_eq!((built.is_consistent(), built.parked, built.mismatch_count), (false, 1, 0));
    let verified = app.processor.verify(None).await.expect("it is checked");
    assert_eq!((verified.is_consistent(), verified.parked), (false, 1));
    assert_eq!(app.processor.repair("h-1", &|_| {}).await.expect("nothing to do"), 0);
    // A command on the letter is refused, and one on another is not.
    assert_eq!(app.text(FIRST_ID).await.expect_err("it is unreadable").code(), "damaged");
    app.write("h-2", "bob", SECOND_ID, "Dear Eve").await;
    app.project_all().await;
    assert_eq!(app.listed().await, [pair("h-1", "Dear Bob"), pair("h-2", "Dear Eve")]);
}

/// An item that was built before its event was damaged is reported, and nothing fails.
#[tokio::test]
async fn an_event_that_is_damaged_after_it_was_applied_is_found_by_a_check() {
    let app = App::open().await;
    app.write("h-1", "ann", FIRST_ID, "Dear Bob").await;
    app.project_all().await;
    app.damage_text(FIRST_ID).await;
    let verified = app.processor.verify(None).await.expect("it is checked");
    assert_eq!((verified.is_consistent(), verified.mismatch_count), (false, 1));
    assert_eq!(app.processor.repair("h-1", &|_| {}).await.expect("nothing to do"), 0);
    assert_eq!(app.listed().await, [pair("h-1", "Dear Bob")]);
}

/// Proves the events part of C20: what is encrypted in an event is not in clear in the record of its failure.
#[tokio::test]
async fn a_dead_letter_contains_no_decrypted_value() {
    let app = App::open().await;
    app.letters.refuses.store(true, Ordering::SeqCst);
    app.write("h-1", "ann", FIRST_ID, "Dear Bob").await;
    app.project_all().await;
    let parked = app.parked().await;
    assert_eq!(parked.len(), 1);
    assert!(parked[0].2.contains("the projection failed with `unknown_event`"), "{parked:?}");
    assert!(!app.stored_text().await.contains("Dear Bob"));
}
