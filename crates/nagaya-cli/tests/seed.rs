//! `nagaya seed`: what it creates, and that it creates nothing twice.

mod common;

use std::{collections::BTreeSet, fs, path::Path};

use common::{Run, nagaya, nagaya_with, root};
use insta::assert_snapshot;
use nagaya::{
    List, Nagaya, Principal, Record, Settings, Tenant, design,
    embedded::{EmbeddedStore, Options},
    store::{Scan, Store as _},
};
use serde_json::Value;

const SYSTEMS: [(&str, &str); 5] = [
    ("aiagent", "aiagent/design/single.toml"),
    ("aiagent-multi", "aiagent/design/multi.toml"),
    ("todo", "todo/design/todo.toml"),
    ("kondate", "kondate/design/kondate.toml"),
    ("management", "management/design/management.toml"),
];

fn text(path: &Path) -> &str {
    path.to_str().expect("the path is text")
}

fn seed(args: &[&str]) -> Value {
    let run = run(args);
    assert_eq!(run.status, 0, "{args:?}: {run}");
    serde_json::from_str(&run.stdout).expect("--json prints JSON")
}

fn run(args: &[&str]) -> Run {
    nagaya(&[&["seed", "--json"], args].concat())
}

/// Opens a seeded directory as a tenant.
async fn tenant(data: &Path, system: &str, design: &str, name: &str) -> Tenant {
    let text = fs::read_to_string(root().join("systems").join(design)).expect("a design");
    let design = design::check(&text, &[]).design.expect("sound");
    let store = EmbeddedStore::open(data, Options::default()).expect("the directory opens");
    let settings = Settings { prefix: format!("{system}/"), ..Settings::default() };
    let nagaya = Nagaya::open_with(design, store, settings);
    nagaya.ensure_tables().await.expect("the tables are there");
    nagaya.tenant(&Principal::new(name, "reader")).expect("a tenant")
}

async fn all(tenant: &Tenant, access: &str) -> Vec<Record> {
    tenant.list(&List::by(access).limit(1_000)).await.expect("a page").records
}

/// All items of a directory without timestamps and without the internal items of the tenancy layer.
async fn items(data: &Path, system: &str, tables: &[&str]) -> BTreeSet<String> {
    let store = EmbeddedStore::open(data, Options::default()).expect("the directory opens");
    let mut found = BTreeSet::new();
    for table in tables {
        for mut item in store.scan(Scan::table(format!("{system}/{table}"))).await.expect("a page").items {
            item.remove("expiresAt");
            if !item.get("PK").and_then(|key| key.as_str()).is_some_and(|key| key.starts_with('%')) {
                found.insert(format!("{item:?}"));
            }
        }
    }
    found
}

#[test]
fn every_built_in_system_is_seeded_and_a_second_run_adds_nothing() {
    for (system, design) in SYSTEMS {
        let dir = tempfile::tempdir().expect("a directory");
        let args = [system, "--data", text(dir.path()), "--tenants", "2", "--items", "6"];
        let first = seed(&args);

        let text_of = fs::read_to_string(root().join("systems").join(design)).expect("a design");
        let declared = design::check(&text_of, &[]).design.expect("sound").entities;
        let list = |name: &str| first[name].as_array().expect("a list").clone();
        let filled: Vec<_> = list("entities").iter().map(|each| each["entity"].clone()).collect();
        let skipped: Vec<_> = list("skipped").iter().map(|each| each["entity"].clone()).collect();
        for entity in &declared {
            let name = Value::from(entity.name.as_str());
            assert!(
                filled.contains(&name) != skipped.contains(&name),
                "{system}: {name} is neither filled nor left out"
            );
        }
        for each in list("entities") {
            assert!(each["created"].as_u64() > Some(0), "{system}: {each}");
            let owners = if each["byOperator"] == true { 0 } else { 2 };
            assert_eq!(each["tenantCount"], owners, "{system}: {each}");
        }

        let again = seed(&args);
        assert_eq!((&again["created"], &again["existing"]), (&Value::from(0), &first["created"]), "{system}");
        let verified = nagaya(&["store", "verify", "--data", text(dir.path())]);
        assert_eq!(verified.status, 0, "{system}: {verified}");
    }
}

#[tokio::test]
async fn the_same_number_gives_the_same_data() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut found = Vec::new();
    for (place, number) in [("one", "7"), ("two", "7"), ("other", "8")] {
        let data = dir.path().join(place);
        seed(&["kondate", "--data", text(&data), "--items", "8", "--seed", number, "--until", "2026-01-31"]);
        found.push(items(&data, "kondate", &["MainTable"]).await);
    }
    assert!(found[0].len() > 300, "{}", found[0].len());
    let differ: Vec<_> = found[0].symmetric_difference(&found[1]).take(5).collect();
    assert!(differ.is_empty(), "{differ:?}");
    // Only settings can be equal by chance.
    assert!(found[0].intersection(&found[2]).count() < 5);
}

#[test]
fn an_earlier_run_is_found_on_another_day() {
    let dir = tempfile::tempdir().expect("a directory");
    let day = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(24 * 200);
    let day = &day.to_string()[..10];
    for system in ["aiagent", "todo", "kondate", "management"] {
        let args = [system, "--data", text(dir.path()), "--tenants", "1", "--items", "3"];
        let first = seed(&[&args[..], &["--until", day]].concat());
        let again = seed(&args);
        assert_eq!((&again["created"], &again["until"]), (&Value::from(0), &Value::from(day)), "{system}");
        assert_eq!(again["existing"], first["created"], "{system}");
    }
}

#[test]
fn more_items_are_added_to_existing_ones() {
    let dir = tempfile::tempdir().expect("a directory");
    let args = ["management", "--data", text(dir.path()), "--items"];
    let first = seed(&[&args[..], &["12"]].concat());
    let more = seed(&[&args[..], &["20"]].concat());
    assert_eq!(more["existing"], first["created"]);
    assert!(more["created"].as_u64() > Some(200));
}

#[tokio::test]
async fn seeded_items_are_consistent_with_each_other() {
    let dir = tempfile::tempdir().expect("a directory");
    seed(&["aiagent", "--data", text(dir.path())]);
    let tenant = tenant(dir.path(), "aiagent", "aiagent/design/single.toml", "demo").await;

    let users = all(&tenant, "users").await;
    assert_eq!(users.len(), 50);
    let names: BTreeSet<_> = users.iter().filter_map(|user| user.text("name")).collect();
    assert!(names.len() > 45, "{names:?}");
    assert!(names.iter().any(|name| !name.is_ascii()) && names.iter().any(|name| name.is_ascii()), "{names:?}");
    for user in &users {
        let (id, created) = (user.text("userId").expect("an id"), user.text("createdAt").expect("an instant"));
        let created: jiff::Timestamp = created.parse().expect("an instant");
        // The timestamp in the id is that of the field.
        assert_eq!(ulid_seconds(id), created.as_second(), "{id} {created}");
        let ago = jiff::Timestamp::now().as_second() - created.as_second();
        assert!((0..=91 * 86_400).contains(&ago), "{created}");
    }

    let of = |id: &str| users.iter().find(|user| user.text("userId") == Some(id));
    let accounts = all(&tenant, "email_accounts").await;
    for account in &accounts {
        let user = account.text("userId").and_then(of).expect("a user who is there");
        assert_eq!(account.text("email"), user.text("email"));
        assert!(account.text("createdAt") >= user.text("createdAt"));
    }
    let tasks = all(&tenant, "tasks").await;
    // `userId` of a task is not a declared reference, but still names a user.
    assert!(tasks.iter().all(|task| task.text("userId").and_then(of).is_some()));
    let states: BTreeSet<_> = tasks.iter().filter_map(|task| task.text("status")).collect();
    assert_eq!(states.len(), 4, "{states:?}");
    for task in &tasks {
        assert_eq!(task.text("completedAt").is_some(), task.text("status") == Some("done"), "{:?}", task.to_json());
    }
    let ids: BTreeSet<_> = tasks.iter().filter_map(|task| task.text("taskId")).collect();
    let mails = all(&tenant, "email_messages").await;
    assert!(mails.iter().filter_map(|mail| mail.text("taskId")).all(|id| ids.contains(id)));
    // A mail belongs to whom its mailbox belongs to.
    let owner = |id: &str| accounts.iter().find(|account| account.text("accountId") == Some(id))?.text("userId");
    assert!(mails.iter().all(|mail| mail.text("userId") == mail.text("accountId").and_then(owner)));
    let first = users[0].text("userId").expect("an id");
    let sessions = tenant.list(&List::by("sessions_of_user").with("userId", first)).await.expect("a page").records;
    let now = jiff::Timestamp::now().as_second();
    assert!(sessions.iter().all(|session| session.to_json()["expiresAt"].as_i64() > Some(now)));
    // Every change has an audit entry.
    assert!(all(&tenant, "audits").await.iter().all(|entry| entry.text("actorUserId") == Some("seed")));
}

#[tokio::test]
async fn seeded_todos_have_a_history_and_are_projected() {
    let dir = tempfile::tempdir().expect("a directory");
    let result = seed(&["todo", "--data", text(dir.path()), "--items", "60"]);
    assert_eq!((&result["created"], &result["entities"][0]["entity"]), (&Value::from(180), &Value::from("todo")));
    let tenant = tenant(dir.path(), "todo", "todo/design/todo.toml", "demo").await;

    let todos = all(&tenant, "todos").await;
    // Some todos are deleted.
    assert!((40..60).contains(&todos.len()), "{}", todos.len());
    let (active, completed) = (all(&tenant, "todos_active").await.len(), all(&tenant, "todos_completed").await.len());
    assert!(active > 5 && completed > 5 && active + completed == todos.len(), "{active} {completed}");
    let titles: BTreeSet<_> = todos.iter().filter_map(|todo| todo.text("title")).collect();
    assert!(titles.len() > 15, "{titles:?}");
    assert!(titles.iter().any(|title| !title.is_ascii()) && titles.iter().any(|title| title.is_ascii()), "{titles:?}");
    for todo in &todos {
        let id = todo.text("todoId").expect("an id");
        let events = tenant.list(&List::by("history").with("aggregateId", id)).await.expect("a page").records;
        let last = events.last().expect("it was made");
        assert_eq!(last.text("eventId"), todo.text("lastEventId"));
        assert_eq!(todo.to_json()["version"], events.len());
        assert_eq!(last.to_json()["metadata"]["timestamp"], todo.to_json()["updatedAt"]);
        // The id contains the creation time.
        let made: jiff::Timestamp =
            events[0].to_json()["metadata"]["timestamp"].as_str().expect("text").parse().expect("an instant");
        assert_eq!(ulid_seconds(id), made.as_second());
        let ago = jiff::Timestamp::now().as_second() - made.as_second();
        assert!((0..=91 * 86_400).contains(&ago), "{made}");
    }
    let events = all(&tenant, "family_events").await;
    let kinds: BTreeSet<_> = events.iter().filter_map(|event| event.text("eventType")).collect();
    let expected = "TodoCompleted TodoCreated TodoDeleted TodoNoteChanged TodoReopened TodoTitleChanged";
    assert_eq!(kinds.into_iter().collect::<Vec<_>>().join(" "), expected);
    assert_eq!(events.iter().filter(|event| event.text("eventType") == Some("TodoCreated")).count(), 60);
}

#[tokio::test]
async fn a_design_file_with_the_name_of_a_built_in_system_is_not_that_system() {
    let dir = tempfile::tempdir().expect("a directory");
    let result = seed(&[text(&root().join("systems/todo/design/todo.toml")), "--data", text(dir.path())]);
    // Its commands are unknown, and without commands nothing can be created.
    assert_eq!((&result["created"], result["skipped"].as_array().map(Vec::len)), (&Value::from(0), Some(5)));
}

/// The timestamp of a ULID, in seconds.
fn ulid_seconds(id: &str) -> i64 {
    let digit =
        |each: u8| b"0123456789ABCDEFGHJKMNPQRSTVWXYZ".iter().position(|digit| *digit == each).expect("a digit");
    id.bytes().take(10).fold(0, |sum, each| sum * 32 + digit(each) as i64) / 1_000
}

#[test]
fn a_custom_design_is_seeded() {
    let dir = tempfile::tempdir().expect("a directory");
    assert_eq!(nagaya(&["new", "desk", "--dir", text(dir.path())]).status, 0);
    let design = dir.path().join("desk.toml");
    let data = dir.path().join("data");
    let args = [text(&design), "--data", text(&data)];
    let first = seed(&args);
    assert_eq!((&first["system"], &first["created"]), (&Value::from("desk"), &Value::from(300)));

    // Titles of open tickets are unique: a taken one is generated again.
    let other = seed(&[&args[..], &["--seed", "2"]].concat());
    assert_eq!((&other["created"], &other["existing"]), (&Value::from(300), &Value::from(0)));
}

#[test]
fn every_example_of_the_reference_can_be_seeded() {
    let page = fs::read_to_string(root().join("docs/reference/design.md")).expect("the page");
    let mut tried = 0;
    for block in page.split("```toml\n").skip(1) {
        let design = block.split("```").next().expect("a block");
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("design.toml");
        fs::write(&file, design).expect("a file");
        let result = seed(&[text(&file), "--store", "memory", "--items", "5"]);
        for each in result["entities"].as_array().expect("a list") {
            assert!(
                each["created"].as_u64() >= Some(if each["byOperator"] == true { 5 } else { 3 }),
                "{design}\n{each}"
            );
        }
        tried += 1;
    }
    assert!(tried > 15, "only {tried} examples");
}

/// UUID tenants, a pattern, generated ids, system entities, and entities that cannot be generated.
const ODD: &str = r#"
name    = "odd"
version = "1.0"

[tenant]
field = "orgId"

[table.app]
key = ["PK", "SK"]
ttl = "expiresAt"

[entity.org]
table = "app"
key   = { PK = "ORG#{orgId}", SK = "ORG#" }

[entity.org.fields]
orgId = { type = "uuid" }
name  = { type = "string", min = 1, max = 40 }

[entity.node]
table  = "app"
key    = { PK = "ORG#{orgId}", SK = "NODE#{nodeId:05}" }
unique = [{ fields = ["code"], within = "all" }]
names  = "first-come"

[entity.node.fields]
orgId   = { type = "uuid", references = { entity = "org" } }
nodeId  = { type = "integer", min = 0, max = 99999 }
code    = { type = "string", pattern = "[A-Z]{3}-[0-9]{2}", max = 6 }
blob    = { type = "any", max = 200 }
parts   = { type = "list", min = 3, max = 5, items = { type = "number", min = 0, max = 1 } }
free    = { type = "list", max = 3 }
machine = { type = "string", format = "hostname", max = 60 }
server  = { type = "string", format = "ip", max = 45 }
short   = { type = "string", min = 2, max = 3 }
slugged = { type = "string", format = "slug", max = 20 }

[entity.loop]
table = "app"
key   = { PK = "ORG#{orgId}", SK = "LOOP#{loopId}" }

[entity.loop.fields]
orgId  = { type = "uuid" }
loopId = { type = "ulid", default = "new" }
next   = { type = "ulid", references = { entity = "loop" } }

[entity.thing]
table  = "app"
wall   = "attribute"
key    = { PK = "THING#{thingId}", SK = "THING#" }
tenant = "owner.orgId"

[entity.thing.fields]
thingId   = { type = "ulid", default = "new" }
owner     = { type = "map", fields = { orgId = { type = "uuid" }, name = { type = "string", max = 50 } } }

[entity.note]
table = "app"
wall  = "system"
key   = { PK = "NOTES#{orgId}", SK = "NOTE#{noteId}" }

[entity.note.fields]
orgId  = { type = "uuid" }
noteId = { type = "uuid", default = "new" }
text   = { type = "string", max = 100 }

[access.loops_of]
entity = "loop"
filter = "next = {next}"

[access.nodes]
entity = "node"
"#;

#[test]
fn unusual_designs_are_seeded_as_far_as_possible() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("odd.toml");
    fs::write(&file, ODD).expect("a file");
    let args = ["seed", text(&file), "--data", text(dir.path()), "--items", "20", "--until", "2026-01-31"];
    assert_snapshot!(nagaya(&args).to_string());
    assert_snapshot!(nagaya(&args).to_string());
}

#[test]
fn the_text_output_is_a_table_with_the_skipped_entities() {
    assert_snapshot!(nagaya(&["seed", "todo", "--store", "memory", "--items", "5"]).to_string());
}

#[test]
fn help_lists_commands_and_options() {
    assert_snapshot!(nagaya(&["seed", "--help"]).stdout);
    assert_snapshot!(nagaya(&["new", "--help"]).stdout);
}

#[test]
fn impossible_requests_are_refused_with_a_reason() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = text(dir.path());
    for args in [
        &["seed"][..],
        &["seed", "nothing"],
        &["seed", "nothing.toml"],
        &["seed", "todo", "--tenants", "0"],
        &["seed", "todo", "--items", "many"],
        &["seed", "todo", "--until", "tomorrow"],
        &["seed", "todo", "--seed", "-1"],
    ] {
        let refused = nagaya_with(args, "");
        assert_eq!((refused.status, refused.stdout.as_str()), (2, ""), "{refused}");
        assert!(!refused.stderr.is_empty(), "{args:?}");
    }

    let bad = root().join("crates/nagaya-design/tests/bad/NG0002-typo-in-a-role.toml");
    assert_eq!(nagaya(&["seed", text(&bad), "--data", data]).status, 1);
    assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 0, "nothing has been made");

    let holder = EmbeddedStore::open(dir.path(), Options::default()).expect("the directory opens");
    let held = nagaya(&["seed", "todo", "--data", data]);
    assert_eq!(held.status, 2);
    assert!(held.stderr.contains(&format!("is in use by process {}", std::process::id())), "{held}");
    drop(holder);
}
