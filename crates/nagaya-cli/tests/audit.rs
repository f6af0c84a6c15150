//! `nagaya audit`, as an operator uses it to read and verify the operator log.

mod common;

use std::{fs, path::PathBuf, sync::Arc};

use common::{Run, nagaya, nagaya_in, root};
use insta::assert_snapshot;
use nagaya::{
    Nagaya, Principal, Settings,
    embedded::{EmbeddedStore, Options},
    store::{Item, Key, Scan, Store as _, Write},
};
use nagaya_testing::ServeProcess;
use serde_json::{Value, json};

const TABLE: &str = "todo/EventsTable";

/// A data directory of the todo system, with entries of its operators.
struct DataDirectory {
    _directory: tempfile::TempDir,
    data: PathBuf,
}

impl DataDirectory {
    fn empty() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let data = directory.path().join("data");
        DataDirectory { _directory: directory, data }
    }

    fn new() -> Self {
        let created = DataDirectory::empty();
        assert_eq!(created.run("seed todo --tenants 1 --items 1").status, 0);
        for _ in 0..3 {
            assert_eq!(created.run("events verify todo").status, 0);
        }
        created
    }

    fn data(&self) -> &str {
        self.data.to_str().expect("the path is text")
    }

    /// Runs a command with a reason where it says `REASON`.
    fn run(&self, line: &str) -> Run {
        let words = line.split(' ').map(|word| if word == "REASON" { "ticket 4711" } else { word });
        let args: Vec<&str> = words.chain(["--data", self.data()]).collect();
        nagaya_in(&args, "", &[("USER", "olga")])
    }

    fn json(&self, line: &str) -> (i32, Value) {
        let run = self.run(&format!("{line} --json"));
        let result = serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("--json prints JSON: {run}"));
        (run.status, result)
    }

    /// Changes the store behind the back of the log.
    fn tamper(&self, change: impl AsyncFnOnce(&Arc<EmbeddedStore>)) {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let store = || Arc::new(EmbeddedStore::open(&self.data, Options::default()).expect("it opens"));
        runtime.block_on(async { change(&store()).await });
    }

    /// A design whose audit entries move to an archive after a second.
    fn design(&self) -> String {
        let reference = fs::read_to_string(root().join("docs/reference/design.md")).expect("a page");
        let mut examples = reference.split("```toml").filter_map(|part| part.split("```").next());
        let example = examples.find(|example| example.contains("archive = {")).expect("an example");
        let example = example.replace("after = \"30d\"", "after = \"1s\"");
        let file = self._directory.path().join("desk.toml");
        fs::write(&file, example).expect("a file");
        file.to_str().expect("text").to_owned()
    }
}

/// The entry of the log with a number.
async fn entry(store: &EmbeddedStore, number: i64) -> Item {
    let items = store.scan(Scan::table(TABLE)).await.expect("a page").items;
    let wanted = |item: &Item| item.get("%number") == Some(&number.into()) && item.get("%action").is_some();
    items.into_iter().find(wanted).expect("an entry")
}

fn key(item: &Item) -> Key {
    let text = |name: &str| item.get(name).and_then(|value| value.as_str()).expect("a key").to_owned();
    Key::new(text("PK"), text("SK"))
}

#[test]
fn help_lists_commands_and_options() {
    for args in [
        &["audit", "--help"][..],
        &["audit", "list", "--help"],
        &["audit", "verify", "--help"],
        &["audit", "archive", "--help"],
    ] {
        assert_snapshot!(format!("help-{}", args[..args.len() - 1].join("-")), nagaya(args));
    }
}

#[test]
fn entries_are_listed_with_who_and_why() {
    let directory = DataDirectory::new();
    let (status, listed) = directory.json("audit list todo --reason REASON");
    assert_eq!((status, &listed["system"]), (0, &json!("todo")));
    let all = listed["entries"].as_array().expect("a list");
    let last = all.last().expect("an entry");
    assert_eq!(
        [&last["operator"], &last["reason"], &last["tenant"], &last["issuer"], &last["changes"]],
        [&json!("olga"), &json!("nagaya events verify"), &json!(null), &json!(null), &json!({})]
    );
    assert!(
        last["number"].as_u64() >= Some(3) && last["action"].as_str().is_some_and(|action| action.ends_with(".follow"))
    );

    // Reading is an entry of the log.
    let (_, again) = directory.json("audit list todo --reason REASON --operator olga");
    let read = again["entries"].as_array().and_then(|entries| entries.last()).expect("an entry");
    assert_eq!([&read["action"], &read["reason"]], [&json!("audit.list"), &json!("ticket 4711")]);
    let text = directory.run("audit list todo --reason REASON").stdout;
    assert!(text.lines().any(|line| line.ends_with("  audit.list audit  by olga: ticket 4711")), "{text}");

    for none in ["--operator nobody", "--tenant f-9", "--to 2026-01-01T00:00:00Z", "--from 2200-01-01T00:00:00Z"] {
        let (status, listed) = directory.json(&format!("audit list todo --reason REASON {none}"));
        assert_eq!((status, &listed["entries"]), (0, &json!([])), "{none}");
    }
}

/// A long log is printed page by page, and reading it makes it one entry longer.
#[test]
fn a_listing_of_many_pages_is_one_entry() {
    let directory = DataDirectory::new();
    let digits = fs::read_to_string(directory.data.join("audit.key")).expect("a key");
    let byte = |at: usize| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).expect("a byte");
    let key: [u8; 32] = std::array::from_fn(byte);
    directory.tamper(async |store| {
        let design = fs::read_to_string(root().join("systems/todo/design/todo.toml")).expect("a design");
        let design = nagaya::design::check(&design, &[]).design.expect("sound");
        let settings = Settings { prefix: "todo/".to_owned(), audit_keys: key.into(), ..Settings::default() };
        let nagaya = Nagaya::open_with(design, Arc::clone(store), settings);
        let operator = nagaya.operator("many entries", &Principal::new("", "otto"));
        for _ in 0..250 {
            operator.read_log(0, 0, None).await.expect("an entry");
        }
    });
    for json in [true, false] {
        let listed = directory.run(&format!("audit list todo --reason REASON{}", if json { " --json" } else { "" }));
        let count = match json {
            true => serde_json::from_str::<Value>(&listed.stdout).expect("JSON")["entries"].as_array().map(Vec::len),
            false => Some(listed.stdout.lines().filter(|line| !line.starts_with(' ')).count()),
        };
        assert!(count > Some(250), "{listed}");
    }
    let (_, own) = directory.json("audit list todo --reason REASON --operator olga");
    let own = own["entries"].as_array().expect("a list").iter().filter(|entry| entry["reason"] == "ticket 4711");
    assert_eq!(own.count(), 2, "one for each listing");
}

/// For deployments without a server that runs for long.
#[test]
fn old_audit_entries_move_to_the_archive_by_a_command() {
    let directory = DataDirectory::empty();
    let design = directory.design();
    let line = |command: &str| command.replace("DESIGN", &design);
    assert_eq!(directory.run(&line("seed DESIGN --tenants 1 --items 3")).status, 0);
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    let (status, moved) = directory.json(&line("audit archive DESIGN --reason REASON"));
    let count = moved["moved"].as_u64().expect("a number");
    assert_eq!((status, &moved["system"], &moved["archive"]), (0, &json!("desk"), &json!("old_trail")));
    assert!(count > 0, "{moved}");
    let again = directory.run(&line("audit archive DESIGN --reason REASON"));
    assert_eq!(again.stdout, "0 entries moved to `old_trail`\n");
    let (_, log) = directory.json(&line("audit list DESIGN --reason REASON"));
    let actions = log["entries"].as_array().expect("a list").iter().filter(|entry| entry["action"] == "audit.archive");
    assert_eq!(actions.count(), 2, "{log}");
    let none = DataDirectory::new().run("audit archive todo --reason REASON");
    assert!(none.status == 2 && none.stderr.contains("has no archive"), "{none}");
}

#[test]
fn a_log_is_verified_and_its_head_can_be_noted() {
    let directory = DataDirectory::new();
    let (status, report) = directory.json("audit verify todo --reason REASON");
    assert_eq!(
        (status, &report["ok"], &report["findings"], &report["unchained"]),
        (0, &json!(true), &json!([]), &json!(0))
    );
    let head = report["head"].as_str().expect("a head").to_owned();
    let run = directory.run(&format!("audit verify todo --reason REASON --expect-head {head}"));
    assert!(run.status == 0 && run.stdout.contains("nothing was changed or removed; the head is\n"), "{run}");
    let other = format!("1{head}");
    let (status, report) = directory.json(&format!("audit verify todo --reason REASON --expect-head {other}"));
    assert_eq!((status, &report["ok"], &report["findings"][0]["kind"]), (1, &json!(false), &json!("notAsNoted")));
    // After a rotation both keys are known.
    assert_eq!(directory.json("keys rotate audit").0, 0);
    assert_eq!(directory.json(&format!("audit verify todo --reason REASON --expect-head {head}")).0, 0);
    // Without the former one, the log goes on only if that is asked for.
    assert_eq!(directory.json("keys rotate audit --accept-older 0s").0, 0);
    assert_eq!(directory.run("audit verify todo --reason REASON").status, 2);
    let (status, report) = directory.json("audit verify todo --reason REASON --new-keys");
    assert_eq!((status, &report["findings"][0]["kind"]), (1, &json!("unknownKey")));
}

#[test]
fn changed_and_removed_entries_are_named_with_exit_code_1() {
    let directory = DataDirectory::new();
    directory.tamper(async |store| {
        let removed = entry(store, 2).await;
        store.write(Write::delete(TABLE, key(&removed)).into()).await.expect("it is gone");
        let changed = entry(store, 3).await.with("%reason", "something else");
        store.write(Write::put(TABLE, changed).into()).await.expect("it is changed");
    });
    let run = directory.run("audit verify todo --reason REASON");
    assert_eq!(run.status, 1, "{run}");
    let lines: Vec<_> = run.stdout.lines().map(|line| line.split_once("  ").map_or(line, |(_, what)| what)).collect();
    assert_eq!(lines[..2], ["entry 2 was removed before its time", "entry 3 was changed"]);
    assert!(lines[2].ends_with(": 2 findings"), "{run}");
    let (_, report) = directory.json("audit verify todo --reason REASON");
    let finding = &report["findings"][0];
    assert_eq!([&finding["kind"], &finding["number"], &finding["count"]], [&json!("removed"), &json!(2), &json!(1)]);
    assert!(finding["at"].as_str().is_some_and(|at| at.ends_with('Z')));
}

#[test]
fn what_cannot_run_is_refused() {
    let directory = DataDirectory::new();
    for (line, why) in [
        ("audit list todo --reason short", "at least 10 characters"),
        ("audit verify todo --reason REASON --expect-head abc", "a head is a number"),
        ("audit list todo --reason REASON --store memory", "memory keeps nothing"),
        ("audit list todo --reason REASON --from yesterday", "write an instant with its offset"),
        ("audit list todo", "--reason"),
        ("audit list kondate --reason REASON", "there are no tables of kondate"),
    ] {
        let run = directory.run(line);
        assert!(run.status == 2 && run.stderr.contains(why) && run.stdout.is_empty(), "{line}: {run}");
    }
    let run = nagaya(&["audit", "list", "todo", "--reason", "ticket 4711", "--data", "/nowhere"]);
    assert!(run.status == 2 && run.stderr.contains("is not the directory of a store"), "{run}");
}

/// A running server takes over the key in the file: a new one would replace the one that it has, which may be the last copy.
#[cfg(unix)]
#[test]
fn a_command_beside_a_server_creates_no_key_in_place_of_a_missing_one() {
    let directory = DataDirectory::new();
    let bin = std::process::Command::new(env!("CARGO_BIN_EXE_nagaya"));
    let server = ServeProcess::start(bin, &["todo", "--data", directory.data()]);
    let (file, kept) = (directory.data.join("audit.key"), directory.data.join("kept"));
    fs::rename(&file, &kept).expect("it is there");
    for command in ["audit list todo --reason REASON", "audit verify todo --reason REASON", "events verify todo"] {
        for new_keys in ["", " --new-keys"] {
            let run = directory.run(&format!("{command}{new_keys}"));
            let is_refused = run.status == 2 && run.stderr.contains("before you stop it, copy the file back");
            assert!(is_refused && !file.exists(), "{command}: {run}");
        }
    }
    fs::rename(&kept, &file).expect("it is there");
    let (status, report) = directory.json("audit verify todo --reason REASON");
    assert_eq!((status, &report["findings"]), (0, &json!([])), "server and command still have the same key");
    drop(server);

    // The server has its key in a variable.
    let given = DataDirectory::empty();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_nagaya"));
    command.env("NAGAYA_AUDIT_KEY", "0f".repeat(32));
    let server = ServeProcess::start(command, &["todo", "--data", given.data()]);
    let run = given.run("audit list todo --reason REASON");
    assert!(run.status == 2 && run.stderr.contains("the same NAGAYA_AUDIT_KEY"), "{run}");
    assert!(!given.data.join("audit.key").exists());
    drop(server);
}

/// No server would know a key that a command makes.
#[test]
fn a_command_creates_no_keys_for_a_store_that_it_does_not_create() {
    // A store that was restored without keys.
    let restored = DataDirectory::empty();
    restored.tamper(async |_| {});
    for command in ["audit list todo --reason REASON", "events verify todo", "events run todo"] {
        let run = restored.run(command);
        assert!(run.status == 2 && run.stderr.contains("`nagaya serve` creates it"), "{command}: {run}");
    }
    let keys = || ["audit.key", "cursor.key", "log.key"].map(|name| restored.data.join(name).exists());
    assert_eq!(keys(), [false; 3]);
    #[cfg(feature = "dynamodb")]
    for command in [
        "audit verify todo --reason REASON",
        "events verify todo",
        "events run todo",
        "seed todo",
        "smoke kondate",
        "lambda todo.stream",
    ] {
        let data = restored.data.join("laptop");
        let words = command.split(' ').map(|word| if word == "REASON" { "ticket 4711" } else { word });
        let args: Vec<&str> = words.chain(["--store", "dynamodb", "--data", data.to_str().expect("text")]).collect();
        // No server answers there; the keys come first.
        let variables = [
            ("DYNAMODB_ENDPOINT", "http://127.0.0.1:1"),
            ("AWS_REGION", "local"),
            ("AWS_ACCESS_KEY_ID", "local"),
            ("AWS_SECRET_ACCESS_KEY", "local"),
            ("AWS_MAX_ATTEMPTS", "1"),
            ("AWS_LAMBDA_RUNTIME_API", "127.0.0.1:1"),
        ];
        let run = nagaya_in(&args, "", &variables);
        let remedy = match command {
            "lambda todo.stream" => "NAGAYA_AUDIT_KEY is not set",
            _ => "give this command NAGAYA_AUDIT_KEY",
        };
        assert!(run.status == 2 && run.stderr.contains(remedy), "{command}: {run}");
        assert!(!data.exists(), "{command}");
    }
}

/// The setting of the server decides about entries that are written after it.
#[test]
fn the_retention_is_a_setting() {
    let directory = DataDirectory::new();
    let expires = |line: &str, number: i64| {
        let found = std::cell::Cell::new(None);
        assert_eq!(directory.run(line).status, 0);
        directory.tamper(async |store| {
            let number_in = |item: &Item, name: &str| item.get(name).and_then(|value| value.as_number());
            let entry = entry(store, number).await;
            let days = |number: nagaya::store::Number| i64::try_from(number).expect("a whole number") / 86_400;
            let at = i64::try_from(number_in(&entry, "%at").expect("a time")).expect("a whole number") / 86_400_000;
            found.set(number_in(&entry, "%expires").map(|expires| days(expires) - at));
        });
        found.get()
    };
    let (_, report) = directory.json("audit verify todo --reason REASON");
    let head = report["head"].as_str().and_then(|head| head.split('-').next()?.parse().ok()).unwrap_or(0);
    assert_eq!(expires("audit list todo --reason REASON", head + 1), Some(400));
    assert_eq!(expires("audit list todo --reason REASON --audit-retention 30", head + 2), Some(30));
    assert_eq!(expires("audit list todo --reason REASON --audit-retention 0", head + 3), None);
}

/// A colleague's command without the key of the servers must not look like a forger for ever.
#[test]
fn a_command_with_another_key_is_refused_with_the_remedy() {
    let directory = DataDirectory::new();
    let with_another_key = |line: &str| {
        let words = line.split(' ').map(|word| if word == "REASON" { "ticket 4711" } else { word });
        let args: Vec<&str> = words.chain(["--data", directory.data()]).collect();
        nagaya_in(&args, "", &[("USER", "olga"), ("NAGAYA_AUDIT_KEY", &"0f".repeat(32))])
    };
    for command in [
        "audit list todo --reason REASON",
        "audit verify todo --reason REASON",
        "events verify todo",
        "serve todo --port 0",
    ] {
        let run = with_another_key(command);
        assert!(run.status == 2 && run.stderr.contains("the same NAGAYA_AUDIT_KEY"), "{command}: {run}");
    }
    let (status, report) = directory.json("audit verify todo --reason REASON");
    assert_eq!((status, &report["findings"]), (0, &json!([])), "nothing was written");

    // The key is lost: the log goes on, and says so.
    assert_eq!(with_another_key("audit list todo --reason REASON --new-keys").status, 0);
    let run = with_another_key("audit verify todo --reason REASON");
    assert!(run.status == 1 && run.stdout.contains("ead"), "{run}");
}
