//! What `nagaya doctor` finds about files, keys and settings.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    path::Path,
    process::Command,
};

use serde_json::Value as Json;

use super::{doctor, doctor_in, having, set_mode};
use crate::{
    common::{nagaya, nagaya_in, root},
    serve, text,
};

/// What is found about a section, with its state.
fn found(section: &str, args: &[&str]) -> Vec<(String, String)> {
    let (_, found) = doctor(args);
    found.into_iter().filter(|(check, ..)| check == section).map(|(_, state, what)| (state, what)).collect()
}

#[track_caller]
fn check(section: &str, args: &[&str], state: &str, words: &str) {
    let found = found(section, args);
    let is_it = |(found, what): &(String, String)| found == state && what.contains(words);
    assert!(found.iter().any(is_it), "{found:?}");
}

#[test]
fn a_data_directory_that_is_a_file_is_a_problem() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file");
    fs::write(&file, "").expect("a file");
    check("Files", &["todo", "--data", text(&file)], "problem", "is a file, not a directory");
    check("Files", &["todo", "--data", text(&file.join("data"))], "problem", "is a file");
    check("Files", &["todo", "--data", text(&directory.path().join("a/b"))], "ok", "is created");
}

/// Files that only root could make are made by root; others find such files on every machine.
#[cfg(unix)]
#[test]
fn files_of_another_user_are_a_problem() {
    use std::os::unix::fs::{MetadataExt as _, chown};
    const NOBODY: u32 = 65_534;
    let directory = tempfile::tempdir().expect("a directory");
    let is_root = fs::metadata(directory.path()).expect("it is there").uid() == 0;
    if !is_root {
        check("Files", &["todo", "--data", "/etc"], "problem", "another user owns");
        return check("Files", &["todo", "--data", "/etc/nagaya/data"], "problem", "cannot be created");
    }
    let data = directory.path().join("data");
    assert_eq!(serve(&["todo", "--data", text(&data)], &[]).process.stop(), Some(0));
    check("Files", &["todo", "--data", text(&data)], "ok", "only their owner");
    let key = data.join("cursor.key");
    chown(&key, Some(NOBODY), None).expect("root may");
    check("Files", &["todo", "--data", text(&data)], "problem", "cursor.key");
    // The store is not opened then: that could leave files of this user.
    check("Store", &["todo", "--data", text(&data)], "unknown", "correct the files first");
    check("Encryption at rest", &["todo", "--data", text(&data)], "unknown", "was not opened");
    chown(&key, Some(0), None).expect("root may");
    chown(&data, Some(NOBODY), None).expect("root may");
    check("Files", &["todo", "--data", text(&data)], "problem", "another user owns");

    let outside = directory.path().join("store.key");
    fs::write(&outside, "0f".repeat(32)).expect("a file");
    set_mode(&outside, 0o600);
    chown(&outside, Some(NOBODY), None).expect("root may");
    let new = directory.path().join("new");
    let args = ["todo", "--data", text(&new), "--encryption-key-file", text(&outside)];
    check("Encryption at rest", &args, "problem", "another user owns");
}

#[cfg(unix)]
#[test]
fn a_secret_key_that_others_can_read_is_a_warning() {
    let directory = tempfile::tempdir().expect("a directory");
    let fixture = |name: &str| root().join("crates/nagaya-server/tests/limits/tls").join(name);
    let (data, key, tls_key) =
        (directory.path().join("data"), directory.path().join("store.key"), directory.path().join("tls.key"));
    let certificate = fixture("server.pem");
    fs::write(&key, "0f".repeat(32)).expect("a file");
    fs::copy(fixture("server.key.pem"), &tls_key).expect("a copy");
    let args = ["todo", "--data", text(&data), "--encryption-key-file", text(&key)];
    let args = [&args[..], &["--tls-cert", text(&certificate), "--tls-key", text(&tls_key)]].concat();
    for (mode, is_open) in [(0o600, false), (0o640, true), (0o604, true)] {
        set_mode(&key, mode);
        set_mode(&tls_key, mode);
        for section in ["Encryption at rest", "TLS"] {
            let is_warned = found(section, &args).iter().any(|(state, _)| state == "warning");
            assert_eq!(is_warned, is_open, "{section} {mode:o}");
        }
    }
}

#[test]
fn settings_that_are_not_safe_are_found() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let args = |more: &[&'static str]| [&["todo", "--data", text(&data)], more].concat();
    let same = args(&["--listen", "127.0.0.1:7", "--admin-listen", "127.0.0.1:7"]);
    check("Admin listener", &same, "problem", "the same port");
    let any = args(&["--listen", ":7", "--admin-listen", "127.0.0.1:7"]);
    check("Admin listener", &any, "problem", "the same port");
    check("Admin listener", &args(&["--admin-listen", "127.0.0.1:7"]), "ok", "");
}

#[test]
fn tokens_and_keys_may_live_for_seven_days() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let given = |flags: &[&'static str]| [&["todo", "--data", text(&data)], flags].concat();
    check("Age of tokens and keys", &given(&["--max-token-age", "7d", "--max-key-age", "7d"]), "ok", "");
    for (flag, what) in [("--max-token-age", "a stolen token"), ("--max-key-age", "keys are trusted")] {
        for (age, how_long) in [("8d", "for 8 days"), ("0s", "for ever")] {
            let warnings = found("Age of tokens and keys", &given(&[flag, age]));
            let [(state, text)] = warnings.as_slice() else { panic!("{flag} {age}: {warnings:?}") };
            assert_eq!(state, "warning", "{flag} {age}");
            assert!(text.contains(what) && text.contains(how_long), "{flag} {age}: {text}");
        }
    }
}

/// The server raises the soft limit to the hard one when it starts.
#[cfg(unix)]
#[test]
fn the_hard_limit_of_open_files_counts() {
    let state = |limit: &str| {
        let line = format!("{limit} && exec \"$0\" doctor todo --store memory --json");
        let output = Command::new("sh").args(["-c", &line, env!("CARGO_BIN_EXE_nagaya")]).output().expect("a shell");
        let found: Json = serde_json::from_slice(&output.stdout).expect("JSON");
        let found = found["findings"].as_array().expect("a list").iter().find(|each| each["check"] == "Limits");
        found.expect("the section is there")["state"].clone()
    };
    assert_eq!(state("ulimit -Sn 1024 && ulimit -Hn 5000"), "ok");
    assert_eq!(state("ulimit -Sn 1024 && ulimit -Hn 1024"), "warning");
}

/// Whether the store is encrypted is for the check of the encryption. What else an engine ignores is explained in the design, or
/// shown by the command that is named.
#[test]
fn settings_that_an_engine_ignores_are_found_where_they_are() {
    let directory = tempfile::tempdir().expect("a directory");
    let (data, design) = (directory.path().join("data"), directory.path().join("desk.toml"));
    for system in ["aiagent", "aiagent-multi", "management", "kondate", "todo"] {
        check("Designs", &[system, "--data", text(&data)], "ok", "has no warnings without an explanation");
    }
    check("Encryption at rest", &["aiagent", "--data", text(&data)], "problem", "want encrypted tables");
    let new = nagaya(&["new", "desk", "--print"]).stdout;
    let (before, after) = new.split_once("[table.").expect("a table");
    let (name, after) = after.split_once('\n').expect("its name");
    let both = "encryption = \"kms\"\nconsistency = \"session\"";
    fs::write(&design, format!("{before}[table.{name}\n{both}\n{after}")).expect("a file");
    check("Designs", &[text(&design), "--data", text(&data)], "warning", "NG0906");
    let run = nagaya(&["doctor", text(&design), "--data", text(&data)]);
    let named = format!("nagaya check {} --engine embedded", text(&design));
    assert!(run.stdout.contains(&named), "{run}");
    let shown = nagaya(&["check", text(&design), "--engine", "embedded"]);
    assert!(shown.stderr.contains("NG0906"), "{shown}");
}

#[test]
fn settings_of_proxies_and_pages_of_other_origins_are_verified() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let args = |more: &[&'static str]| [&["todo", "--data", text(&data)], more].concat();
    check("Proxies", &args(&["--behind-proxy"]), "ok", "1 trusted");
    check("Proxies", &args(&["--behind-proxy", "--trusted-proxies", "0"]), "warning", "all clients share it");
    check("Proxies", &args(&["--trusted-proxies", "1"]), "warning", "can choose its address");
    check("Proxies", &args(&["--behind-proxy", "--trusted-proxies", "1"]), "ok", "1 trusted");
    check("CORS", &args(&["--cors-origin", "*"]), "problem", "cannot be allowed");
    check("CORS", &args(&["--cors-origin", "https://app.example.com"]), "ok", "https://app.example.com");
    let plain = ["--cors-origin", "https://app.example.com", "--cors-origin", "http://app.example.com"];
    check("CORS", &args(&plain), "warning", "http://app.example.com");
    check("CORS", &args(&[&plain[..], &["--cors-credentials"]].concat()), "problem", "may send cookies");
    check("Limits", &args(&["--tenant-rates", "acme=0,beta=5"]), "warning", "`acme`");
    check("Admin listener", &args(&["--admin-listen", "0.0.0.0:9"]), "warning", "others can reach");
}

#[cfg(unix)]
#[test]
fn a_link_in_the_place_of_the_data_directory_is_a_problem() {
    let directory = tempfile::tempdir().expect("a directory");
    let link = directory.path().join("link");
    fs::create_dir(directory.path().join("real")).expect("a folder");
    std::os::unix::fs::symlink(directory.path().join("real"), &link).expect("a link");
    for data in [link.clone(), link.join("")] {
        check("Files", &["todo", "--data", text(&data)], "problem", "is a link");
        let run = nagaya(&["serve", "todo", "--listen", "127.0.0.1:0", "--data", text(&data)]);
        assert!(run.status != 0 && run.stderr.contains("is a link"), "{run}");
    }
}

#[test]
fn a_disk_that_is_nearly_full_is_found() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let found_with =
        |least: u64| found("Disk space", &["todo", "--data", text(&data), "--min-free-space", &least.to_string()]);
    let free = nagaya::embedded::available_bytes(directory.path()).expect("it is known here");
    // Other tests use the disk too.
    for (least, state) in [(0, "warning"), (1, "ok"), (free / 4 * 3, "warning"), (free.saturating_mul(4), "problem")] {
        assert_eq!(found_with(least)[0].0, state, "{least} of {free}");
    }
}

/// Neither `doctor` nor the refusal of `serve` shows a secret of the settings.
#[test]
fn secrets_in_settings_are_not_shown() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    for settings in [
        &["--encryption-key-command", "echo s3cret; exit 3"][..],
        &["--encryption-key-command", "echo s3cret"],
        &["--issuer", "https://ann:s3cret@id.example.com", "--audience", "todo"],
        &["--public-url", "http://ann:s3cret@127.0.0.1:1"],
    ] {
        for command in ["doctor", "serve"] {
            // A public URL with a password is no reason to refuse.
            if command == "serve" && settings[0] == "--public-url" {
                continue;
            }
            let run = nagaya(&[&[command, "todo", "--port", "1", "--data", text(&data)], settings].concat());
            assert_ne!(run.status, 0, "{run}");
            assert!(!run.to_string().contains("s3cret"), "{run}");
        }
    }
}

/// A variable that is set to nothing is not set.
#[test]
fn an_empty_variable_is_as_good_as_unset() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let variables = [("NAGAYA_ENCRYPTION_KEY_FILE", ""), ("NAGAYA_TLS_CERT", ""), ("NAGAYA_ADMIN_LISTEN", "")];
    let (_, found) = doctor_in(&["todo", "--data", text(&data)], &variables);
    assert!(having(&found, "warning").contains(&("Encryption at rest", "the store is not encrypted")), "{found:?}");
    // Without an issuer a server is for development: nobody wants that by mistake.
    let run = nagaya_in(&["serve", "todo", "--data", text(&data)], "", &[("NAGAYA_ISSUER", "")]);
    assert_ne!(run.status, 0, "{run}");
    assert!(!Path::new(&data).exists(), "{run}");
}

/// Another program that has the port of the admin listener, and says yes to everything.
#[test]
fn another_program_on_the_admin_port_is_not_the_server() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
        }
    });
    let args = ["todo", "--data", text(&data), "--admin-listen", &address];
    check("Running server", &args, "unknown", "is not the admin listener");
}
