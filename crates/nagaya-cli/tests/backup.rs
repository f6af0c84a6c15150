//! Backups of a running server, and restores from them.

#![cfg(unix)]

mod common;

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
};

use common::{Run, nagaya, nagaya_in};
use nagaya_embedded::{EmbeddedStore, Options};
use nagaya_store::{Key, Scan, Store as _, Write};
use nagaya_testing::ServeProcess;
use serde_json::{Value, json};

/// Starts a todo server, which is killed at the end of the test.
fn serve(data: &Path) -> ServeProcess {
    ServeProcess::start(Command::new(env!("CARGO_BIN_EXE_nagaya")), &["todo", "--data", text(data)])
}

fn token(serving: &ServeProcess) -> String {
    serving.token("todo")
}

fn ask(serving: &ServeProcess, token: &str, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
    serving.send_with(token, "todo", method, path, body)
}

/// Creates a todo, and waits until the projection has it.
fn post(serving: &ServeProcess, token: &str, body: &Value) -> Value {
    let (status, made) = ask(serving, token, "POST", "/todos", Some(body));
    assert_eq!(status, 201, "{made}");
    let made = made["data"].clone();
    let after = made["lastEventId"].as_str().expect("an event");
    let (status, listed) = ask(serving, token, "GET", &format!("{}?after={after}", path(&made)), None);
    assert_eq!(status, 200, "the list lacks the todo: {listed}");
    made
}

fn path(todo: &Value) -> String {
    format!("/todos/{}", todo["todoId"].as_str().expect("an id"))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("the path is text")
}

fn json_of(run: &Run) -> Value {
    assert_eq!(run.status, 0, "{run}");
    serde_json::from_str(&run.stdout).expect("--json prints JSON")
}

struct TestDirectory(tempfile::TempDir);

impl TestDirectory {
    fn new() -> Self {
        let home = TestDirectory(tempfile::tempdir().expect("a directory"));
        fs::write(home.path("secret.txt"), "correct horse battery\n").expect("a file");
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs `nagaya store`; arguments that begin with `@` are paths below this directory.
    fn store(&self, args: &[&str]) -> Run {
        let named =
            |arg: &&str| arg.strip_prefix('@').map_or((*arg).to_owned(), |name| text(&self.path(name)).to_owned());
        let args: Vec<String> = args.iter().map(named).collect();
        let args: Vec<&str> = ["store"].into_iter().chain(args.iter().map(String::as_str)).collect();
        nagaya(&args)
    }
}

#[test]
fn a_running_server_is_backed_up_and_the_restored_data_works() {
    let home = TestDirectory::new();
    let long = "牛乳を買う。".repeat(3_000);
    let (token, first, second, counted) = {
        let serving = serve(&home.path("data"));
        let token = token(&serving);
        let first = post(&serving, &token, &json!({ "title": "milk", "note": long }));
        let full =
            home.store(&["backup", "@full.nagaya", "--json", "--data", "@data", "--passphrase-file", "@secret.txt"]);
        let full = json_of(&full);
        assert_eq!(
            (&full["objects"], &full["hasKeys"], &full["parent"]),
            (&json!(1), &json!(true), &Value::Null),
            "{full}"
        );
        let mode = fs::metadata(home.path("full.nagaya")).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);

        let second = post(&serving, &token, &json!({ "title": "bread", "note": "x".repeat(2_000) }));
        let more = home.store(&[
            "backup",
            "@more.nagaya",
            "--since",
            "@full.nagaya",
            "--json",
            "--data",
            "@data",
            "--passphrase-file",
            "@secret.txt",
        ]);
        let more = json_of(&more);
        assert_eq!((&more["parent"], &more["objects"], &more["items"]), (&full["id"], &json!(1), &json!(0)), "{more}");
        assert!(more["changes"].as_u64() > Some(0), "{more}");

        // These commands also go through the running server.
        let verified = home.store(&["verify", "--data", "@data"]);
        assert_eq!((verified.status, verified.stdout.as_str()), (0, "no problems found\n"), "{verified}");
        let counted = json_of(&home.store(&["stat", "--json", "--data", "@data"]));
        (token, first, second, counted)
    };

    let checked = home.store(&["verify-backup", "@full.nagaya", "@more.nagaya", "--passphrase-file", "@secret.txt"]);
    assert_eq!(checked.status, 0, "{checked}");
    let restored = home.store(&[
        "restore",
        "--from",
        "@full.nagaya",
        "--from",
        "@more.nagaya",
        "--to",
        "@restored",
        "--json",
        "--passphrase-file",
        "@secret.txt",
    ]);
    let result = json_of(&restored);
    assert_eq!((&result["objects"], &result["keyFiles"]), (&json!(2), &json!(5)), "{result}");
    assert_eq!(result["contentHash"], counted["contentHash"]);

    // The checks that the output recommends work, and find nothing.
    let next: Vec<_> = result["nextCommands"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    assert!(next.iter().any(|step| step.contains("events rebuild todo todo --verify-only")), "{next:?}");
    for step in next.iter().filter(|step| !step.starts_with("nagaya serve")) {
        let run = nagaya(&step.split(' ').skip(1).collect::<Vec<_>>());
        assert_eq!(run.status, 0, "{step}: {run}");
    }

    // A token from before the restore is still valid, the notes are there, and new todos are projected.
    let serving = serve(&home.path("restored"));
    for (todo, note) in [(&first, &long), (&second, &"x".repeat(2_000))] {
        let (status, found) = ask(&serving, &token, "GET", &path(todo), None);
        assert_eq!((status, &found["data"]["title"]), (200, &todo["title"]), "{found}");
        let (status, found) = ask(&serving, &token, "GET", &format!("{}/note", path(todo)), None);
        assert_eq!((status, &found["data"]["note"]), (200, &json!(note)));
    }
    post(&serving, &token, &json!({ "title": "eggs" }));
    let (status, listed) = ask(&serving, &token, "GET", "/todos", None);
    assert_eq!((status, listed["data"].as_array().map(Vec::len)), (200, Some(3)), "{listed}");
    drop(serving);
    // The projection still agrees with the events.
    let verify = ["events", "rebuild", "todo", "todo", "--verify-only", "--data", text(&home.path("restored"))]
        .map(str::to_owned);
    let run = nagaya(&verify.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(run.status, 0, "{run}");
}

#[test]
fn a_backup_is_a_consistent_snapshot_while_writes_continue() {
    let home = TestDirectory::new();
    let serving = serve(&home.path("data"));
    let token = token(&serving);
    let before: Vec<_> = (0..10).map(|n| post(&serving, &token, &json!({ "title": format!("before {n}") }))).collect();
    let done = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let mut count = 0;
            while !done.load(Ordering::SeqCst) {
                let body = json!({ "title": "meanwhile", "note": format!("{count}").repeat(1_001) });
                let (status, answer) = ask(&serving, &token, "POST", "/todos", Some(&body));
                assert_eq!(status, 201, "{answer}");
                count += 1;
            }
            count
        });
        for n in 0..5 {
            let file = format!("@backup-{n}.nagaya");
            let run = home.store(&["backup", &file, "--data", "@data", "--passphrase-file", "@secret.txt"]);
            assert_eq!(run.status, 0, "{run}");
        }
        done.store(true, Ordering::SeqCst);
        writing.join().expect("no panic")
    });
    assert!(written > 0, "no writes during the backup");
    drop(serving);
    let restored =
        home.store(&["restore", "--from", "@backup-4.nagaya", "--to", "@restored", "--passphrase-file", "@secret.txt"]);
    assert_eq!(restored.status, 0, "{restored}");
    let verified = home.store(&["verify", "--data", "@restored"]);
    assert_eq!(verified.status, 0, "{verified}");
    let serving = serve(&home.path("restored"));
    for todo in &before {
        assert_eq!(ask(&serving, &token, "GET", &path(todo), None).0, 200);
    }
    // Every note that the snapshot refers to is there.
    let (_, listed) = ask(&serving, &token, "GET", "/todos?limit=100", None);
    for todo in listed["data"].as_array().expect("a list") {
        let (status, note) = ask(&serving, &token, "GET", &format!("{}/note", path(todo)), None);
        assert_eq!(status, 200, "{note}");
    }
}

#[test]
fn a_backup_without_its_keys_sealed_needs_an_explicit_flag() {
    let home = TestDirectory::new();
    let token = {
        let serving = serve(&home.path("data"));
        token(&serving)
    };
    let backup = |file: &str, more: &[&str]| home.store(&[&["backup", file, "--data", "@data"], more].concat());
    let refused = backup("@none.nagaya", &[]);
    assert_eq!(refused.status, 2, "{refused}");
    for option in ["--passphrase-file", "NAGAYA_BACKUP_PASSPHRASE", "--key-file", "--without-keys", "issuer/keys.json"]
    {
        assert!(refused.stderr.contains(option), "{refused}");
    }
    assert!(!home.path("none.nagaya").exists());

    // Characters count, not bytes.
    for short in ["1234567\n", "牛乳買\n", "1234567 \t\n"] {
        fs::write(home.path("short.txt"), short).expect("a file");
        let refused = backup("@none.nagaya", &["--passphrase-file", "@short.txt"]);
        assert!(refused.stderr.contains("8 characters"), "{short:?}: {refused}");
    }
    fs::write(home.path("backup.key"), [7; 32]).expect("a file");
    assert_eq!(backup("@key.nagaya", &["--key-file", "@backup.key"]).status, 0);
    assert_eq!(backup("@bare.nagaya", &["--without-keys"]).status, 0);
    let (data, file) = (home.path("data"), home.path("variable.nagaya"));
    let args = ["store", "backup", "--data", text(&data), text(&file)];
    assert_eq!(nagaya_in(&args, "", &[("NAGAYA_BACKUP_PASSPHRASE", "correct horse battery")]).status, 0);
    // No backup contains a secret in clear text, and no file is overwritten.
    let secret = fs::read_to_string(home.path("data/cursor.key")).expect("a key");
    for name in ["key.nagaya", "bare.nagaya", "variable.nagaya"] {
        let bytes = fs::read(home.path(name)).expect("a file");
        assert!(!bytes.windows(secret.trim().len()).any(|part| part == secret.trim().as_bytes()), "{name}");
    }
    let again = backup("@bare.nagaya", &["--without-keys"]);
    assert!(again.status == 2 && again.stderr.contains("never replaces a file"), "{again}");

    let restore =
        |file: &str, more: &[&str]| home.store(&[&["restore", "--from", file, "--to", "@restored"], more].concat());
    for (more, why) in [
        (&[][..], "the backup has sealed keys"),
        (&["--passphrase-file", "@secret.txt"], "sealed with a key file"),
        (&["--key-file", "@secret.txt"], "less than 32 bytes"),
    ] {
        let refused = restore("@key.nagaya", more);
        assert!(refused.status == 2 && refused.stderr.contains(why), "{refused}");
        assert!(refused.stderr.contains("nothing was restored"), "{refused}");
        assert!(!home.path("restored").exists());
    }
    let wrong = home.store(&["verify-backup", "@variable.nagaya", "--key-file", "@backup.key"]);
    assert!(wrong.status == 1 && wrong.stdout.contains("sealed with a passphrase"), "{wrong}");
    let run = restore("@bare.nagaya", &[]);
    assert!(run.status == 0 && run.stderr.contains("no keys were restored"), "{run}");
    // The operator log of the backup may have an entry, whose key is gone.
    let restored = home.path("restored");
    let bare = ServeProcess::start(
        Command::new(env!("CARGO_BIN_EXE_nagaya")),
        &["todo", "--new-keys", "--data", text(&restored)],
    );
    assert_eq!(ask(&bare, &token, "GET", "/todos", None).0, 401, "other keys sign");
    drop(bare);
    fs::remove_dir_all(home.path("restored")).expect("it can be removed");
    assert_eq!(restore("@variable.nagaya", &["--passphrase-file", "@secret.txt"]).status, 0);
    assert_eq!(ask(&serve(&home.path("restored")), &token, "GET", "/todos", None).0, 200);
}

#[test]
fn damaged_backups_and_broken_backup_chains_exit_with_1() {
    let home = TestDirectory::new();
    drop(serve(&home.path("data")));
    for name in ["@one.nagaya", "@two.nagaya"] {
        assert_eq!(home.store(&["backup", name, "--data", "@data", "--without-keys"]).status, 0);
    }
    let whole = home.store(&["verify-backup", "@one.nagaya"]);
    assert_eq!(whole.status, 0, "{whole}");
    let strangers = home.store(&["verify-backup", "@one.nagaya", "@two.nagaya"]);
    assert!(strangers.status == 1 && strangers.stdout.contains("do not follow from each other"), "{strangers}");
    let mut bytes = fs::read(home.path("two.nagaya")).expect("a file");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    fs::write(home.path("two.nagaya"), bytes).expect("a file");
    let damaged = home.store(&["verify-backup", "@one.nagaya", "@two.nagaya"]);
    assert!(damaged.status == 1 && damaged.stdout.contains("two.nagaya: the backup is damaged"), "{damaged}");
    let restored = home.store(&["restore", "--from", "@two.nagaya", "--to", "@restored"]);
    assert!(restored.status == 1 && restored.stderr.contains("nothing was restored"), "{restored}");
    assert!(!home.path("restored").exists());
    let missing = home.store(&["verify-backup", "@three.nagaya"]);
    assert_eq!(missing.status, 2, "{missing}");
}

#[test]
fn the_control_socket_is_private_and_survives_malformed_requests() {
    let home = TestDirectory::new();
    let socket = home.path("data/control.sock");
    // Twice: the second start finds the socket of a server that was killed.
    for _ in 0..2 {
        let serving = serve(&home.path("data"));
        assert_eq!(fs::metadata(&socket).expect("a socket").permissions().mode() & 0o777, 0o600);
        for request in
            [&b""[..], b"\n", b"{}\n", b"{\"version\":4,\"do\":\"dance\"}\n", b"{\"version\":1}\n", &[b'x'; 100_000]]
        {
            let mut stream = UnixStream::connect(&socket).expect("the server accepts the connection");
            // The server may close the connection before everything is written.
            let _ = stream.write_all(request);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer);
            assert!(answer.is_empty() || answer.starts_with("{\"error\":"), "{answer}");
        }
        let since = json!({ "incarnation": "00", "sequence": 1 });
        let mut stream = UnixStream::connect(&socket).expect("the server accepts the connection");
        writeln!(stream, "{}", json!({ "version": 4, "do": "backup", "since": since }))
            .expect("the server accepts the connection");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        assert!(String::from_utf8_lossy(&answer).contains("of another directory"));
        assert_eq!(home.store(&["stat", "--data", "@data"]).status, 0);
        assert_eq!(serving.send("todo", "GET", "/todos", None).0, 200);
    }
    let left: Vec<_> =
        fs::read_dir(home.path("data")).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with(".control")), "{left:?}");
}

#[test]
fn a_server_without_a_control_socket_reports_it_and_still_serves() {
    let home = TestDirectory::new();
    let data = home.path(&"deep/".repeat(30)).join("data");
    fs::create_dir_all(&data).expect("folders");
    let mut serving = serve(&data);
    assert_eq!(serving.send("todo", "GET", "/todos", None).0, 200);
    let run = nagaya(&["store", "stat", "--data", text(&data)]);
    assert_eq!(run.status, 2);
    assert!(run.stderr.contains("is in use by process") && run.stderr.contains("too long for a socket"), "{run}");
    serving.process.kill();
    let stderr = serving.process.rest_of_stderr();
    assert!(stderr.contains("no control socket"), "{stderr}");
}

/// A backup of the previous format has no sequence numbers: subscriptions start again from the beginning.
#[test]
fn a_backup_of_the_previous_format_is_restored_and_projected() {
    let home = TestDirectory::new();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/backups/todo-1.nagaya");
    let restored = home.store(&["restore", "--from", text(&file), "--to", "@restored"]);
    assert_eq!(restored.status, 0, "{restored}");
    let serving = serve(&home.path("restored"));
    let token = token(&serving);
    post(&serving, &token, &json!({ "title": "new" }));
    let (_, listed) = ask(&serving, &token, "GET", "/todos", None);
    assert_eq!(listed["data"].as_array().map(Vec::len), Some(4), "{listed}");
}

/// The check that the documentation recommends after a restore finds a projection behind its events.
#[tokio::test]
async fn the_documented_check_finds_a_projection_behind_its_events() {
    let home = TestDirectory::new();
    let lost = {
        let serving = serve(&home.path("data"));
        let token = token(&serving);
        post(&serving, &token, &json!({ "title": "kept" }));
        post(&serving, &token, &json!({ "title": "lost" }))
    };
    let data = home.path("data");
    let check = || nagaya(&["events", "rebuild", "todo", "todo", "--verify-only", "--data", text(&data)]);
    assert_eq!(check().status, 0);
    // The projection lacks one todo, and the processor's position is after the missing change.
    {
        let store = EmbeddedStore::open(&data, Options::default()).expect("the directory opens");
        let id = lost["todoId"].as_str().expect("an id");
        let table = "todo/TodosProjection";
        for item in store.scan(Scan::table(table)).await.expect("a scan").items {
            let text = |name: &str| item.get(name).and_then(|value| value.as_str()).expect("a key").to_owned();
            if format!("{item:?}").contains(id) {
                store.write(Write::delete(table, Key::new(text("PK"), text("SK"))).into()).await.expect("a delete");
            }
        }
    }
    let found = check();
    assert_eq!(found.status, 1, "{found}");
    assert!(found.stdout.contains("is behind its events") && found.stdout.contains("1 todo behind"), "{found}");
    assert_eq!(check().status, 1, "it changes nothing");
    let repair = ["events", "rebuild", "todo", "todo", "--tenant", "demo", "--yes", "--data", text(&data)];
    assert_eq!(nagaya(&repair).status, 0);
    assert_eq!(check().status, 0);
}
