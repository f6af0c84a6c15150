//! `nagaya serve` and `nagaya token`, as a new user runs them.

mod common;

use std::{fs, io::Read as _, path::Path, process::Command, time::Duration};

use common::{nagaya, nagaya_in};
use nagaya_testing::{ServeProcess, eventually, send};
use serde_json::{Value, json};

fn serve(args: &[&str], env: &[(&str, &str)]) -> ServeProcess {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nagaya"));
    command.envs(env.iter().copied());
    ServeProcess::start(command, args)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("the path is text")
}

/// Proves N4.
#[test]
fn one_command_serves_every_system_with_documentation_and_a_token() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let serving = serve(&["--data", text(&data)], &[]);
    for (name, prefix, list) in [
        ("aiagent", "/aiagent/v1", "/agents"),
        ("aiagent-multi", "/aiagent-multi/v1", "/agents"),
        ("todo", "/todo", "/todos"),
        ("kondate", "/kondate/v1", "/recipes"),
        ("management", "/management/v1", "/files"),
    ] {
        let system = serving.system(name);
        assert!(system["api"].as_str().is_some_and(|api| api.ends_with(prefix)), "{system}");
        let (status, body) = serving.send(name, "GET", list, None);
        assert_eq!((status, &body), (200, &json!({ "data": [] })), "{name}");
        assert_eq!(send("GET", &format!("{}{list}", system["api"].as_str().expect("a URL")), None, None).0, 401);
        let (status, page) = send("GET", system["docs"].as_str().expect("a URL"), None, None);
        assert!(status == 200 && page.as_str().is_some_and(|page| page.contains("<html")), "{name}");
        let (status, document) = send("GET", system["openapi"].as_str().expect("a URL"), None, None);
        assert_eq!((status, &document["openapi"]), (200, &json!("3.1.0")), "{name}");
    }
    let url = serving.url().to_owned();
    assert_eq!(send("GET", &format!("{url}/readyz"), None, None).0, 200);
    // A token is valid for its own system only.
    let token = serving.token("aiagent");
    assert_eq!(send("GET", &format!("{url}/kondate/v1/recipes"), Some(token), None).0, 401);
    assert_eq!(serving.process.stop(), Some(0));
}

/// Acknowledged data is there after a restart, for its own tenant only.
#[test]
fn a_single_system_is_served_at_the_root_and_keeps_its_data() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let at = ["todo", "--data", text(&data)];
    let made = {
        let serving = serve(&at, &[]);
        let (status, body) = serving.send("todo", "POST", "/todos", Some(&json!({ "title": "milk" })));
        assert_eq!(status, 201, "{body}");
        // A second server on the same data names the process that holds it.
        let second = nagaya(&["serve", "todo", "--listen", "127.0.0.1:0", "--data", text(&data)]);
        assert_ne!(second.status, 0);
        assert!(second.stderr.contains(&serving.process.id().to_string()), "{second}");
        assert_eq!(serving.process.stop(), Some(0));
        body["data"].clone()
    };
    let serving = serve(&at, &[]);
    let path = format!("/todos/{}", made["todoId"].as_str().expect("an id"));
    // If the server stopped before the projection was updated, the next one updates it.
    let after = format!("{path}?after={}", made["lastEventId"].as_str().expect("an event"));
    assert_eq!(serving.send("todo", "GET", &after, None), (200, json!({ "data": made })));

    // `nagaya token` prints only a token; the token of another tenant lists nothing.
    let ask = |tenant: &str| {
        let run = nagaya(&["token", "--system", "todo", "--tenant", tenant, "--user", "u", "--data", text(&data)]);
        assert_eq!((run.status, run.stdout.lines().count()), (0, 1), "{run}");
        let url = format!("{}{path}", serving.url());
        send("GET", &url, Some(run.stdout.trim()), None)
    };
    assert_eq!(ask("demo").0, 200);
    let (status, theirs) = ask("demo2");
    assert_eq!((status, &theirs["code"]), (404, &json!("not_found")));
}

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
        let (status, body) = send("GET", url, Some(&made), None);
        assert_eq!(status, 200, "{system}: {token}\n{curl}\n{body}");
    }
    // The keys of a server without a data directory are not on disk.
    let mut serving = serve(&["todo", "--store", "memory", "--log", "off"], &[]);
    // The banner is printed before the first response.
    let url = serving.url();
    assert_eq!(send("GET", &format!("{url}/healthz"), None, None).0, 200);
    serving.process.terminate();
    let screen = serving.process.rest_of_stderr();
    assert!(screen.contains("curl ") && !screen.contains("nagaya token"), "{screen}");
}

/// Load balancers see that the server stops before it refuses connections.
#[cfg(unix)]
#[test]
fn a_stopping_server_reports_not_ready_before_it_closes() {
    let serving = serve(&["todo", "--store", "memory"], &[("NAGAYA_GRACE", "600")]);
    let url = serving.url();
    let ask = |path: &str| send("GET", &format!("{url}{path}"), None, None);
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

/// The log lines of a server from start to stop.
#[cfg(unix)]
#[test]
fn a_server_logs_start_readiness_and_stop() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let mut serving = serve(&["--data", text(&data)], &[("NAGAYA_LOG_FORMAT", "json")]);
    let url = serving.url().to_owned();
    eventually(|| match send("GET", &format!("{url}/readyz"), None, None).0 {
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

#[test]
fn a_403_names_the_roles_that_would_be_accepted() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let serving = serve(&["aiagent", "--data", text(&data)], &[]);
    let run = nagaya(&["token", "--system", "aiagent", "--tenant", "t1", "--data", text(&data)]);
    let api = serving.system("aiagent")["api"].as_str().expect("a URL");
    let (status, refused) = send("GET", &format!("{api}/agents"), Some(run.stdout.trim()), None);
    assert_eq!(status, 403, "{refused}");
    assert!(refused["detail"].as_str().is_some_and(|detail| detail.contains("`admin`")), "{refused}");
}

/// The metrics contain what monitoring needs, and their number is bounded.
#[test]
fn the_number_of_metrics_of_all_systems_is_bounded() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let serving = serve(&["--data", text(&data), "--max-requests", "77", "--max-connections", "55"], &[]);
    let url = format!("{}/metrics", serving.url());
    let figures = || send("GET", &url, None, None).1.as_str().expect("a text").to_owned();
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
            r#"nagaya_follower_lag_seconds{follower="todo",system="todo"} "#,
            r#"nagaya_follower_dead_letters{follower="todo",system="todo"} 0"#,
            r#"nagaya_follower_lag_seconds{follower="counts_and_search",system="kondate"} "#,
            r#"nagaya_requests_total{system="todo",method="POST",route="/todo/todos",status="2xx"} 1"#,
        ];
        let missing: Vec<_> = lines.into_iter().filter(|line| !has(&figures, line)).collect();
        if missing.is_empty() { Ok(()) } else { Err(format!("{missing:?} are not in\n{figures}")) }
    });
    assert!(!figures().contains("demo"), "no tenant is among them");
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

const NOTES: &str = r##"
name    = "notes"
version = "1.0"

[tenant]
field = "teamId"

[table.main]
key = ["PK", "SK"]

[entity.note]
table = "main"
key   = { PK = "TEAM#{teamId}", SK = "NOTE#{noteId}" }

[entity.note.fields]
teamId = { type = "string", min = 1, max = 64 }
noteId = { type = "ulid", default = "new" }
text   = { type = "string", max = 4000 }

[access.notes]
entity = "note"
"##;

#[test]
fn a_custom_design_is_served_and_reloaded_when_it_changes() {
    let directory = tempfile::tempdir().expect("a directory");
    let design = directory.path().join("notes.toml");
    fs::write(&design, NOTES).expect("a file");
    let serving = serve(&[text(&design), "--store", "memory", "--watch"], &[]);
    let post = |body: Value| serving.send("notes", "POST", "/notes", Some(&body));
    assert_eq!(post(json!({ "text": "a" })).0, 201);
    assert_eq!(post(json!({ "text": "a", "pinned": true })).0, 422);

    // A new optional field is not a breaking change.
    let more = format!("{NOTES}\n[entity.note.fields.pinned]\ntype = \"boolean\"\ndefault = false\n");
    let more = more.replace("[access.notes]\nentity = \"note\"\n\n[entity", "[entity")
        + "\n[access.notes]\nentity = \"note\"\n";
    fs::write(&design, &more).expect("a file");
    eventually(|| match post(json!({ "text": "b", "pinned": true })) {
        (201, _) => Ok(()),
        other => Err(format!("{other:?}")),
    });
    let (_, listed) = serving.send("notes", "GET", "/notes", None);
    assert_eq!(listed["data"].as_array().map(Vec::len), Some(2), "what was there still is: {listed}");

    // A breaking change and an invalid design are refused: the API stays unchanged.
    for wrong in [more.replace("NOTE#", "N#"), "name = ".to_owned()] {
        fs::write(&design, wrong).expect("a file");
        std::thread::sleep(Duration::from_millis(1_000));
        assert_eq!(serving.send("notes", "GET", "/notes", None).1["data"].as_array().map(Vec::len), Some(2));
    }
    fs::write(&design, more.replace("max = 4000", "max = 4001")).expect("a file");
    eventually(|| match post(json!({ "text": "x".repeat(4_001) })) {
        (201, _) => Ok(()),
        other => Err(format!("{other:?}")),
    });
}

#[test]
fn seeded_data_is_searchable_and_counted() {
    let dir = tempfile::tempdir().expect("a directory");
    let args = ["seed", "kondate", "--tenants", "2", "--until", "2026-11-12", "--data", text(dir.path())];
    let seeded = nagaya(&args);
    assert_eq!(seeded.status, 0, "{seeded}");

    let serving = serve(&["kondate", "--data", text(dir.path())], &[]);
    let titles = |path: &str| -> Vec<String> {
        let (status, found) = serving.send("kondate", "GET", path, None);
        assert_eq!(status, 200, "{path}: {found}");
        let found = found["data"].as_array().expect("a list").clone();
        found.iter().map(|each| each["title"].as_str().expect("a title").to_owned()).collect()
    };
    // カレー, URL-encoded.
    let curries = titles("/recipes?q=%E3%82%AB%E3%83%AC%E3%83%BC&limit=2");
    assert!(curries.len() == 2 && curries.iter().all(|title| title.contains("カレー")), "{curries:?}");
    // No set has 献立 in its title, and many have 夕食.
    assert!(titles("/sets?q=%E5%A4%95%E9%A3%9F").len() > 3);
    let published = titles("/catalog/recipes?limit=100");
    assert_eq!(published.len(), 20);
    let (_, popular) = serving.send("kondate", "GET", "/catalog/recipes/popular?limit=100", None);
    let counts: Vec<_> = popular["data"].as_array().expect("a list").iter().map(|each| &each["savedCount"]).collect();
    assert!(counts.len() == 20 && *counts[0] == json!(1) && *counts[19] == json!(0), "{counts:?}");

    // Seeded data is like that of the product: users can continue with it.
    let plan = |slot: &str| serving.send("kondate", "GET", &format!("/plans/{slot}"), None).1["data"].clone();
    let cooked =
        plan("CURRENT")["items"].as_array().expect("a list").iter().filter(|item| item["cooked"] == true).count();
    assert_eq!(cooked, 6, "Monday to Wednesday");
    let logs =
        || serving.send("kondate", "GET", "/cooklogs?date=2026-11&limit=100", None).1["data"].as_array().map(Vec::len);
    let (before, next) = (logs().expect("a list"), plan("NEXT"));
    let (status, promoted) = serving.send("kondate", "POST", "/plans/promote", None);
    assert_eq!((status, &promoted["data"]["items"]), (200, &next["items"]), "{promoted}");
    assert_eq!(logs(), Some(before + cooked));
    let offer = serving.send("kondate", "GET", "/catalog/recipes?limit=1", None).1["data"][0].clone();
    let own = offer["creatorId"] == "demo";
    let path = format!("/recipes/{}/publish", offer["recipeId"].as_str().expect("an id"));
    assert_eq!(serving.send("kondate", "POST", &path, Some(&json!({}))).0, if own { 200 } else { 404 });
    let (status, asked) = serving.send("kondate", "POST", "/subscription/refresh", None);
    assert_eq!((status, &asked["data"]["provider"]), (200, &json!("local")), "{asked}");
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
    check(&["serve", "todo", "--store", "memory", "--listen", "203.0.113.1:1"], "cannot listen on 203.0.113.1:1");
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
    let env = [("DATA_STORE_DRIVER", "paper")];
    let run = nagaya_in(&["serve", "todo"], "", &env);
    assert!(run.status == 2 && run.stderr.contains("paper"), "{run}");
}

/// A server of the DynamoDB API without tables, and the operations that it received.
#[cfg(feature = "dynamodb")]
fn dynamodb_server_without_tables() -> (String, std::sync::Arc<std::sync::Mutex<Vec<String>>>) {
    use std::io::Write as _;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
    let asked = std::sync::Arc::<std::sync::Mutex<Vec<String>>>::default();
    let noted = std::sync::Arc::clone(&asked);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let noted = std::sync::Arc::clone(&noted);
            std::thread::spawn(move || {
                let mut buffer = [0; 65_536];
                while let Ok(read @ 1..) = stream.read(&mut buffer) {
                    let head = String::from_utf8_lossy(&buffer[..read]).to_lowercase();
                    let operation = head.split("x-amz-target:").nth(1).and_then(|rest| rest.split_whitespace().next());
                    noted.lock().expect("no panic").push(operation.unwrap_or_default().to_owned());
                    let body = r#"{"__type":"com.amazonaws.dynamodb.v20120810#ResourceNotFoundException"}"#;
                    let length = body.len();
                    let answer = format!("HTTP/1.1 400 Bad Request\r\nContent-Length: {length}\r\n\r\n{body}");
                    if stream.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (endpoint, asked)
}

#[cfg(feature = "dynamodb")]
#[test]
fn a_wrong_table_name_is_reported_and_creates_no_tables() {
    let (endpoint, asked) = dynamodb_server_without_tables();
    let directory = tempfile::tempdir().expect("a directory");
    let env = [("DYNAMODB_ENDPOINT", endpoint.as_str()), ("DYNAMODB_TABLE_NAME", "prodd")];
    let at = ["--store", "dynamodb", "--data", text(directory.path())];
    let run = nagaya_in(&[&["serve", "aiagent", "--listen", "127.0.0.1:0"][..], &at].concat(), "", &env);
    assert_eq!(run.status, 2, "{run}");
    for part in ["`prodd-app`", "DYNAMODB_TABLE_NAME", "nagaya tables apply", "--create-tables"] {
        assert!(run.stderr.contains(part), "{part} is not in {run}");
    }
    // Commands without the flag do not mention it.
    let run = nagaya_in(&[&["events", "run", "todo"][..], &at].concat(), "", &env);
    assert!(run.status == 2 && run.stderr.contains("nagaya tables apply"), "{run}");
    assert!(!run.stderr.contains("--create-tables"), "{run}");
    let asked = asked.lock().expect("no panic").clone();
    assert!(!asked.is_empty() && asked.iter().all(|operation| !operation.contains("createtable")), "{asked:?}");
}

/// A typo in the name must not create new tables and serve an empty system.
#[cfg(feature = "dynamodb")]
#[test]
fn tables_in_the_cloud_are_created_only_with_the_flag() {
    let endpoint =
        std::env::var("NAGAYA_TEST_DYNAMODB_LOCAL").expect("run `cargo xtask test`, or `cargo xtask servers`");
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let nanos = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos());
    let (region, base) = (format!("missing-{nanos:x}"), format!("typo-{nanos:x}"));
    let dynamodb = [
        ("DATA_STORE_DRIVER", "dynamo"),
        ("DYNAMODB_ENDPOINT", endpoint.as_str()),
        ("DYNAMODB_TABLE_NAME", base.as_str()),
        ("AWS_REGION", region.as_str()),
        ("AWS_ACCESS_KEY_ID", "local"),
        ("AWS_SECRET_ACCESS_KEY", "local"),
    ];
    let design = "systems/aiagent/design/single.toml";
    let status = || nagaya_in(&["tables", "status", design, "--store", "dynamodb", "--json"], "", &dynamodb);
    let before = status();
    let run = nagaya_in(&["serve", "aiagent", "--listen", "127.0.0.1:0", "--data", text(&data)], "", &dynamodb);
    assert_eq!(run.status, 2, "{run}");
    for part in [&format!("`{base}-app`"), &base, "nagaya tables apply", "--create-tables"] {
        assert!(run.stderr.contains(part), "{part} is not in {run}");
    }
    assert_eq!(status().stdout, before.stdout, "nothing was made");

    let args = ["aiagent", "--data", text(&data), "--create-tables"];
    assert_eq!(serve(&args, &dynamodb).send("aiagent", "GET", "/agents", None).0, 200);
    // Once the tables exist, the flag is not needed.
    assert_eq!(serve(&args[..3], &dynamodb).send("aiagent", "GET", "/agents", None).0, 200);
}

/// Proves A12. Proves K16.
#[cfg(feature = "dynamodb")]
#[test]
fn the_driver_is_chosen_by_the_environment() {
    let endpoint =
        std::env::var("NAGAYA_TEST_DYNAMODB_LOCAL").expect("run `cargo xtask test`, or `cargo xtask servers`");
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    // Each region is a separate database in DynamoDB Local; credentials and region come from the environment.
    let nanos = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos());
    let (region, base) = (format!("serve-{nanos:x}"), format!("base-{nanos:x}"));
    let dynamodb = [
        ("DATA_STORE_DRIVER", "dynamo"),
        ("DYNAMODB_ENDPOINT", endpoint.as_str()),
        ("DYNAMODB_TABLE_NAME", base.as_str()),
        ("AWS_REGION", region.as_str()),
        ("AWS_ACCESS_KEY_ID", "local"),
        ("AWS_SECRET_ACCESS_KEY", "local"),
    ];
    let file = [("DATA_STORE_DRIVER", "file")];
    for (system, env) in [("aiagent", &dynamodb[..]), ("kondate", &dynamodb[..]), ("kondate", &file[..])] {
        let (list, title) = if system == "kondate" { ("/recipes", "title") } else { ("/agents", "name") };
        // The seed command creates the tables too.
        let args = ["seed", system, "--tenants", "1", "--items", "2", "--data", text(&data)];
        let run = nagaya_in(&args, "", env);
        assert_eq!(run.status, 0, "{run}");
        let serving = serve(&[system, "--data", text(&data)], env);
        let (status, made) = serving.send(system, "POST", list, Some(&json!({ title: "made here" })));
        assert_eq!(status, 201, "{made}");
        let (_, listed) = serving.send(system, "GET", list, None);
        assert_eq!(listed["data"].as_array().map(Vec::len), Some(3), "{system}: {listed}");
    }
    // The tables are at the endpoint and under the base name of the environment.
    let args = ["tables", "status", "systems/aiagent/design/single.toml", "--store", "dynamodb", "--json"];
    let run = nagaya_in(&args, "", &dynamodb);
    assert!(run.status == 0 && run.stdout.contains(&format!("{base}-app")), "{run}");
    // The directory of the embedded store contains nothing of it.
    let run = nagaya(&["store", "stat", "--data", text(&data)]);
    assert!(run.stdout.contains("kondate/MainTable") && !run.stdout.contains("aiagent"), "{run}");
}

/// Proves K18 in memory and on the embedded store.
#[test]
fn the_smoke_test_of_kondate_passes() {
    let alone = nagaya(&["smoke", "kondate", "--json"]);
    assert_eq!(alone.status, 0, "{alone}");
    let result: Value = serde_json::from_str(&alone.stdout).expect("JSON");
    let steps = result["steps"].as_array().expect("steps");
    assert!(steps.len() > 15 && steps.iter().all(|step| step["ok"] == true && step["note"].is_null()), "{result:#}");

    // With other systems it is served below its name, and the server holds its directory.
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let serving = serve(&["--data", text(&data)], &[]);
    let api = serving.system("kondate")["api"].as_str().expect("a URL");
    let url = api.trim_end_matches("/kondate/v1");
    let beside = nagaya(&["smoke", "kondate", "--url", url, "--data", text(&data)]);
    assert_eq!(beside.status, 0, "{beside}");
    assert_eq!(beside.stdout.lines().filter(|line| line.trim_start().starts_with("skipped")).count(), 1, "{beside}");
    assert!(beside.stderr.contains("steps, 1 skipped, all others fine"), "{beside}");
    // It removes everything that it created.
    assert_eq!(serving.send("kondate", "GET", "/catalog/recipes", None), (200, json!({ "data": [] })));

    // The token of another system is refused, and the output names the step that failed.
    let other = serving.token("todo").to_owned();
    let refused = nagaya(&["smoke", "kondate", "--url", url, "--token", &other]);
    assert_eq!(refused.status, 1, "{refused}");
    assert!(
        refused.stderr.contains("failed at: the users have nothing") && refused.stderr.contains("401"),
        "{refused}"
    );
}

/// Proves the part of K18 that leaves real users alone.
#[test]
fn the_smoke_test_refuses_a_user_with_data() {
    let directory = tempfile::tempdir().expect("a directory");
    let serving = serve(&["kondate", "--data", text(directory.path())], &[]);
    let system = serving.system("kondate");
    let url = system["api"].as_str().expect("a URL").trim_end_matches("/v1");
    let token = system["token"].as_str().expect("a token");
    let go = || nagaya(&["smoke", "kondate", "--url", url, "--token", token]);
    let skipped = |output: &str| output.lines().filter(|line| line.trim_start().starts_with("skipped")).count();

    // A user without data can run it repeatedly; steps for two users are skipped.
    for _ in 0..2 {
        let gone = go();
        assert_eq!(gone.status, 0, "{gone}");
        assert_eq!(skipped(&gone.stdout), 3, "{gone}");
        assert!(gone.stderr.contains("steps, 3 skipped, all others fine"), "{gone}");
        for list in ["/plans", "/recipes", "/fridge-deleted-items", "/notifications"] {
            assert_eq!(serving.send("kondate", "GET", list, None), (200, json!({ "data": [] })), "{list}");
        }
    }

    // A user with data cannot, and keeps the data.
    for (list, body, item) in [
        ("/plans", json!({ "slot": "NEXT", "items": [{ "title": "鍋" }] }), "/plans/NEXT"),
        ("/profile", json!({ "displayName": "澪" }), "/profile"),
        ("/recipes", json!({ "title": "鍋" }), ""),
    ] {
        let (status, made) = serving.send("kondate", "POST", list, Some(&body));
        assert_eq!(status, 201, "{made}");
        let refused = go();
        assert_eq!(refused.status, 1, "{refused}");
        let why = format!("the user of the token has data ({list}): use a user made for this");
        assert!(refused.stderr.contains(&why), "{refused}");
        assert_eq!(refused.stdout.lines().count(), 1, "{refused}");
        let recipe = format!("/recipes/{}", made["data"]["recipeId"].as_str().unwrap_or_default());
        let item = if item.is_empty() { recipe.as_str() } else { item };
        let (status, there) = serving.send("kondate", "GET", item, None);
        assert_eq!((status, &there["data"]), (200, &made["data"]), "{there}");
        assert_eq!(serving.send("kondate", "DELETE", item, None).0, 204);
    }
}

#[test]
fn a_smoke_test_that_cannot_run_reports_the_reason() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = text(directory.path());
    let unknown = nagaya(&["smoke", "todo"]);
    assert!(unknown.status != 0 && unknown.stderr.contains("available: kondate"), "{unknown}");
    let keyless = nagaya(&["smoke", "kondate", "--url", "http://127.0.0.1:1", "--data", data]);
    assert!(keyless.status != 0 && keyless.stderr.contains("name --data, or give a --token"), "{keyless}");
    let nowhere = nagaya(&["smoke", "kondate", "--url", "http://127.0.0.1:1", "--token", "x"]);
    assert!(nowhere.status != 0 && nowhere.stderr.contains("http://127.0.0.1:1 cannot be reached"), "{nowhere}");
}

/// Proves K18: the recipe is read back from the table on DynamoDB, beside a server.
#[cfg(feature = "dynamodb")]
#[test]
fn the_smoke_test_of_kondate_passes_on_dynamodb() {
    let endpoint =
        std::env::var("NAGAYA_TEST_DYNAMODB_LOCAL").expect("run `cargo xtask test`, or `cargo xtask servers`");
    let directory = tempfile::tempdir().expect("a directory");
    // Each region is a separate database in DynamoDB Local.
    let nanos = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos());
    let region = format!("smoke-{nanos:x}");
    let env = [
        ("DATA_STORE_DRIVER", "dynamo"),
        ("DYNAMODB_ENDPOINT", endpoint.as_str()),
        ("AWS_REGION", region.as_str()),
        ("AWS_ACCESS_KEY_ID", "local"),
        ("AWS_SECRET_ACCESS_KEY", "local"),
        ("NAGAYA_DATA", text(directory.path())),
    ];
    let serving = serve(&["kondate", "--create-tables"], &env);
    let api = serving.system("kondate")["api"].as_str().expect("a URL");
    let gone = nagaya_in(&["smoke", "kondate", "--url", api.trim_end_matches("/v1"), "--json"], "", &env);
    assert_eq!(gone.status, 0, "{gone}");
    let result: Value = serde_json::from_str(&gone.stdout).expect("JSON");
    assert!(
        result["steps"].as_array().is_some_and(|steps| steps.iter().all(|step| step["note"].is_null())),
        "{result:#}"
    );
}
