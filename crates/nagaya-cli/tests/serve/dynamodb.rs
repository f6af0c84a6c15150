//! Servers whose data is on DynamoDB.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    path::Path,
    sync::{Arc, Mutex},
    time::SystemTime,
};

use nagaya_testing::eventually;
use serde_json::{Value, json};

use super::{
    common::{nagaya, nagaya_in},
    serve, text,
};

/// The environment of a test on DynamoDB Local. Each region is a separate database there.
struct DynamodbLocal {
    endpoint: String,
    region: String,
    base: String,
}

impl DynamodbLocal {
    fn new(name: &str) -> Self {
        let endpoint =
            std::env::var("NAGAYA_TEST_DYNAMODB_LOCAL").expect("run `cargo xtask test`, or `cargo xtask servers`");
        let nanos = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos());
        DynamodbLocal { endpoint, region: format!("{name}-{nanos:x}"), base: format!("base-{nanos:x}") }
    }

    fn variables(&self) -> [(&str, &str); 6] {
        [
            ("DATA_STORE_DRIVER", "dynamo"),
            ("DYNAMODB_ENDPOINT", &self.endpoint),
            ("DYNAMODB_TABLE_NAME", &self.base),
            ("AWS_REGION", &self.region),
            ("AWS_ACCESS_KEY_ID", "local"),
            ("AWS_SECRET_ACCESS_KEY", "local"),
        ]
    }
}

/// A server of the DynamoDB API without tables, and the operations that it received.
fn dynamodb_server_without_tables() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
    let asked = Arc::<Mutex<Vec<String>>>::default();
    let noted = Arc::clone(&asked);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let noted = Arc::clone(&noted);
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
    let key = "0f".repeat(32);
    let with_key = [&env[..], &[("NAGAYA_AUDIT_KEY", &*key)]].concat();
    let run = nagaya_in(&[&["events", "run", "todo"][..], &at].concat(), "", &with_key);
    assert!(run.status == 2 && run.stderr.contains("nagaya tables apply"), "{run}");
    assert!(!run.stderr.contains("--create-tables"), "{run}");
    let asked = asked.lock().expect("no panic").clone();
    assert!(!asked.is_empty() && asked.iter().all(|operation| !operation.contains("createtable")), "{asked:?}");
}

/// A typo in the name must not create new tables and serve an empty system.
#[test]
fn tables_in_the_cloud_are_created_only_with_the_flag() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let local = DynamodbLocal::new("missing");
    let dynamodb = local.variables();
    let design = "systems/aiagent/design/single.toml";
    let status = || nagaya_in(&["tables", "status", design, "--store", "dynamodb", "--json"], "", &dynamodb);
    let before = status();
    let run = nagaya_in(&["serve", "aiagent", "--listen", "127.0.0.1:0", "--data", text(&data)], "", &dynamodb);
    assert_eq!(run.status, 2, "{run}");
    for part in [&format!("`{}-app`", local.base), &local.base, "nagaya tables apply", "--create-tables"] {
        assert!(run.stderr.contains(part), "{part} is not in {run}");
    }
    assert_eq!(status().stdout, before.stdout, "nothing was made");

    let args = ["aiagent", "--data", text(&data), "--create-tables"];
    assert_eq!(serve(&args, &dynamodb).send("aiagent", "GET", "/agents", None).0, 200);
    // Once the tables exist, the flag is not needed.
    assert_eq!(serve(&args[..3], &dynamodb).send("aiagent", "GET", "/agents", None).0, 200);
}

/// Tables that differ from the design are found.
#[test]
fn doctor_compares_the_tables_with_the_design() {
    let directory = tempfile::tempdir().expect("a directory");
    let local = DynamodbLocal::new("doctor");
    let found = || {
        let args = ["doctor", "aiagent", "--json", "--data", text(directory.path())];
        let run = nagaya_in(&args, "", &local.variables());
        let found: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{run}"));
        let found = found["findings"].as_array().expect("a list").clone();
        found.into_iter().find(|each| each["check"] == "Tables").expect("the section is there")
    };
    let missing = found();
    assert_eq!(missing["state"], "problem", "{missing}");
    assert!(missing["found"].as_str().is_some_and(|found| found.contains("differ from the design in")), "{missing}");
    let design = "systems/aiagent/design/single.toml";
    let applied = nagaya_in(&["tables", "apply", design, "--store", "dynamodb", "--yes"], "", &local.variables());
    assert_eq!(applied.status, 0, "{applied}");
    let there = found();
    assert_eq!(there["state"], "ok", "{there}");
}

/// Servers on the same tables have different directories, so the list of revoked tokens is in the tables.
#[test]
fn a_revocation_reaches_all_servers_on_the_same_tables() {
    let directory = tempfile::tempdir().expect("a directory");
    let local = DynamodbLocal::new("revoke");
    let env = local.variables();
    let (one, other) = (directory.path().join("one"), directory.path().join("other"));
    let first = serve(&["aiagent", "--data", text(&one), "--create-tables"], &env);
    let second = serve(&["aiagent", "--data", text(&other)], &env);
    let token = |data: &Path, tenant: &str| {
        let args = ["token", "--system", "aiagent", "--tenant", tenant, "--role", "admin", "--data", text(data)];
        nagaya(&args).stdout.trim().to_owned()
    };
    let tokens = [token(&one, "t1"), token(&one, "t2"), token(&other, "t1"), token(&other, "t2")];
    let statuses = || {
        let servers = [&first, &first, &second, &second];
        let status = |at: usize| servers[at].send_with(&tokens[at], "aiagent", "GET", "/agents", None).0;
        [0, 1, 2, 3].map(status)
    };
    assert_eq!(statuses(), [200; 4]);
    let run = nagaya_in(&["token", "revoke", "--system", "aiagent", "--tenant", "t1"], "", &env);
    assert_eq!(run.status, 0, "{run}");
    eventually(|| match statuses() {
        [401, 200, 401, 200] => Ok(()),
        statuses => Err(format!("{statuses:?}")),
    });
    let run = nagaya_in(&["token", "revocations", "--system", "aiagent", "--json"], "", &env);
    let list: Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(list["revocations"][0]["tenant"], "t1", "{run}");
}

/// Proves A12. Proves K16.
#[test]
fn the_driver_is_chosen_by_the_environment() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let local = DynamodbLocal::new("serve");
    let key = "0f".repeat(32);
    let dynamodb = [&local.variables()[..], &[("NAGAYA_AUDIT_KEY", &*key)]].concat();
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
    assert!(run.status == 0 && run.stdout.contains(&format!("{}-app", local.base)), "{run}");
    // The directory of the embedded store contains nothing of it.
    let run = nagaya(&["store", "stat", "--data", text(&data)]);
    assert!(run.stdout.contains("kondate/MainTable") && !run.stdout.contains("aiagent"), "{run}");
}

/// Proves K18: the recipe is read back from the table on DynamoDB, beside a server.
#[test]
fn the_smoke_test_of_kondate_passes_on_dynamodb() {
    let directory = tempfile::tempdir().expect("a directory");
    let local = DynamodbLocal::new("smoke");
    let env = local.variables();
    let data = text(directory.path());
    let serving = serve(&["kondate", "--create-tables", "--data", data], &env);
    let api = serving.system("kondate")["api"].as_str().expect("a URL");
    let args = ["smoke", "kondate", "--url", api.trim_end_matches("/v1"), "--data", data, "--json"];
    let gone = nagaya_in(&args, "", &env);
    assert_eq!(gone.status, 0, "{gone}");
    let result: Value = serde_json::from_str(&gone.stdout).expect("JSON");
    assert!(
        result["steps"].as_array().is_some_and(|steps| steps.iter().all(|step| step["note"].is_null())),
        "{result:#}"
    );
}
