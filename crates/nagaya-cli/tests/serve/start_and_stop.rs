//! What a server prints and logs when it starts and stops, and why it may not start.

use std::{path::Path, process::Command};

use nagaya_testing::{ServeProcess, eventually, send_request};
use serde_json::Value;

use super::{
    common::{nagaya, nagaya_in},
    serve, text,
};

/// The commands in the banner work when they are pasted into a shell.
#[cfg(unix)]
#[test]
fn the_commands_of_the_banner_work_when_pasted() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("my data");
    for system in ["aiagent", "aiagent-multi", "todo", "kondate", "management", ""] {
        let named: &[&str] = if system.is_empty() { &[] } else { &[system] };
        let mut serving = serve(&[named, &["--data", text(&data), "--log", "off"]].concat(), &[]);
        let mut screen = std::iter::from_fn(|| serving.process.stderr_line());
        let mut next = |start: &str| {
            let found = screen.by_ref().map(|line| line.trim().to_owned()).find(|line| line.starts_with(start));
            found.unwrap_or_else(|| panic!("{system}: no line with {start}"))
        };
        let (curl, token) = (next("curl "), next("TOKEN="));
        let bin = Path::new(env!("CARGO_BIN_EXE_nagaya")).parent().expect("it is in a directory");
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
        let shell =
            Command::new("sh").args(["-c", &format!("{token}; printf %s \"$TOKEN\"")]).env("PATH", path).output();
        let made = String::from_utf8(shell.expect("a shell").stdout).expect("text");
        let url = curl.split(' ').next_back().expect("an address");
        let (status, body) = send_request("GET", url, Some(&made), None);
        assert_eq!(status, 200, "{system}: {token}\n{curl}\n{body}");
    }
    // The keys of a server without a data directory are not on disk.
    let mut serving = serve(&["todo", "--store", "memory", "--log", "off"], &[]);
    // The banner is printed before the first response.
    let url = serving.url();
    assert_eq!(send_request("GET", &format!("{url}/healthz"), None, None).0, 200);
    serving.process.terminate();
    let screen = serving.process.rest_of_stderr();
    assert!(screen.contains("curl ") && !screen.contains("nagaya token"), "{screen}");
}

/// What is printed elsewhere than on a terminal is kept, for example by a log: a token in it would be everybody's.
#[cfg(unix)]
#[test]
fn a_server_without_a_terminal_prints_no_token() {
    let directory = tempfile::tempdir().expect("a directory");
    let store: [&[&str]; 2] = [&["--data", text(directory.path())], &["--store", "memory"]];
    for store in store {
        let mut serving = serve(&[&["todo", "kondate", "--log", "trace"], store].concat(), &[]);
        assert_eq!(serving.system("todo")["tokenCommand"].is_null(), store[0] == "--store", "{}", serving.info);
        serving.process.terminate();
        let (mut stdout, mut line) = (serving.info.to_string(), serving.process.read_line());
        while !line.is_empty() {
            stdout += &line;
            line = serving.process.read_line();
        }
        let stderr = serving.process.rest_of_stderr();
        assert!(stderr.contains("health, readiness and metrics"), "{stderr}");
        // How every token starts: `{"` in Base64.
        for printed in [stdout, stderr] {
            assert!(!printed.contains("eyJ") && !printed.contains("\"token\":"), "{printed}");
        }
    }
}

/// Load balancers see that the server stops before it refuses connections.
#[cfg(unix)]
#[test]
fn a_stopping_server_reports_not_ready_before_it_closes() {
    let directory = tempfile::tempdir().expect("a directory");
    let serving = serve(&["todo", "--data", text(directory.path())], &[("NAGAYA_GRACE", "600")]);
    let url = serving.url();
    let ask = |path: &str| send_request("GET", &format!("{url}{path}"), None, None);
    eventually(|| match ask("/readyz").0 {
        200 => Ok(()),
        status => Err(status.to_string()),
    });
    serving.process.terminate();
    eventually(|| match ask("/readyz") {
        (503, problem) if problem["code"] == "stopping" => Ok(()),
        other => Err(format!("{other:?}")),
    });
    assert_eq!(ask("/healthz").0, 200);
    assert_eq!(serving.send("todo", "GET", "/todos", None).0, 200, "requests are still answered");
}

/// The log lines of a server from start to stop.
#[cfg(unix)]
#[test]
fn a_server_logs_start_readiness_and_stop() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let mut serving = serve(&["--data", text(&data)], &[("NAGAYA_LOG_FORMAT", "json")]);
    let url = serving.url().to_owned();
    eventually(|| match send_request("GET", &format!("{url}/readyz"), None, None).0 {
        200 => Ok(()),
        status => Err(status.to_string()),
    });
    let (mut logged, mut asked) = (Vec::new(), false);
    while let Some(line) = serving.process.stderr_line() {
        let Ok(line) = serde_json::from_str::<Value>(&line) else { continue };
        if line["target"] == "nagaya::server" {
            if line["message"] == "ready" && !asked {
                asked = true;
                serving.process.terminate();
            }
            logged.push(line);
        }
    }
    let messages: Vec<_> = logged.iter().map(|line| line["message"].as_str().expect("a text")).collect();
    assert_eq!(messages, ["started", "ready", "stopping", "stopped"], "{logged:?}");
    let started = &logged[0];
    assert_eq!(started["version"], env!("CARGO_PKG_VERSION"));
    assert!(started["store"].as_str().is_some_and(|store| store.contains(text(&data))), "{started}");
    assert!(url.ends_with(started["address"].as_str().expect("an address")), "{started}");
    assert_eq!(logged[1]["systems"], 5);
    assert!(logged[1]["ms"].is_u64() && logged[3]["ms"].is_u64(), "{logged:?}");
    assert_eq!(serving.process.wait(), Some(0));
}

/// A directory of development may become one of production: tokens that were printed there open nothing any more.
#[test]
fn a_production_server_refuses_tokens_of_its_local_issuer() {
    let directory = tempfile::tempdir().expect("a directory");
    let (data, elsewhere) = (directory.path().join("data"), directory.path().join("issuer"));
    let serving = serve(&["todo", "--data", text(&data)], &[]);
    let local = serving.token("todo");
    assert_eq!(serving.send_with(&local, "todo", "GET", "/todos", None).0, 200);
    assert_eq!(serving.process.stop(), Some(0));

    let issuer = serve(&["todo", "--data", text(&elsewhere)], &[]);
    let production = ["todo", "--data", text(&data), "--issuer", issuer.url(), "--audience", "todo"];
    let serving = serve(&production, &[]);
    assert!(serving.system("todo")["tokenCommand"].is_null());
    let made = nagaya(&["token", "--system", "todo", "--tenant", "demo", "--data", text(&data)]);
    for token in [&local, made.stdout.trim()] {
        assert_eq!(serving.send_with(token, "todo", "GET", "/todos", None).0, 401);
    }
    assert_eq!(serving.send_with(&issuer.token("todo"), "todo", "GET", "/todos", None).0, 200);
}

#[test]
fn a_server_that_cannot_start_reports_the_reason() {
    let check = |args: &[&str], expected: &str| {
        let run = nagaya(args);
        assert_ne!(run.status, 0, "{run}");
        assert!(run.stderr.contains(expected), "{run}");
    };
    check(&["serve", "tudo"], "there is no system `tudo`");
    check(&["serve", "nowhere.toml"], "cannot be read");
    check(
        &["serve", "todo", "--store", "memory", "--listen", "127.0.0.1:0", "--cors-origin", "*"],
        "cannot be allowed",
    );
    check(&["serve", "todo", "--store", "cosmos", "--listen", "127.0.0.1:0"], "no engine for Cosmos DB");
    let issuer = ["--issuer", "https://id.example.com", "--audience", "todo"];
    let elsewhere = ["serve", "todo", "--store", "memory", "--listen", "203.0.113.1:1"];
    check(&[&elsewhere[..], &issuer, &["--behind-proxy"]].concat(), "cannot listen on 203.0.113.1:1");
    // What is for development is refused where others can reach it.
    check(&elsewhere, "--issuer URL");
    check(&[&elsewhere[..], &issuer].concat(), "--tls-cert FILE");
    check(&["serve", "todo", "--store", "memory", "--listen", "127.0.0.1:0", "--production"], "--issuer URL");
    let file = ["--tls-cert", "/nowhere/cert.pem", "--tls-key", "/nowhere/key.pem"];
    check(&[&elsewhere[..], &issuer, &file].concat(), "/nowhere/cert.pem");
    check(
        &[
            "serve",
            "todo",
            "--issuer",
            "http://issuer.example.com",
            "--audience",
            "x",
            "--store",
            "memory",
            "--listen",
            "127.0.0.1:0",
        ],
        "http",
    );
    let issuer = ["serve", "todo", "kondate", "--issuer", "https://issuer.example.com", "--listen", "127.0.0.1:0"];
    let data = tempfile::tempdir().expect("a directory");
    let untouched = data.path().join("data");
    for (audience, expected) in
        [("x", "--audience todo=NAME --audience kondate=NAME"), ("todo=x,kondate=x", "an audience of its own")]
    {
        check(&[&issuer[..], &["--audience", audience, "--data", text(&untouched)]].concat(), expected);
        assert!(!untouched.exists(), "nothing is created before the settings are checked");
    }
    let env = [("DATA_STORE_DRIVER", "paper")];
    let run = nagaya_in(&["serve", "todo"], "", &env);
    assert!(run.status == 2 && run.stderr.contains("paper"), "{run}");
}

/// `nohup nagaya serve` outlives its terminal.
#[cfg(target_os = "linux")]
#[test]
fn a_server_that_was_started_with_nohup_goes_on_after_sighup() {
    let status = |command: Command| {
        let serving = ServeProcess::start(command, &["todo", "--store", "memory"]);
        let id = serving.process.id().to_string();
        let caught = |id: &str| {
            let status = std::fs::read_to_string(format!("/proc/{id}/status")).expect("it runs");
            let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("a mask").trim().to_owned();
            u64::from_str_radix(&mask, 16).expect("a number") & 1 == 1
        };
        let is_caught = caught(&id);
        assert!(Command::new("kill").args(["-HUP", &id]).status().expect("kill runs").success());
        (serving, is_caught)
    };
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' HUP; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_nagaya")]);
    let (serving, is_caught) = status(shell);
    assert!(!is_caught, "the signal stays ignored");
    assert_eq!(send_request("GET", &format!("{}/healthz", serving.url()), None, None).0, 200);
    assert_eq!(serving.process.stop(), Some(0), "SIGTERM stops it");
    // The tests themselves may run with nohup.
    let mut default = Command::new("env");
    default.args(["--default-signal=HUP", env!("CARGO_BIN_EXE_nagaya")]);
    let (mut serving, is_caught) = status(default);
    assert!(is_caught);
    assert_eq!(serving.process.wait(), Some(0), "elsewhere SIGHUP is an orderly stop");
}

/// Nothing else tells before the next start, which is refused.
#[test]
fn a_key_file_that_is_damaged_beside_a_running_server_is_logged_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let serving = serve(&["todo", "kondate", "--data", text(directory.path())], &[]);
    let ask = || {
        for (system, path) in [("todo", "/todos"), ("kondate", "/recipes")] {
            assert_eq!(serving.send(system, "GET", path, None).0, 200, "{system}");
        }
    };
    ask();
    std::fs::write(directory.path().join("log.key"), "broken").expect("a file");
    // The file is read again every second, by each system.
    for _ in 0..40 {
        ask();
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let mut process = serving.process;
    process.terminate();
    let logged = process.rest_of_stderr();
    assert_eq!(logged.matches("log.key holds no key").count(), 1, "{logged}");
}
