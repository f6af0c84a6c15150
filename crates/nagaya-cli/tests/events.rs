//! `nagaya events`, as an operator of an event-sourced system uses it.

mod common;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use common::{Run, nagaya, nagaya_in, root};
use insta::assert_snapshot;
use nagaya::{
    Nagaya, Principal, Settings, design,
    embedded::{EmbeddedStore, Options},
    store::{Item, Scan, Store as _, Write},
};
use nagaya_events::{CommandRequest, Context, Events};
use nagaya_testing::{Process, ServeProcess, eventually};
use nagaya_todo::Todo;
use serde_json::{Value, json};

const EVENTS: &str = "todo/EventsTable";
const TODOS: &str = "todo/TodosProjection";

/// A data directory of the todo system.
struct DataDirectory {
    _directory: tempfile::TempDir,
    data: PathBuf,
}

impl DataDirectory {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let data = directory.path().join("data");
        DataDirectory { _directory: directory, data }
    }

    fn data(&self) -> &str {
        self.data.to_str().expect("the path is text")
    }

    /// Runs `nagaya events`.
    fn events(&self, line: &str) -> Run {
        let args: Vec<&str> = ["events"].into_iter().chain(line.split(' ')).chain(["--data", self.data()]).collect();
        nagaya_in(&args, "", &[("USER", "olga")])
    }

    /// Runs `nagaya events --json`: its exit code and result.
    fn json(&self, line: &str) -> (i32, Value) {
        let run = self.events(&format!("{line} --json"));
        let result = serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("--json prints JSON: {run}"));
        (run.status, result)
    }

    /// The operator log as text.
    fn operator_log(&self) -> String {
        let log = nagaya_in(&["audit", "list", "todo", "--reason", "ticket 4711", "--data", self.data()], "", &[]);
        assert_eq!(log.status, 0, "{log}");
        log.stdout
    }

    /// The text output with ids, timestamps and hashes replaced.
    fn masked_output(&self, line: &str) -> String {
        let result = masked(&format!("$ nagaya events {line}\n{}", self.events(line))).replace(self.data(), "<data>");
        // The list of valid event types is not under test here.
        let lines = result.lines().map(|line| line.split(", expected one of").next().unwrap_or_default());
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Serves the todo system while the closure runs.
    fn serve<T>(&self, work: impl FnOnce(&Serving) -> T) -> T {
        let serving = Serving::start(&["--data", self.data()], &[]);
        let done = work(&serving);
        serving.stop();
        done
    }

    /// Creates todos over HTTP, renames and completes the first one, and returns their ids.
    fn with_todos(titles: &[&str]) -> (Self, Vec<String>) {
        let directory = DataDirectory::new();
        let ids = directory.serve(|serving| {
            let ids: Vec<String> = titles.iter().map(|title| serving.make(title)).collect();
            let path = format!("/todos/{}", ids[0]);
            let (status, changed) = serving.ask("PATCH", &path, Some(&json!({ "title": "bread", "completed": true })));
            assert_eq!(status, 200, "{changed}");
            serving.wait_for_projection();
            ids
        });
        (directory, ids)
    }

    fn open(&self) -> EmbeddedStore {
        EmbeddedStore::open(&self.data, Options::default()).expect("the directory opens")
    }

    /// Changes items directly in the store.
    async fn tamper(&self, table: &str, change: impl Fn(&Item) -> Option<Write>) -> usize {
        let store = self.open();
        let mut changed = 0;
        for item in store.scan(Scan::table(table)).await.expect("a page").items {
            if let Some(write) = change(&item) {
                store.write(write.into()).await.expect("a write");
                changed += 1;
            }
        }
        changed
    }

    /// Appends events to a todo directly in the store, with a matching head.
    async fn append(&self, id: &str, types: &[&str]) {
        let store = self.open();
        let items = store.scan(Scan::table(EVENTS)).await.expect("a page").items;
        let of = |prefix: &str| {
            let mine = |item: &&Item| text(item, "PK") == format!("TODO#{id}") && text(item, "SK").starts_with(prefix);
            items.iter().filter(mine).max_by_key(|item| text(item, "SK").to_owned()).cloned().expect("there is one")
        };
        let (mut head, last) = (of("HEAD#"), of("EVENT#"));
        head.remove("hash");
        let version: i64 =
            last.get("aggregateVersion").and_then(|value| value.as_number()?.try_into().ok()).expect("one");
        for (event_type, nth) in types.iter().zip(1..) {
            let event_id = after(text(&last, "eventId"), u8::try_from(nth).expect("few"));
            let event = last
                .clone()
                .with("SK", format!("EVENT#{event_id}"))
                .with("GSI1SK", event_id.as_str())
                .with("eventId", event_id.as_str())
                .with("eventType", *event_type)
                .with("aggregateVersion", version + nth);
            head = head.with("lastEventId", event_id.as_str()).with("aggregateVersion", version + nth);
            store.write(Write::put(EVENTS, event).into()).await.expect("a put");
        }
        store.write(Write::put(EVENTS, head).into()).await.expect("a put");
    }

    /// Runs the event processor until it logs this text.
    fn run_until(&self, text_in_log: &str) {
        let mut process = start(&["events", "run", "todo", "--json", "--data", self.data()], &[]);
        let result: Value = serde_json::from_str(&process.read_line()).expect("a line of JSON");
        assert_eq!(result, json!({ "system": "todo", "consumers": ["todo", "note_cleanup"] }));
        process.wait_for_stderr(text_in_log);
        assert_eq!(process.stop(), Some(0));
    }
}

fn text<'i>(item: &'i Item, name: &str) -> &'i str {
    item.get(name).and_then(|value| value.as_str()).unwrap_or_default()
}

/// A greater ULID.
fn after(id: &str, by: u8) -> String {
    // A later timestamp makes the id greater.
    let mut letters = id.as_bytes().to_vec();
    letters[1] += 1;
    letters[25] = b'0' + by;
    String::from_utf8(letters).expect("letters")
}

/// A text with ids, timestamps, hashes and process ids replaced.
fn masked(text: &str) -> String {
    let mut known: Vec<String> = Vec::new();
    let mut name = |word: &str| {
        let at = known.iter().position(|one| one == word).unwrap_or_else(|| {
            known.push(word.to_owned());
            known.len() - 1
        });
        format!("{at:0>26}")
    };
    let mut out = String::new();
    let mut word = String::new();
    for letter in text.chars().chain(['\n']) {
        if letter.is_ascii_alphanumeric()
            || (letter == ':' || letter == '-' || letter == '.') && is_timestamp_prefix(&word)
        {
            word.push(letter);
            continue;
        }
        let hex = |letter: u8| letter.is_ascii_digit() || (b'a'..=b'f').contains(&letter);
        match word.len() {
            26 if word.bytes().all(|letter| letter.is_ascii_digit() || letter.is_ascii_uppercase()) => {
                out += &name(&word);
            }
            64 if word.bytes().all(hex) => out += &"h".repeat(64),
            _ if is_timestamp_prefix(&word) && word.ends_with('Z') => out += "2026-01-31T09:30:00.000Z",
            _ => out += &word,
        }
        word.clear();
        out.push(letter);
    }
    out.pop();
    out
}

/// Whether a text is the beginning of a timestamp.
fn is_timestamp_prefix(word: &str) -> bool {
    word.len() >= 4
        && word.starts_with("20")
        && word.bytes().all(|letter| letter.is_ascii_digit() || b"T:-.Z".contains(&letter))
}

fn start(args: &[&str], env: &[(&str, &str)]) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nagaya"));
    Process::start(command.args(args).current_dir(root()).envs(env.iter().copied()))
}

/// A running todo server.
struct Serving(ServeProcess);

impl Serving {
    fn start(args: &[&str], env: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nagaya"));
        command.current_dir(root()).envs(env.iter().copied());
        Serving(ServeProcess::start(command, &[&["todo", "--log", "error"], args].concat()))
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        self.0.send("todo", method, path, body)
    }

    fn stop(self) {
        assert_eq!(self.0.process.stop(), Some(0));
    }

    fn make(&self, title: &str) -> String {
        let (status, made) = self.ask("POST", "/todos", Some(&json!({ "title": title })));
        assert_eq!(status, 201, "{made}");
        made["data"]["todoId"].as_str().expect("an id").to_owned()
    }

    /// The titles in the projection.
    fn titles(&self) -> Vec<String> {
        let (_, listed) = self.ask("GET", "/todos?status=all", None);
        let all = listed["data"].as_array().expect("a list").iter();
        all.map(|todo| todo["title"].as_str().expect("a title").to_owned()).collect()
    }

    /// Waits until the projection has every event.
    fn wait_for_projection(&self) {
        eventually(|| {
            let titles = self.titles();
            let done = titles.iter().any(|title| title == "bread");
            if done { Ok(()) } else { Err(format!("{titles:?}")) }
        });
    }
}

#[test]
fn help_lists_commands_and_options() {
    assert_snapshot!(nagaya(&["events", "--help"]).stdout);
    for verb in ["run", "tail", "show", "verify", "dlq", "rebuild"] {
        assert_snapshot!(format!("help-{verb}"), nagaya(&["events", verb, "--help"]).stdout);
    }
    for verb in ["list", "show", "retry", "drop", "skipped", "unskip"] {
        assert_snapshot!(format!("help-dlq-{verb}"), nagaya(&["events", "dlq", verb, "-h"]).stdout);
    }
}

#[test]
fn the_history_of_a_todo_is_shown_checked_and_tailed() {
    let (directory, ids) = DataDirectory::with_todos(&["milk", "tea"]);
    let milk = &ids[0];
    assert_snapshot!("show", directory.masked_output(&format!("show todo --tenant demo {milk}")));
    assert_snapshot!("verify", directory.masked_output("verify todo"));
    assert_snapshot!("tail", directory.masked_output("tail todo --tenant demo --from-start"));

    let (status, shown) = directory.json(&format!("show todo --tenant demo {milk}"));
    assert_eq!(status, 0);
    let types: Vec<_> = shown["events"].as_array().expect("a list").iter().map(|event| &event["eventType"]).collect();
    assert_eq!(types, ["TodoCreated", "TodoTitleChanged", "TodoCompleted"]);
    assert_eq!(shown["causes"][0]["causedBy"], json!({ "cause": "request-1", "correlationId": "request-1" }));

    // All commands give the same hash for the end of the chain, and it can be compared with a stored one.
    let (_, verified) = directory.json(&format!("verify todo --tenant demo {milk}"));
    assert_eq!((&verified["chainEnd"], &verified["events"]), (&shown["chainEnd"], &json!(3)));
    let end = shown["chainEnd"].as_str().expect("a hash");
    assert_eq!(directory.events(&format!("verify todo --tenant demo {milk} --expect {end}")).status, 0);
    let (status, differs) = directory.json(&format!("verify todo --tenant demo {milk} --expect 0123"));
    assert_eq!((status, &differs["ok"], &differs["chainEnd"]), (1, &json!(false), &json!(end)));
    assert_snapshot!("expect", directory.masked_output(&format!("verify todo --tenant demo {milk} --expect 0123")));

    // Todos of another tenant are not found.
    assert_snapshot!("show-another", directory.masked_output(&format!("show todo --tenant other {milk}")));
    assert_eq!(directory.events(&format!("verify todo --tenant other {milk}")).status, 1);
    assert_eq!(directory.events("tail todo --tenant other --from-start").stdout, "");

    // The design file works like the system's name; without a tenant, each event is printed with its tenant.
    assert_eq!(directory.events("verify systems/todo/design/todo.toml").status, 0);
    let all = directory.events("tail todo --all-tenants --reason ticket-4711 --from-start --json");
    let lines: Vec<Value> = all.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 4, "{all}");
    assert!(lines.iter().all(|event| event["tenant"] == "demo"));
}

/// Proves the commands' part of tamper evidence.
#[tokio::test]
async fn a_changed_event_breaks_the_hash_chain() {
    let (directory, ids) = DataDirectory::with_todos(&["milk", "tea", "salt"]);
    let renamed = |item: &Item| {
        let mine = text(item, "PK") == format!("TODO#{}", ids[0]) && text(item, "eventType") == "TodoCreated";
        let data = nagaya::store::Value::Map([("title".to_owned(), "gold".into())].into());
        mine.then(|| Write::put(EVENTS, item.clone().with("data", data)))
    };
    assert_eq!(directory.tamper(EVENTS, renamed).await, 1);
    let of_tea = |item: &Item| {
        let gone = text(item, "PK") == format!("TODO#{}", ids[1]) && text(item, "SK").starts_with("EVENT#");
        gone.then(|| Write::delete(EVENTS, nagaya::store::Key::new(text(item, "PK"), text(item, "SK"))))
    };
    assert_eq!(directory.tamper(EVENTS, of_tea).await, 1);

    assert_snapshot!("tampered", directory.masked_output("verify todo"));
    let (status, result) = directory.json("verify todo");
    let broken = result["aggregates"][0]["broken"].as_array().expect("a list").clone();
    let mut found: Vec<_> = broken.iter().map(|each| each["id"].as_str().expect("an id")).collect();
    let mut expected = [ids[0].as_str(), ids[1].as_str()];
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!((status, found.as_slice()), (1, &expected[..]));
    assert_eq!(directory.events(&format!("verify todo --tenant demo {}", ids[0])).status, 1);
    assert_eq!(directory.events(&format!("show todo --tenant demo {}", ids[0])).status, 1);
    assert_eq!(directory.events(&format!("verify todo --tenant demo {}", ids[2])).status, 0);
}

#[tokio::test]
async fn an_event_that_cannot_be_applied_is_parked_retried_and_dropped() {
    let (directory, ids) = DataDirectory::with_todos(&["milk", "tea"]);
    assert_snapshot!("no-dead-letters", directory.masked_output("dlq list todo"));
    let milk = &ids[0];
    directory.append(milk, &["TodoExploded", "TodoReopened"]).await;
    directory.run_until("its aggregate is parked");

    assert_snapshot!("dlq-list", directory.masked_output("dlq list todo"));
    assert_snapshot!("dlq-show", directory.masked_output(&format!("dlq show todo {milk}")));
    let (status, listed) = directory.json("dlq list todo --projection todo");
    assert_eq!((status, listed["deadLetters"].as_array().map(Vec::len)), (1, Some(1)));
    assert_eq!(listed["deadLetters"][0]["version"], 4);
    // Other todos are still projected.
    directory.serve(|serving| {
        serving.make("sugar");
        eventually(|| match serving.titles() {
            titles if titles.contains(&"sugar".to_owned()) => Ok(()),
            titles => Err(format!("{titles:?}")),
        });
    });

    assert_snapshot!("dlq-retry", directory.masked_output("dlq retry todo --all"));
    assert_eq!(directory.json(&format!("dlq retry todo {milk}")).0, 1);
    assert_eq!(directory.json("dlq list todo").0, 1);
    let reasoned = format!("dlq drop todo {milk} --reason ticket-4711");
    assert_snapshot!("dlq-drop-preview", directory.masked_output(&reasoned));
    assert_eq!(directory.json("dlq list todo").0, 1, "a preview changes nothing");
    for (line, why) in [
        (format!("dlq drop todo {milk} --yes"), "--reason"),
        (format!("dlq drop todo {milk} --yes --reason because"), "10 characters"),
    ] {
        let run = directory.events(&line);
        assert!(run.status == 2 && run.stderr.contains(why), "{run}");
    }
    assert_snapshot!("dlq-skipped-none", directory.masked_output("dlq skipped todo"));
    assert_snapshot!("dlq-drop", directory.masked_output(&format!("{reasoned} --yes")));
    assert_eq!(directory.json("dlq list todo").0, 0);
    assert_eq!(directory.events(&format!("{reasoned} --yes")).status, 1, "it is not there any more");
    assert_snapshot!("dlq-skipped", directory.masked_output("dlq skipped todo"));
    let (status, listed) = directory.json("dlq skipped todo");
    let entry = &listed["skippedEvents"][0];
    assert_eq!((status, &entry["version"], &entry["reason"]), (0, &json!(4), &json!("ticket-4711")));
    assert_eq!(entry["by"], "olga", "{listed}");
    assert_eq!((&entry["id"], &entry["tenant"]), (&json!(milk), &json!("demo")), "{listed}");
    let log = directory.operator_log();
    assert!(log.contains("ticket-4711"), "{log}");
    let (_, read) = directory.serve(|serving| serving.ask("GET", &format!("/todos/{milk}"), None));
    assert_eq!((&read["data"]["version"], &read["data"]["completed"]), (&json!(5), &json!(false)), "{read}");

    // The event is still in the log: a rebuild meets it again, leaves it out and switches.
    assert_snapshot!("dropped-verify", directory.masked_output("rebuild todo todo --verify-only"));
    assert_snapshot!("dropped-rebuild", directory.masked_output("rebuild todo todo"));
    let (_, read) = directory.serve(|serving| serving.ask("GET", &format!("/todos/{milk}"), None));
    assert_eq!((&read["data"]["version"], &read["data"]["completed"]), (&json!(5), &json!(false)), "{read}");

    // Taken back, it blocks the todo and a rebuild again.
    let unskip = format!("dlq unskip todo {milk} --reason ticket-4712");
    assert_snapshot!("dlq-unskip-preview", directory.masked_output(&unskip));
    assert_eq!(directory.json("dlq list todo").0, 0, "a preview changes nothing");
    assert_eq!(directory.events(&format!("{unskip} --version 3 --yes")).status, 1, "it was not dropped");
    assert_snapshot!("dlq-unskip", directory.masked_output(&format!("{unskip} --version 4 --yes")));
    assert_eq!(directory.json("dlq list todo").0, 1);
    assert_eq!(directory.json("dlq skipped todo").1["skippedEvents"], json!([]));
    assert_snapshot!("parked-rebuild", directory.masked_output("rebuild todo todo"));
    assert_snapshot!("abandon-preview", directory.masked_output("rebuild todo todo --abandon"));
    assert_snapshot!("abandon", directory.masked_output("rebuild todo todo --abandon --yes"));
    assert_eq!(directory.events("rebuild todo todo --abandon").stdout, "no generation of `todo` is being built\n");
}

#[tokio::test]
async fn a_damaged_projection_is_found_repaired_rebuilt_and_rolled_back() {
    let (directory, _) = DataDirectory::with_todos(&["milk", "tea"]);
    assert_snapshot!("sound", directory.masked_output("rebuild todo todo --verify-only"));
    let damage =
        |item: &Item| (text(item, "title") == "tea").then(|| Write::put(TODOS, item.clone().with("title", "coffee")));
    assert_eq!(directory.tamper(TODOS, damage).await, 1);

    assert_snapshot!("damaged", directory.masked_output("rebuild todo todo --verify-only"));
    assert_snapshot!("repair-preview", directory.masked_output("rebuild todo todo --tenant demo"));
    assert_eq!(directory.json("rebuild todo todo --verify-only").0, 1, "a preview changes nothing");
    assert_eq!(directory.json("rebuild todo todo --verify-only --tenant other").0, 0);
    assert_snapshot!("repair", directory.masked_output("rebuild todo todo --tenant demo --yes"));
    assert_eq!(directory.json("rebuild todo todo --verify-only").0, 0);

    assert_eq!(directory.tamper(TODOS, damage).await, 1);
    assert_eq!(directory.serve(Serving::titles).len(), 2);
    assert_snapshot!("rebuild", directory.masked_output("rebuild todo todo"));
    let mut titles = directory.serve(|serving| {
        eventually(|| match serving.titles() {
            titles if titles.contains(&"tea".to_owned()) => Ok(()),
            titles => Err(format!("{titles:?}")),
        });
        // Both generations are updated.
        serving.make("salt");
        eventually(|| if serving.titles().len() == 3 { Ok(()) } else { Err("the list has no salt".to_owned()) });
        serving.titles()
    });
    titles.sort();
    assert_eq!(titles, ["bread", "salt", "tea"]);

    assert_snapshot!("rollback-preview", directory.masked_output("rebuild todo todo --rollback"));
    assert_snapshot!("rollback", directory.masked_output("rebuild todo todo --rollback --yes"));
    directory.serve(|serving| {
        eventually(|| match serving.titles() {
            titles if titles.len() == 3 && titles.contains(&"coffee".to_owned()) => Ok(()),
            titles => Err(format!("{titles:?}")),
        });
    });
    assert_eq!(directory.json("rebuild todo todo --rollback --yes").1["current"], 2);
    assert_eq!(directory.json("rebuild todo todo --verify-only").0, 0);
}

/// Verifying compares both ways and changes nothing, so that it finds the same again.
#[tokio::test]
async fn a_verification_names_what_is_wrong_and_changes_nothing() {
    let (directory, ids) = DataDirectory::with_todos(&["milk", "tea", "salt", "oil"]);
    // The events of milk are gone, the item of tea is gone, the item of salt is another, and an event of oil is not applied.
    let of = |item: &Item, id: &str, sort: &str| {
        format!("{} {}", text(item, "PK"), text(item, "SK")).contains(id) && text(item, "SK").starts_with(sort)
    };
    let remove = |table: &'static str, item: &Item| {
        Write::delete(table, nagaya::store::Key::new(text(item, "PK"), text(item, "SK")))
    };
    assert_eq!(directory.tamper(EVENTS, |item| of(item, &ids[0], "EVENT#").then(|| remove(EVENTS, item))).await, 3);
    assert_eq!(directory.tamper(TODOS, |item| of(item, &ids[1], "TODO#").then(|| remove(TODOS, item))).await, 1);
    let other = |item: &Item| of(item, &ids[2], "TODO#").then(|| Write::put(TODOS, item.clone().with("title", "sand")));
    assert_eq!(directory.tamper(TODOS, other).await, 1);
    directory.append(&ids[3], &["TodoCompleted"]).await;
    assert_snapshot!("verified", directory.masked_output("rebuild todo todo --verify-only"));
    for _ in 0..2 {
        let (status, result) = directory.json("rebuild todo todo --verify-only");
        let named: Vec<_> = result["mismatches"].as_array().expect("a list").iter().map(|each| &each["id"]).collect();
        assert_eq!((status, &result["aggregatesBehind"], named.len()), (1, &json!(1), 4), "{result}");
        assert!(ids.iter().all(|id| named.contains(&&json!(id))), "{result}");
    }
    // The processor of a server applies the event; the other differences stay.
    directory.serve(|serving| {
        serving.make("sugar");
        let (status, result) = directory.json("rebuild todo todo --verify-only");
        assert_eq!(
            (status, &result["aggregatesBehind"], &result["mismatchCount"]),
            (1, &json!(0), &json!(3)),
            "{result}"
        );
    });
}

/// Fills a directory with todos without a server.
async fn fill(data: &Path, count: usize) {
    let design = fs::read_to_string(root().join("systems/todo/design/todo.toml")).expect("a design");
    let design = design::check(&design, &[]).design.expect("sound");
    let events: Arc<Events<Todo>> = Arc::new(Events::new(&design, "todo", Default::default()).expect("an aggregate"));
    let store = EmbeddedStore::open(data, Options::default()).expect("the directory opens");
    let settings = Settings { prefix: "todo/".to_owned(), ..Settings::default() };
    let nagaya = Nagaya::open_with(design, store, settings);
    nagaya.ensure_tables().await.expect("the tables are there");
    let tenant = nagaya.tenant(&Principal::new("demo", "filler")).expect("a tenant");
    let one = |n: usize| {
        let (events, tenant, ids, now) = (Arc::clone(&events), tenant.clone(), nagaya.ids(), nagaya.clock().millis());
        async move {
            let (user, cause) = ("filler".to_owned(), format!("request-{n}"));
            let context = Context { now, user, correlation: cause.clone(), causation: cause, ids };
            let request = CommandRequest { expected: None, idempotency: None, context };
            let id = request.context.new_id();
            let create = nagaya_todo::Command::Create { title: format!("todo {n}"), note: None };
            events.execute(&tenant, &id, &create, &request).await.expect("it is made");
        }
    };
    futures_util::future::join_all((0..count).map(one)).await;
    write_audit_key(data);
}

/// What a server creates when it starts, and commands do not.
fn write_audit_key(data: &Path) {
    fs::write(data.join("audit.key"), "0f".repeat(32)).expect("a file");
}

#[tokio::test]
async fn a_killed_rebuild_resumes_when_it_is_restarted() {
    let directory = DataDirectory::new();
    fill(&directory.data, 2_000).await;
    let mut killed = 0;
    for patience in [5, 100, 200, 400] {
        let args = ["events", "rebuild", "todo", "todo", "--data", directory.data()];
        let mut process = start(&args, &[]);
        process.wait_for_stderr("is read meanwhile");
        std::thread::sleep(Duration::from_millis(patience));
        // SIGKILL stops it at an arbitrary point.
        process.kill();
        killed += usize::from(process.wait().is_none());
    }
    assert!(killed > 0, "it was always faster");
    let (status, result) = directory.json("rebuild todo todo");
    assert_eq!((status, &result["ok"], &result["found"]["items"]), (0, &json!(true), &json!(2_000)), "{result}");
    assert_eq!(result["expected"], result["found"]);
    assert_eq!((&result["generations"]["building"], &result["events"]), (&Value::Null, &json!(2_000)));
    assert_eq!(directory.json("verify todo").0, 0);
    assert_eq!(nagaya(&["store", "verify", "--data", directory.data()]).status, 0);
}

#[test]
fn impossible_requests_are_refused_with_a_reason() {
    let directory = DataDirectory::new();
    let check = |line: &str, status: i32, expected: &str| {
        let run = directory.events(line);
        assert_eq!((run.status, run.stdout.as_str()), (status, ""), "{line}: {run}");
        assert!(run.stderr.contains(expected), "{line}: {run}");
    };
    check("verify todo", 2, "is not the directory of a store");
    assert!(!directory.data.exists(), "looking at events does not make a store");
    check("verify tudo", 2, "there is no system `tudo`");
    check("verify kondate", 2, "has no aggregate");
    check("rebuild systems/todo/design/todo.toml todo", 2, "name a built-in system (todo)");
    check("verify todo --store memory", 2, "memory keeps nothing");
    check("tail todo", 2, "--tenant");
    check("tail todo --all-tenants", 2, "--reason");
    check("tail todo --tenant demo", 2, "GET /events");
    check("show todo 01KG9S5Q60T4N2Y8ZC3M7VXR1E", 2, "--tenant");
    check("verify todo 01KG9S5Q60T4N2Y8ZC3M7VXR1E", 2, "--tenant");
    check("dlq retry todo", 2, "<ID>");
    check("rebuild todo", 2, "<PROJECTION>");
    check("rebuild todo todo --rollback --abandon", 2, "cannot be used with");

    // A directory without the system's tables, and one that is in use by a server.
    drop(directory.open());
    write_audit_key(&directory.data);
    check("verify todo", 2, "there are no tables of todo");
    directory.serve(|serving| {
        // Through the server.
        let id = serving.0.process.id();
        check("run todo", 2, &format!("in use by process {id}"));
        check("run todo", 2, "`nagaya serve` processes its changes itself");
    });
    check("rebuild todo nothing", 2, "has no projection `nothing`, but todo");
    check("dlq list systems/todo/design/todo.toml", 2, "derives nothing from changes");
    check("dlq list todo --projection nothing", 2, "has no projection `nothing`, but todo");
    check("dlq show todo 01KG9S5Q60T4N2Y8ZC3M7VXR1E", 1, "is not a dead letter");
    check("rebuild todo todo --rollback --yes", 2, "has no previous generation");
    let reasonless = nagaya_in(
        &[
            "events",
            "tail",
            "todo",
            "--all-tenants",
            "--reason",
            "too short",
            "--from-start",
            "--data",
            directory.data(),
        ],
        "",
        &[],
    );
    assert_eq!(reasonless.status, 2, "{reasonless}");
}

/// Runs every command of the runbook on the situation that its section describes.
#[cfg(unix)]
#[tokio::test]
async fn every_command_of_the_runbook_works() {
    let page = fs::read_to_string(root().join("docs/how-to/run-event-sourcing.md")).expect("the page");
    let mut tried = 0;
    for section in page.split("\n## ").skip(1) {
        let (title, _) = section.split_once('\n').expect("a title");
        let (directory, ids) = DataDirectory::with_todos(&["milk", "tea"]);
        match title {
            "Dead letters" => {
                directory.append(&ids[0], &["TodoExploded", "TodoReopened"]).await;
                directory.run_until("its aggregate is parked");
            }
            "Rebuild" => {
                let damage = |item: &Item| {
                    (text(item, "title") == "tea").then(|| Write::put(TODOS, item.clone().with("title", "x")))
                };
                assert_eq!(directory.tamper(TODOS, damage).await, 1);
            }
            _ => {}
        }
        let mut ended = Vec::new();
        for block in section.split("```sh\n").skip(1) {
            for line in block.split("```").next().expect("a block").lines().filter(|line| !line.trim().is_empty()) {
                ended.push(shell(&directory, &ids[0], line));
                tried += 1;
            }
        }
        // The first command of a section reports the problem, the last one reports none.
        let expected: &[i32] = match title {
            // The event was inserted without a chain hash, which `show` reports.
            "Dead letters" => &[1, 0, 1, 1, 0, 0, 0, 1],
            "Rebuild" => &[1, 0, 0, 0, 0, 0],
            _ => &[0; 8],
        };
        assert_eq!(ended, expected[..ended.len()], "{title}");
    }
    assert!(tried >= 16, "{tried}");
}

/// Runs a line in a shell whose directory contains the data; its exit code.
#[cfg(unix)]
fn shell(directory: &DataDirectory, id: &str, line: &str) -> i32 {
    let bin = Path::new(env!("CARGO_BIN_EXE_nagaya")).parent().expect("the command is in a directory");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let run = Command::new("sh")
        .args(["-c", line])
        .env("PATH", path)
        .env("ID", id)
        .env("NAGAYA_DATA", directory.data())
        .stdin(Stdio::null())
        .output()
        .expect("a shell");
    let stderr = String::from_utf8_lossy(&run.stderr);
    let status = run.status.code().expect("it ends");
    assert!(status < 2 && !run.stdout.is_empty(), "{line}: {status} {stderr}");
    status
}

/// Commands ask the server that has the directory open.
#[test]
fn commands_work_beside_a_server_on_its_directory() {
    let (directory, ids) = DataDirectory::with_todos(&["milk", "bread"]);
    directory.serve(|serving| {
        for line in ["verify todo", "rebuild todo todo --verify-only"] {
            let run = directory.events(line);
            assert_eq!(run.status, 0, "{line}: {run}");
        }
        let shown = directory.events(&format!("show todo {} --tenant demo", ids[0]));
        assert!(shown.status == 0 && shown.stdout.contains("TodoCreated"), "{shown}");
        let rebuilt = directory.events("rebuild todo todo --yes");
        assert_eq!(rebuilt.status, 0, "{rebuilt}");
        let (status, todos) = serving.0.send("todo", "GET", "/todos/all", None);
        assert_eq!((status, todos["data"].as_array().map(Vec::len)), (200, Some(2)), "{todos}");
        let log = nagaya_in(&["audit", "list", "todo", "--reason", "ticket 4711", "--data", directory.data()], "", &[]);
        assert!(log.status == 0 && log.stdout.contains("nagaya events show"), "{log}");
    });
}

/// The processor runs beside a server, and commands run beside both.
#[cfg(feature = "dynamodb")]
#[test]
fn on_dynamodb_processor_and_server_run_side_by_side() {
    let endpoint =
        std::env::var("NAGAYA_TEST_DYNAMODB_LOCAL").expect("run `cargo xtask test`, or `cargo xtask servers`");
    let directory = DataDirectory::new();
    // Each region is a separate database in DynamoDB Local.
    let nanos = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos());
    let region = format!("events-{nanos:x}");
    let env = [
        ("DATA_STORE_DRIVER", "dynamodb"),
        ("DYNAMODB_ENDPOINT", endpoint.as_str()),
        ("AWS_REGION", region.as_str()),
        ("AWS_ACCESS_KEY_ID", "local"),
        ("AWS_SECRET_ACCESS_KEY", "local"),
        ("NAGAYA_DATA", directory.data()),
    ];
    let events = |line: &str| {
        let args: Vec<&str> = ["events"].into_iter().chain(line.split(' ')).collect();
        nagaya_in(&args, "", &env)
    };
    let serving = Serving::start(&["--create-tables"], &env);
    let mut processors: Vec<_> = (0..2).map(|_| start(&["events", "run", "todo", "--json"], &env)).collect();
    for process in &mut processors {
        assert!(process.read_line().contains("\"todo\""));
    }
    let args = ["events", "tail", "todo", "--all-tenants", "--reason", "a test of it", "--from-start", "--json"];
    let mut tail = start(&args, &env);

    let ids: Vec<_> = ["milk", "tea", "salt"].map(|title| serving.make(title)).into();
    let (status, _) = serving.ask("PATCH", &format!("/todos/{}", ids[0]), Some(&json!({ "title": "bread" })));
    assert_eq!(status, 200);
    serving.wait_for_projection();
    let result: Vec<Value> = (0..4).map(|_| serde_json::from_str(&tail.read_line()).expect("JSON")).collect();
    assert!(result.iter().all(|event| event["tenant"] == "demo"), "{result:?}");
    tail.stop();

    assert_eq!(events(&format!("show todo --tenant demo {}", ids[0])).status, 0);
    let verified = events("verify todo");
    assert_eq!(verified.stdout, "4 events of 3 todos: nothing is missing or changed\n", "{verified}");
    assert_eq!(events("dlq list todo").status, 0);
    // A rebuild while the server runs and clients write.
    let rebuilt = events("rebuild todo todo");
    assert_eq!(rebuilt.status, 0, "{rebuilt}");
    serving.make("sugar");
    eventually(|| if serving.titles().len() == 4 { Ok(()) } else { Err(format!("{:?}", serving.titles())) });
    // DynamoDB Local reports an event without data in its own way.
    assert_eq!(serving.ask("DELETE", &format!("/todos/{}", ids[1]), None).0, 204);
    eventually(|| if serving.titles().len() == 3 { Ok(()) } else { Err(format!("{:?}", serving.titles())) });
    let checked = events("rebuild todo todo --verify-only");
    assert!(checked.status == 0 && checked.stdout.starts_with("generation 2 of `todo`: 6 events"), "{checked}");
    for process in processors {
        assert_eq!(process.stop(), Some(0));
    }
    serving.stop();
}
