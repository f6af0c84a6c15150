//! A running server: metrics, full disks, refused requests and tokens.

use std::process::Command;

use nagaya_testing::{ServeProcess, eventually, send_request};
use serde_json::{Value as Json, json};

use super::{common::nagaya, serve, text};

/// A limit on the file size is an error of the store, not the end of the server.
#[cfg(unix)]
#[test]
fn a_server_that_hits_the_file_size_limit_keeps_answering() {
    let directory = tempfile::tempdir().expect("a directory");
    let args = ["todo", "--data", text(directory.path())];
    // The journal reserves its space when the directory is created.
    assert_eq!(serve(&args, &[]).process.stop(), Some(0));
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 1000; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_nagaya")]);
    let serving = ServeProcess::start(limited, &args);
    let todo = json!({ "title": "x".repeat(200) });
    let made = nagaya(&["token", "--system", "todo", "--tenant", "f1", "--data", text(directory.path())]);
    serving.use_token("todo", &made.stdout);
    let create = |_| serving.send("todo", "POST", "/todos", Some(&todo));
    let refused = (0..5_000).map(create).find(|(status, _)| *status != 201).expect("the files are full at some time");
    // The failed write may have been committed; later ones were not.
    assert!([503, 504].contains(&refused.0), "{refused:?}");
    // Reads are refused only while the store reopens.
    eventually(|| match serving.send("todo", "GET", "/todos", None).0 {
        200 => Ok(()),
        status => Err(status.to_string()),
    });
}

/// The hash of a user in the logs changes, and nothing has to be restarted.
#[cfg(unix)]
#[test]
fn a_running_server_uses_a_rotated_key_of_its_logs() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let mut serving = serve(&["todo", "--data", text(&data), "--log-format", "json"], &[]);
    let mut user = || {
        assert_eq!(serving.send("todo", "GET", "/todos", None).0, 200);
        loop {
            let line = serving.process.stderr_line().expect("a line of the log");
            let line = serde_json::from_str::<Json>(&line).unwrap_or_default();
            if let Some(user) = line["user"].as_str() {
                return user.to_owned();
            }
        }
    };
    let before = user();
    assert_eq!(user(), before);
    let rotated = nagaya(&["keys", "rotate", "log", "--data", text(&data)]);
    assert_eq!(rotated.status, 0, "{rotated}");
    eventually(|| if user() == before { Err(before.clone()) } else { Ok(()) });
}

/// With it nothing is lost: the hashes of users in the logs become others.
#[test]
fn a_server_starts_without_the_key_of_its_logs() {
    let directory = tempfile::tempdir().expect("a directory");
    let start = || serve(&["todo", "--data", text(directory.path())], &[]);
    assert_eq!(start().process.stop(), Some(0));
    std::fs::remove_file(directory.path().join("log.key")).expect("it is there");
    assert_eq!(start().process.stop(), Some(0));
}

#[test]
fn a_403_names_the_roles_that_would_be_accepted() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let serving = serve(&["aiagent", "--data", text(&data)], &[]);
    let run = nagaya(&["token", "--system", "aiagent", "--tenant", "t1", "--data", text(&data)]);
    let api = serving.system("aiagent")["api"].as_str().expect("a URL");
    let (status, refused) = send_request("GET", &format!("{api}/agents"), Some(run.stdout.trim()), None);
    assert_eq!(status, 403, "{refused}");
    assert!(refused["detail"].as_str().is_some_and(|detail| detail.contains("`admin`")), "{refused}");
}

/// The metrics contain what monitoring needs, and their number is bounded.
#[test]
fn the_number_of_metrics_of_all_systems_is_bounded() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let serving = serve(&["--data", text(&data), "--max-requests", "77", "--max-connections", "55"], &[]);
    let url = format!("{}/metrics", serving.admin_url());
    let figures = || send_request("GET", &url, None, None).1.as_str().expect("a text").to_owned();
    let idle = figures();
    assert!(idle.len() < 100_000, "{} bytes", idle.len());

    let (status, made) = serving.send("todo", "POST", "/todos", Some(&json!({ "title": "milk" })));
    assert_eq!(status, 201, "{made}");
    let has = |figures: &str, start: &str| figures.lines().any(|line| line.starts_with(start));
    // The subscription must have run once.
    eventually(|| {
        let figures = figures();
        let lines = [
            "nagaya_requests_in_flight_limit 77",
            "nagaya_connections_limit 55",
            "nagaya_process_open_fds ",
            "nagaya_process_max_fds ",
            "nagaya_process_resident_memory_bytes ",
            r#"nagaya_store_operation_duration_seconds_count{operation="write"} "#,
            "nagaya_store_conflicts_total ",
            r#"nagaya_tenants_over_quota{system="todo"} 0"#,
            r#"nagaya_token_revocations{system="todo"} 0"#,
            r#"nagaya_follower_lag_seconds{follower="todo",system="todo"} "#,
            r#"nagaya_follower_dead_letters{follower="todo",system="todo"} 0"#,
            r#"nagaya_follower_oldest_dead_letter_seconds{follower="todo",system="todo"} 0"#,
            r#"nagaya_follower_lag_seconds{follower="counts_and_search",system="kondate"} "#,
            r#"nagaya_requests_total{system="todo",method="POST",route="/todo/todos",status="2xx"} 1"#,
        ];
        let missing: Vec<_> = lines.into_iter().filter(|line| !has(&figures, line)).collect();
        if missing.is_empty() { Ok(()) } else { Err(format!("{missing:?} are not in\n{figures}")) }
    });
    assert!(!figures().contains("demo"), "no tenant is among them");
}

/// The server has the directory open: the command reaches it through the list beside the keys.
#[test]
fn a_running_server_refuses_a_revoked_token_within_seconds() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let serving = serve(&["todo", "kondate", "--data", text(&data)], &[]);
    let token = |user: &str| {
        let line = ["token", "--system", "todo", "--tenant", "f1", "--user", user, "--json", "--data", text(&data)];
        let run = nagaya(&line);
        serde_json::from_str::<Json>(&run.stdout).unwrap_or_else(|_| panic!("{run}"))
    };
    let api = format!("{}/todos", serving.system("todo")["api"].as_str().expect("a URL"));
    let status = |token: &Json| send_request("GET", &api, token["token"].as_str(), None).0;
    let (ann, bob, cat) = (token("ann"), token("bob"), token("cat"));
    assert_eq!([&ann, &bob, &cat].map(status), [200, 200, 200], "also in the cache from now on");
    let revoke = |subject: &[&str]| {
        let run = nagaya(&[&["token", "revoke", "--system", "todo", "--data", text(&data)], subject].concat());
        assert_eq!(run.status, 0, "{run}");
        run.stdout
    };
    let becomes = |expected: [u16; 3]| {
        eventually(|| match [&ann, &bob, &cat].map(status) {
            statuses if statuses == expected => Ok(()),
            statuses => Err(format!("{statuses:?}")),
        });
    };
    assert!(revoke(&["--user", "ann"]).starts_with("tokens of the user `ann` (local) that were issued before "));
    becomes([401, 200, 200]);
    revoke(&["--jti", bob["tokenId"].as_str().expect("an id")]);
    becomes([401, 401, 200]);
    // Another issuer's user is another person, and older tokens are others.
    revoke(&["--user", "cat", "--issuer", "https://login.example.com"]);
    revoke(&["--tenant", "f1", "--before", "2026-01-31T09:30:00Z"]);
    revoke(&["--tenant", "f1"]);
    becomes([401, 401, 401]);

    let list = |system: &str| {
        let run = nagaya(&["token", "revocations", "--system", system, "--json", "--data", text(&data)]);
        let mut found =
            serde_json::from_str::<Json>(&run.stdout).unwrap_or_else(|_| panic!("{run}"))["revocations"].take();
        found.as_array_mut().expect("a list").iter_mut().for_each(|each| each["issuedBefore"] = json!("…"));
        found
    };
    let expected = json!([
        { "system": "todo", "jti": bob["tokenId"], "issuedBefore": "…" },
        { "system": "todo", "user": "cat", "issuer": "https://login.example.com", "issuedBefore": "…" },
        { "system": "todo", "user": "ann", "issuer": "local", "issuedBefore": "…" },
        { "system": "todo", "tenant": "f1", "issuedBefore": "…" },
    ]);
    assert_eq!((list("todo"), list("kondate")), (expected, json!([])));
    let url = format!("{}/metrics", serving.admin_url());
    eventually(|| {
        let figures = send_request("GET", &url, None, None).1.as_str().expect("a text").to_owned();
        match figures.contains(r#"nagaya_token_revocations{system="todo"} 4"#) {
            true => Ok(()),
            false => Err(figures),
        }
    });
    // A typo creates no list that no server follows.
    let typo = directory.path().join("dtaa");
    let run = nagaya(&["token", "revoke", "--system", "todo", "--tenant", "f1", "--data", text(&typo)]);
    assert!(run.status == 2 && run.stderr.contains("--data") && !typo.exists(), "{run}");
}

/// A server in production has no local issuer: without the name of its issuer nothing would be refused.
#[test]
fn a_user_of_a_production_server_is_not_revoked_without_its_issuer() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let issuer = serve(&["todo", "--store", "memory"], &[]);
    let production = ["todo", "--data", text(&data), "--issuer", issuer.url(), "--audience", "todo", "--behind-proxy"];
    let serving = serve(&production, &[]);
    let revoke = |more: &[&str]| {
        nagaya(&[&["token", "revoke", "--system", "todo", "--data", text(&data), "--user", "u1"], more].concat())
    };
    let run = revoke(&[]);
    assert!(run.status == 2 && run.stderr.contains("give --issuer URL"), "{run}");
    let run = revoke(&["--issuer", issuer.url()]);
    assert!(run.status == 0 && run.stdout.contains(issuer.url()), "{run}");
    drop(serving);
}

/// A directory from development has the keys of its issuer.
#[test]
fn a_production_server_accepts_no_token_of_the_local_issuer_in_its_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let development = serve(&["todo", "--data", text(&data)], &[]);
    let run = nagaya(&["token", "--system", "todo", "--tenant", "f1", "--data", text(&data)]);
    assert_eq!(run.status, 0, "{run}");
    let token = run.stdout.trim();
    let status = |serving: &ServeProcess, token: &str| {
        let api = format!("{}/todos", serving.system("todo")["api"].as_str().expect("a URL"));
        send_request("GET", &api, Some(token), None).0
    };
    assert_eq!(status(&development, token), 200);
    drop(development);

    let elsewhere = directory.path().join("elsewhere");
    let issuer = serve(&["todo", "--data", text(&elsewhere)], &[]);
    let production = ["todo", "--data", text(&data), "--issuer", issuer.url(), "--audience", "todo", "--behind-proxy"];
    let production = serve(&production, &[]);
    assert!(data.join("issuer/keys.json").exists());
    assert_eq!(status(&production, token), 401);
    let run = nagaya(&["token", "--system", "todo", "--tenant", "f1", "--data", text(&elsewhere)]);
    assert_eq!(status(&production, run.stdout.trim()), 200, "a token of its issuer");
}

/// A typo in the directory is reported, and nothing is created there.
#[test]
fn a_token_is_not_issued_for_a_directory_without_keys() {
    let directory = tempfile::tempdir().expect("a directory");
    let typo = directory.path().join("nagaya-dtaa");
    let run = nagaya(&["token", "--system", "todo", "--tenant", "f1", "--data", text(&typo)]);
    assert!(run.status == 2 && run.stdout.is_empty(), "{run}");
    assert!(run.stderr.contains(text(&typo)) && run.stderr.contains("--data"), "{run}");
    assert!(!typo.exists());
}
