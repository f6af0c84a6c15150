//! Keys of a data directory: encryption at rest, rotation, and keys that are gone.

#![cfg(unix)]

mod common;

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use common::{Run, nagaya};
use nagaya_testing::ServeProcess;
use serde_json::{Value, json};

/// A text that must not be on the disk.
const SECRET: &str = "the-secret-of-the-family";

struct TestDirectory(tempfile::TempDir);

impl TestDirectory {
    fn new() -> Self {
        let home = TestDirectory(tempfile::tempdir().expect("a directory"));
        for (name, digit) in [("one.key", "1"), ("two.key", "2")] {
            fs::write(home.path(name), digit.repeat(64)).expect("a file");
            fs::set_permissions(home.path(name), fs::Permissions::from_mode(0o600)).expect("it is ours");
        }
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs `nagaya`; words that begin with `@` are paths below this directory.
    fn run(&self, line: &str) -> Run {
        let args: Vec<String> = line.split(' ').map(|word| self.word(word)).collect();
        nagaya(&args.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn json(&self, line: &str) -> Value {
        let run = self.run(&format!("{line} --json"));
        assert_eq!(run.status, 0, "{run}");
        serde_json::from_str(&run.stdout).expect("--json prints JSON")
    }

    fn refused(&self, line: &str, why: &str) {
        let run = self.run(line);
        assert!(run.status == 2 && run.stderr.contains(why), "{run}");
    }

    fn serve(&self, line: &str) -> ServeProcess {
        let args: Vec<String> = line.split(' ').map(|word| self.word(word)).collect();
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        ServeProcess::start(Command::new(env!("CARGO_BIN_EXE_nagaya")), &args)
    }

    fn word(&self, word: &str) -> String {
        word.strip_prefix('@').map_or(word.to_owned(), |name| self.path(name).to_string_lossy().into_owned())
    }
}

/// The files below a directory that contain the secret.
fn files_with_secret(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in fs::read_dir(directory).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if path.is_dir() {
            found.extend(files_with_secret(&path));
        } else if let Ok(bytes) = fs::read(&path) {
            let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            if bytes[..end].windows(SECRET.len()).any(|part| part == SECRET.as_bytes()) {
                found.push(path);
            }
        }
    }
    found
}

fn create_todo(serving: &ServeProcess) -> String {
    let body = json!({ "title": SECRET, "note": format!("{SECRET} ").repeat(200) });
    let (status, made) = serving.send("todo", "POST", "/todos", Some(&body));
    assert_eq!(status, 201, "{made}");
    let after = made["data"]["lastEventId"].as_str().expect("an event");
    let path = format!("/todos/{}", made["data"]["todoId"].as_str().expect("an id"));
    let (status, listed) = serving.send("todo", "GET", &format!("{path}?after={after}"), None);
    assert_eq!(status, 200, "{listed}");
    path
}

fn check_todo(serving: &ServeProcess, path: &str) {
    let (status, found) = serving.send("todo", "GET", path, None);
    assert_eq!((status, &found["data"]["title"]), (200, &json!(SECRET)), "{found}");
}

const ONE: &str = "--encryption-key-file @one.key";
const TWO: &str = "--encryption-key-file @two.key";

#[test]
fn a_running_server_is_encrypted_and_its_key_is_rotated() {
    let home = TestDirectory::new();
    let serving = home.serve("todo --data @data");
    let todo = create_todo(&serving);
    assert!(!files_with_secret(&home.path("data")).is_empty());
    home.refused(
        "store rotate-key --data @data --encryption-key-file @one.key --new-key-file @two.key",
        "is not encrypted",
    );
    let state = home.json(&format!("store encrypt --data @data {ONE}"));
    let (first, progress) = (state["keyId"].clone(), &state["progress"]);
    assert!(first.is_string() && progress.is_null(), "{state}");
    check_todo(&serving, &todo);
    let second_todo = create_todo(&serving);
    let stat = home.json("store stat --data @data");
    assert_eq!((&stat["format"], &stat["encryption"]["keyId"]), (&json!(3), &first), "{stat}");

    let rotated = home.json(&format!("store rotate-key --data @data {ONE} --new-key-file @two.key"));
    assert_ne!(rotated["keyId"], first);
    check_todo(&serving, &second_todo);
    // Objects can be read with the new key only, and backups need it too.
    assert_eq!(home.run(&format!("store verify --data @data {TWO}")).status, 0);
    home.refused("store verify --data @data", "give it with --encryption-key-file");
    home.refused(&format!("store backup @none.nagaya --without-keys --data @data {ONE}"), "the given one is");
    let backup = home.json(&format!("store backup @b.nagaya --without-keys --data @data {TWO}"));
    assert_eq!((&backup["keyId"], &backup["objects"]), (&rotated["keyId"], &json!(2)), "{backup}");
    assert_eq!(serving.process.stop(), Some(0));

    home.refused("store stat --data @data", first.as_str().map_or("", |_| "no key was given"));
    home.refused(&format!("store stat --data @data {ONE}"), "the given one is");
    home.refused("serve todo --data @data", "no key was given");
    let serving = home.serve(&format!("todo --data @data {TWO}"));
    check_todo(&serving, &todo);
    check_todo(&serving, &second_todo);
    assert_eq!(files_with_secret(&home.path("data")), [] as [PathBuf; 0]);
    assert_eq!(files_with_secret(home.0.path()), [] as [PathBuf; 0], "also not in the backup");
    drop(serving);

    home.refused("store verify-backup @b.nagaya", "no key was given");
    assert_eq!(home.run(&format!("store verify-backup @b.nagaya {TWO}")).status, 0);
    home.refused("store restore --from @b.nagaya --to @copy", "no key was given");
    let restored = home.json(&format!("store restore --from @b.nagaya --to @copy {TWO}"));
    assert_eq!(restored["contentHash"], backup["contentHash"]);
    // The commands to run next need the key too.
    let next = restored["nextCommands"].as_array().expect("a list").iter().filter_map(|line| line.as_str());
    let with_key: Vec<_> = next.filter(|line| line.contains("--encryption-key-file")).collect();
    assert!(with_key.iter().any(|line| line.starts_with("nagaya store verify")), "{restored}");
    assert!(with_key.iter().any(|line| line.starts_with("nagaya serve")), "{restored}");
    assert_eq!(home.run(&format!("store verify --data @copy {TWO}")).status, 0);
    assert_eq!(files_with_secret(&home.path("copy")), [] as [PathBuf; 0]);
}

#[test]
fn a_stopped_store_is_encrypted_and_a_command_gives_the_key() {
    let home = TestDirectory::new();
    let serving = home.serve("todo --data @data");
    let todo = create_todo(&serving);
    assert_eq!(serving.process.stop(), Some(0));
    home.refused(&format!("store stat --data @data {ONE}"), "nagaya store encrypt");
    home.refused("store encrypt --data @data", "--encryption-key-file");
    home.json(&format!("store encrypt --data @data {ONE}"));
    assert_eq!(files_with_secret(&home.path("data")), [] as [PathBuf; 0], "also not in the journals");
    // A repeated command has nothing to do, with and without a server.
    let repeat = || {
        let run = home.run(&format!("store encrypt --data @data {ONE}"));
        assert!(run.status == 0 && run.stderr.contains("is encrypted with this key already"), "{run}");
    };
    repeat();
    home.refused(&format!("store encrypt --data @data {TWO}"), "it is encrypted with the key");
    let command = format!("cat {}", home.path("one.key").display());
    let args = ["todo", "--encryption-key-command", &command, "--data", &home.word("@data")];
    let serving = ServeProcess::start(Command::new(env!("CARGO_BIN_EXE_nagaya")), &args);
    check_todo(&serving, &todo);
    repeat();
    home.refused(&format!("store encrypt --data @data {TWO}"), "nagaya store rotate-key");
    check_todo(&serving, &todo);
}

#[test]
fn the_files_of_a_server_belong_to_its_owner_only() {
    let home = TestDirectory::new();
    let mut command = Command::new("sh");
    command.args(["-c", r#"umask 000; exec "$0" "$@""#, env!("CARGO_BIN_EXE_nagaya")]);
    let serving = ServeProcess::start(command, &["todo", "--data", &home.word("@data")]);
    let made = home.json("token --system todo --tenant f1 --data @data");
    serving.use_token("todo", made["token"].as_str().expect("a token"));
    create_todo(&serving);
    home.json("store backup @b.nagaya --without-keys --data @data");
    let mut below = vec![home.path("data"), home.path("b.nagaya")];
    while let Some(path) = below.pop() {
        let found = fs::symlink_metadata(&path).expect("it exists");
        assert_eq!(found.permissions().mode() & 0o077, 0, "{}", path.display());
        if found.is_dir() {
            below.extend(fs::read_dir(&path).expect("a folder").map(|entry| entry.expect("an entry").path()));
        }
    }
}

#[test]
fn a_server_does_not_start_with_new_keys_when_it_has_lost_its_own() {
    let home = TestDirectory::new();
    assert_eq!(home.serve("todo --data @data").process.stop(), Some(0));
    for name in ["cursor.key", "audit.key", "issuer/keys.json"] {
        let (file, aside) = (home.path("data").join(name), home.path("aside"));
        fs::rename(&file, &aside).expect("it is there");
        let run = home.run("serve todo --port 0 --data @data");
        assert!(run.status == 2 && run.stderr.contains(name) && run.stderr.contains("--new-keys"), "{run}");
        assert!(!file.exists(), "nothing was created");
        fs::rename(&aside, &file).expect("it is brought back");
        assert_eq!(home.serve("todo --data @data").process.stop(), Some(0));
        fs::remove_file(&file).expect("it is there");
        assert_eq!(home.serve("todo --data @data --new-keys").process.stop(), Some(0));
        assert_eq!(home.serve("todo --data @data").process.stop(), Some(0));
    }
}

#[test]
fn a_running_server_uses_a_new_cursor_key_and_accepts_older_cursors() {
    let home = TestDirectory::new();
    let serving = home.serve("todo --data @data");
    for _ in 0..3 {
        create_todo(&serving);
    }
    let page = |query: &str| {
        let (status, page) = serving.send("todo", "GET", &format!("/todos?limit=1{query}"), None);
        (status, page["nextCursor"].as_str().unwrap_or_default().to_owned())
    };
    let (status, older) = page("");
    assert!(status == 200 && !older.is_empty(), "{older}");
    let listed = home.json("keys list --data @data");
    assert_eq!(listed["keys"][0]["keys"].as_array().map(Vec::len), Some(1), "{listed}");
    let rotated = home.json("keys rotate cursor --data @data");
    assert_eq!(rotated["keys"].as_array().map(Vec::len), Some(2), "{rotated}");
    // The same position gives another cursor as soon as the server has the new key.
    nagaya_testing::eventually(|| if page("").1 == older { Err("the key is the old one".to_owned()) } else { Ok(()) });
    assert_eq!(page(&format!("&cursor={older}")).0, 200, "the older key is accepted");
    home.json("keys rotate cursor --accept-older 0s --data @data");
    nagaya_testing::eventually(|| match page(&format!("&cursor={older}")).0 {
        400 => Ok(()),
        status => Err(format!("the older key is still accepted: {status}")),
    });
    home.refused("keys rotate cursor --data @nowhere", "name the directory of the server");
    home.json("keys rotate log --data @data");
}

#[test]
fn a_design_that_wants_encryption_warns_about_a_store_without_it() {
    let home = TestDirectory::new();
    let warned = |line: &str| {
        let mut serving = home.serve(line);
        serving.process.terminate();
        serving.process.wait();
        serving.process.rest_of_stderr().contains("the design wants these tables encrypted")
    };
    assert!(warned("aiagent --data @plain"));
    assert!(!warned(&format!("aiagent --data @encrypted {ONE}")));
    assert!(!warned("todo --data @other"));
}
