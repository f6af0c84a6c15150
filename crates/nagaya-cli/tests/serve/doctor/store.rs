//! What `nagaya doctor` finds in the store: the key that it is encrypted with, and the key files that it has had.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use super::{doctor, doctor_in, having, restrict};
use crate::{
    common::{nagaya, root},
    serve, text,
};

/// A directory for stores and keys.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Place(tempfile::tempdir().expect("a directory"))
    }

    fn data(&self) -> PathBuf {
        self.0.path().join("data")
    }

    /// A file with a key.
    fn key(&self, digits: &str) -> PathBuf {
        let path = self.0.path().join(format!("{digits}.key"));
        fs::write(&path, digits.repeat(32)).expect("a file");
        restrict(&path);
        path
    }

    /// The store is created with this key, or without one.
    fn create_store(&self, key: Option<&Path>) {
        assert_eq!(serve(&arguments(&self.data(), key), &[]).process.stop(), Some(0));
    }

    /// What is found about a section.
    fn found(&self, section: &str, key: Option<&Path>) -> (String, String) {
        let (_, found) = doctor(&arguments(&self.data(), key));
        let mut found = found.into_iter().filter(|(check, ..)| check == section);
        let (_, state, what) = found.next().expect("the section is there");
        assert_eq!(found.next(), None);
        (state, what)
    }
}

fn arguments<'a>(data: &'a Path, key: Option<&'a Path>) -> Vec<&'a str> {
    let mut arguments = vec!["todo", "--data", text(data)];
    arguments.extend(key.into_iter().flat_map(|key| ["--encryption-key-file", text(key)]));
    arguments
}

/// All that `nagaya serve` refuses, with a server that has the directory open and without.
#[test]
fn a_key_that_does_not_fit_the_store_is_a_problem() {
    let check = |place: &Place, key: Option<&Path>, state: &str, words: &str| {
        let (found, what) = place.found("Encryption at rest", key);
        assert_eq!(found, state, "{what}");
        assert!(what.contains(words), "{what}");
    };
    let encrypted = Place::new();
    let (right, wrong) = (encrypted.key("0f"), encrypted.key("1f"));
    encrypted.create_store(Some(&right));
    let check_encrypted = || {
        check(&encrypted, Some(&right), "ok", "the key fits");
        check(&encrypted, Some(&wrong), "problem", "it is encrypted with the key");
        check(&encrypted, None, "problem", "no key");
    };
    check_encrypted();
    let server = serve(&arguments(&encrypted.data(), Some(&right)), &[]);
    check_encrypted();
    drop(server);

    let plain = Place::new();
    let key = plain.key("0f");
    check(&plain, Some(&key), "ok", "a new store");
    plain.create_store(None);
    let check_plain = || {
        check(&plain, Some(&key), "problem", "not encrypted");
        check(&plain, None, "warning", "not encrypted");
    };
    check_plain();
    let server = serve(&arguments(&plain.data(), None), &[]);
    check_plain();
    drop(server);
}

/// `nagaya serve` refuses to start without a key file that the store has had.
#[test]
fn a_key_file_that_is_gone_is_a_problem() {
    let place = Place::new();
    place.create_store(None);
    assert_eq!(place.found("Keys", None).0, "ok");
    let server = serve(&arguments(&place.data(), None), &[]);
    for name in ["cursor.key", "audit.key"] {
        let (file, kept) = (place.data().join(name), place.0.path().join(name));
        fs::rename(&file, &kept).expect("it is there");
        let (state, what) = place.found("Keys", None);
        assert_eq!(state, "problem");
        assert!(what.contains(name) && what.contains("although the store had it"), "{what}");
        fs::rename(&kept, &file).expect("it is there");
    }
    drop(server);
    let key = fs::read_to_string(place.data().join("audit.key")).expect("it is there");
    fs::remove_file(place.data().join("audit.key")).expect("it is there");
    let (state, what) = place.found("Keys", None);
    assert_eq!(state, "problem", "{what}");
    let data = place.data();
    let (_, found) = doctor(&[&arguments(&data, None)[..], &["--new-keys"]].concat());
    assert!(having(&found, "warning").iter().any(|(check, _)| *check == "Keys"), "{found:?}");
    assert!(!place.data().join("audit.key").exists(), "nothing is created");
    // The key of a variable needs no file.
    let (_, found) = doctor_in(&arguments(&place.data(), None), &[("NAGAYA_AUDIT_KEY", key.trim())]);
    assert!(having(&found, "ok").iter().any(|(check, _)| *check == "Keys"), "{found:?}");
}

/// A store that does not open for another reason than its key.
#[test]
fn a_damaged_journal_is_a_problem_of_the_store() {
    let place = Place::new();
    assert_eq!(
        place.found("Store", None),
        ("ok".to_owned(), "there is none yet; `nagaya serve` creates it".to_owned())
    );
    place.create_store(None);
    assert_eq!(place.found("Store", None), ("ok".to_owned(), "it opens".to_owned()));
    let server = serve(&arguments(&place.data(), None), &[]);
    assert_eq!(place.found("Store", None).1, "a server has it open, and answers");
    assert_eq!(server.process.stop(), Some(0));
    for entry in fs::read_dir(place.data().join("data")).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "jnl") {
            fs::remove_file(path).expect("it is ours");
        }
    }
    let (state, what) = place.found("Store", None);
    assert!(state == "problem" && what.contains("its journals are gone"), "{what}");
    let (state, what) = place.found("Encryption at rest", None);
    assert!(state == "unknown" && what.contains("the store was not opened"), "{what}");
}

/// A link lets whoever may change it choose the key.
#[cfg(unix)]
#[test]
fn a_link_in_place_of_a_key_file_is_a_problem() {
    let place = Place::new();
    place.create_store(None);
    for name in ["cursor.key", "audit.key", "log.key"] {
        let (file, elsewhere) = (place.data().join(name), place.0.path().join(name));
        fs::rename(&file, &elsewhere).expect("it is there");
        std::os::unix::fs::symlink(&elsewhere, &file).expect("a link");
        let (state, what) = place.found("Keys", None);
        assert!(state == "problem" && what.contains(name) && what.contains("it is a link"), "{what}");
        let run = nagaya(&[&["serve", "--port", "0"], &arguments(&place.data(), None)[..]].concat());
        assert!(run.status != 0 && run.stderr.contains("it is a link"), "{run}");
        fs::rename(&elsewhere, &file).expect("it is there");
    }
}

/// Keys that `nagaya serve` cannot read.
#[test]
fn a_malformed_key_is_a_problem() {
    let place = Place::new();
    place.create_store(None);
    for name in ["cursor.key", "audit.key", "log.key"] {
        let file = place.data().join(name);
        let kept = fs::read(&file).expect("it is there");
        for damaged in ["", "damaged"] {
            fs::write(&file, damaged).expect("a file");
            let (state, what) = place.found("Keys", None);
            assert_eq!(state, "problem");
            assert!(what.contains(name), "{what}");
        }
        fs::write(&file, kept).expect("a file");
    }
    for variable in ["NAGAYA_CURSOR_KEY", "NAGAYA_AUDIT_KEY"] {
        for wrong in ["", "0f0f"] {
            let (is_fine, found) = doctor_in(&arguments(&place.data(), None), &[(variable, wrong)]);
            let problems = having(&found, "problem");
            let is_named = |(check, what): &(&str, &str)| *check == "Keys" && what.contains(variable);
            assert!(!is_fine && problems.iter().any(is_named), "{problems:?}");
        }
    }
}

/// `nagaya serve` refuses a directory whose operator log goes on with a key that it does not have.
#[test]
fn an_operator_log_with_an_unknown_key_is_a_problem() {
    let place = Place::new();
    let data = place.data();
    let server = serve(&arguments(&data, None), &[]);
    // An entry of the operator log.
    assert_eq!(nagaya(&["events", "verify", "todo", "--data", text(&data)]).status, 0);
    assert_eq!(place.found("Keys", None).0, "ok");
    let another = "1f".repeat(32);
    // A server has the directory open, and answers.
    let (_, found) = doctor_in(&arguments(&data, None), &[("NAGAYA_AUDIT_KEY", &another)]);
    let is_found = |(check, what): &(&str, &str)| *check == "Keys" && what.contains("which is not known here");
    assert!(having(&found, "problem").iter().any(is_found), "{found:?}");
    assert_eq!(server.process.stop(), Some(0));

    fs::write(data.join("audit.key"), another).expect("a file");
    let (state, what) = place.found("Keys", None);
    assert!(state == "problem" && what.contains("the operator log of todo ends with an entry of the key"), "{what}");
    let run = nagaya(&[&["serve", "--port", "0"], &arguments(&data, None)[..]].concat());
    assert_ne!(run.status, 0, "{run}");
    let (_, found) = doctor(&[&arguments(&data, None)[..], &["--new-keys"]].concat());
    assert!(having(&found, "warning").iter().any(is_found), "{found:?}");
}

/// An upgrade would keep an earlier version from opening the directory: `doctor` leaves it as it is.
#[cfg(unix)]
#[test]
fn a_directory_of_an_older_format_is_reported_and_not_upgraded() {
    let place = Place::new();
    let data = place.data();
    let run = |line: &str| std::process::Command::new("sh").args(["-c", line]).status().expect("a shell").success();
    let fixture = root().join("crates/nagaya-embedded/tests/formats/1");
    assert!(run(&format!("cp -R {} {d} && chmod -R u+rwX,go= {d}", fixture.display(), d = data.display())));
    for _ in 0..2 {
        let (state, what) = place.found("Store", None);
        assert!(state == "warning" && what.contains("has format 1"), "{what}");
    }
    assert!(!data.join("acknowledged").exists());
}

/// On a store that servers share, the key of the operator log is derived from that of cursors.
#[cfg(feature = "dynamodb")]
#[test]
fn servers_that_share_a_store_need_the_key_of_cursors() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let key = "0f".repeat(32);
    let state = |variable: &str| {
        // No server answers there; the keys are checked all the same.
        let variables = [
            (variable, &*key),
            ("DYNAMODB_ENDPOINT", "http://127.0.0.1:1"),
            ("AWS_REGION", "local"),
            ("AWS_ACCESS_KEY_ID", "local"),
            ("AWS_SECRET_ACCESS_KEY", "local"),
            ("AWS_MAX_ATTEMPTS", "1"),
        ];
        let (_, found) = doctor_in(&["todo", "--store", "dynamodb", "--data", text(&data)], &variables);
        found.into_iter().find(|(check, ..)| check == "Keys").expect("the section is there").1
    };
    assert_eq!(state("NAGAYA_CURSOR_KEY"), "ok");
    assert_eq!(state("NAGAYA_AUDIT_KEY"), "warning");
}
