//! `nagaya tables`, as an operator uses it, on DynamoDB Local.

mod common;

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    time::{SystemTime, UNIX_EPOCH},
};

use common::{Run, nagaya, nagaya_in};
use nagaya_dynamodb::{Dynamodb, Options, Settings};
use nagaya_store::{Item, KeySchema, Query, StartPosition, Store as _, TableSpec, Write};
use serde_json::{Value, json};

const DESIGNS: [(&str, &str); 5] = [
    ("aiagent-multi", "systems/aiagent/design/multi.toml"),
    ("aiagent-single", "systems/aiagent/design/single.toml"),
    ("kondate", "systems/kondate/design/kondate.toml"),
    ("management", "systems/management/design/management.toml"),
    ("todo", "systems/todo/design/todo.toml"),
];

/// A region and a base name that no other test and no earlier run has used.
///
/// Each region is a separate database in DynamoDB Local: not all designs put the base into the names of their tables,
/// and a database with many tables that expire items never fills a new index.
struct TestTables {
    endpoint: String,
    base: String,
}

impl TestTables {
    fn new(test: &str) -> Self {
        let endpoint = std::env::var("NAGAYA_TEST_DYNAMODB_LOCAL").expect(
            "NAGAYA_TEST_DYNAMODB_LOCAL is not set: run `cargo xtask test`, \
             or `cargo xtask servers` and set the variables it prints",
        );
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        TestTables { endpoint, base: format!("{test}-{nanos:x}") }
    }

    /// Runs `nagaya tables`, with the region and the base name removed from its output.
    fn tables(&self, verb: &str, design: &str, args: &[&str]) -> Run {
        let Run { status, stdout, stderr } = self.run(verb, design, args);
        let normalized = |text: String| text.replace(&self.base, "<base>").replace(&self.endpoint, "<endpoint>");
        Run { status, stdout: normalized(stdout), stderr: normalized(stderr) }
    }

    fn run(&self, verb: &str, design: &str, args: &[&str]) -> Run {
        let fixed = ["tables", verb, design, "--store", "dynamodb", "--base", &self.base];
        let args: Vec<&str> = fixed.iter().chain(args).copied().collect();
        nagaya_in(&args, "", &[("DYNAMODB_ENDPOINT", &self.endpoint), ("AWS_REGION", &self.base)])
    }

    fn json(&self, verb: &str, design: &str, args: &[&str]) -> Value {
        let run = self.run(verb, design, &[args, &["--json"]].concat());
        assert_eq!(run.status, 0, "{run}");
        serde_json::from_str(&run.stdout).expect("--json prints JSON")
    }

    async fn store(&self) -> Dynamodb {
        let settings = Settings { region: Some(self.base.clone()), ..Settings::local(&self.endpoint) };
        Dynamodb::open(&settings, Options::default()).await.expect("a server on this machine needs nothing")
    }
}

/// The requests that a server received: operation and body.
type Requests = Arc<Mutex<Vec<(String, Value)>>>;

/// A server of the DynamoDB API without tables, and the requests that it received.
fn recording_server() -> (String, Requests) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
    let received = Requests::default();
    let noted = Arc::clone(&received);
    let serve = move |mut stream: TcpStream| {
        let mut reader = BufReader::new(stream.try_clone().expect("a handle"));
        loop {
            let head: Vec<_> =
                reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
            let header = |name: &str| {
                let line = head
                    .iter()
                    .find_map(|line| line.split_once(": ").filter(|(key, _)| key.eq_ignore_ascii_case(name)));
                line.map(|(_, value)| value.to_owned())
            };
            let (Some(operation), Some(length)) = (header("x-amz-target"), header("content-length")) else { return };
            let mut body = vec![0; length.parse().expect("a number")];
            reader.read_exact(&mut body).expect("a body");
            let operation = operation.split('.').next_back().unwrap_or_default().to_owned();
            noted.lock().expect("no panic").push((operation, serde_json::from_slice(&body).expect("JSON")));
            let body = r#"{"__type":"com.amazonaws.dynamodb.v20120810#ResourceNotFoundException"}"#;
            let answer = format!("HTTP/1.1 400 Bad Request\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            stream.write_all(answer.as_bytes()).expect("the client reads");
        }
    };
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            std::thread::spawn(move || serve(stream));
        }
    });
    (endpoint, received)
}

/// The key of the operator reaches the request that creates a table, by flag or variable. Other tables have none.
#[test]
fn a_customer_managed_key_is_sent_with_the_tables_that_want_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("desk.toml");
    let design = nagaya(&["new", "desk", "--print"]).stdout;
    let file = file.to_str().expect("text");
    let data = directory.path().join("data");
    let apply = ["tables", "apply", file, "--store", "dynamodb", "--yes"];
    let data = data.to_str().expect("text");
    let serve = ["serve", file, "--store", "dynamodb", "--create-tables", "--listen", "127.0.0.1:0", "--data", data];
    let key_in_request = |command: &[&str], wants: bool, args: &[&str], variables: &[(&str, &str)]| {
        let kms = if wants { "encryption = \"kms\"\n" } else { "" };
        let (before, after) = design.split_once("[table.").expect("a table");
        let (name, after) = after.split_once('\n').expect("its name");
        fs::write(file, format!("{before}[table.{name}\n{kms}{after}")).expect("a file");
        let (endpoint, received) = recording_server();
        let local = [("DYNAMODB_ENDPOINT", endpoint.as_str()), ("AWS_REGION", "local"), ("AWS_MAX_ATTEMPTS", "1")];
        nagaya_in(&[command, args].concat(), "", &[&local[..], variables].concat());
        let received = received.lock().expect("no panic");
        let create = received.iter().find(|(operation, _)| operation == "CreateTable");
        create.unwrap_or_else(|| panic!("{received:?}")).1["SSESpecification"].clone()
    };
    let customer = |id: &str| json!({ "Enabled": true, "SSEType": "KMS", "KMSMasterKeyId": id });
    for command in [&apply[..], &serve] {
        assert_eq!(key_in_request(command, true, &["--kms-key-id", "alias/desk"], &[]), customer("alias/desk"));
        assert_eq!(key_in_request(command, true, &[], &[("NAGAYA_KMS_KEY_ID", "alias/env")]), customer("alias/env"));
        assert_eq!(key_in_request(command, true, &[], &[]), json!({ "Enabled": true, "SSEType": "KMS" }));
        assert_eq!(key_in_request(command, false, &["--kms-key-id", "alias/desk"], &[]), Value::Null);
    }
}

/// Proves the tables' part of A12. Proves the store's part of M1.
#[test]
fn the_tables_of_each_design_are_planned_applied_inspected_and_dropped() {
    for (name, design) in DESIGNS {
        let tables = TestTables::new(name);
        let run = |verb: &str, args: &[&str]| tables.tables(verb, design, args);
        insta::assert_snapshot!(format!("{name}-plan"), run("plan", &[]));

        let pending = run("plan", &["--exit-code"]);
        assert_eq!(pending.status, 1, "{pending}");
        let applied = run("apply", &["--yes"]);
        assert_eq!(applied.status, 0, "{applied}");
        let settled = run("plan", &["--exit-code"]);
        assert_eq!(settled.status, 0, "{settled}");
        assert!(settled.stdout.ends_with("nothing to do\n"), "{settled}");
        // A second run does nothing.
        let again = tables.json("apply", design, &["--yes"]);
        assert_eq!(again["appliedSteps"], 0);
        insta::assert_snapshot!(format!("{name}-status"), run("status", &[]));

        let dropped = run("drop", &["--yes"]);
        assert_eq!(dropped.status, 0, "{dropped}");
        assert_eq!(run("drop", &["--yes"]).stdout, "none of the tables is there\n");
    }
}

/// Proves the store's part of K17.
#[tokio::test]
async fn indexes_are_created_in_stages_and_missing_ones_are_reported() {
    let (tables, design) = (TestTables::new("staged"), "systems/kondate/design/kondate.toml");
    let store = tables.store().await;
    let mut outputs = Vec::new();
    for stage in ["0", "1", "2", "3"] {
        outputs.push(format!("$ plan --stage {stage}\n{}", tables.tables("plan", design, &["--stage", stage])));
        let applied = tables.tables("apply", design, &["--stage", stage, "--yes"]);
        assert_eq!(applied.status, 0, "{applied}");
        outputs.push(format!("$ status\n{}", tables.tables("status", design, &[])));

        // Callers see which indexes are active without a restart.
        let fresh = tables.store().await;
        let planned = tables.json("plan", design, &["--stage", stage]);
        for next in planned["nextIndexes"].as_array().expect("a list") {
            let (table, index) = (next["table"].as_str().expect("a name"), next["index"].as_str().expect("a name"));
            for store in [&store, &fresh] {
                let error = store.query(Query::index(table, index, "x")).await.expect_err("it is not there yet");
                assert_eq!(error.code(), "no_index", "{error}");
                assert_eq!(error.to_string(), format!("the table `{table}` has no index `{index}` yet"));
            }
        }
        for table in tables.json("status", design, &[])["tables"].as_array().expect("a list") {
            for index in table["indexes"].as_array().expect("a list").iter().filter(|index| index["state"] == "active")
            {
                let name = |value: &Value| value.as_str().expect("a name").to_owned();
                for store in [&store, &fresh] {
                    let query = Query::index(name(&table["table"]), name(&index["name"]), "x");
                    store.query(query).await.expect("it is there now");
                }
            }
        }
    }
    // After all stages every index is active.
    outputs.push(format!("$ plan --exit-code\n{}", tables.tables("plan", design, &["--exit-code"])));
    insta::assert_snapshot!("stages", outputs.join("\n\n"));
    assert_eq!(tables.tables("drop", design, &["--yes"]).status, 0);
}

#[tokio::test]
async fn tables_with_items_are_dropped_only_with_the_flag() {
    let (tables, design) = (TestTables::new("filled"), "systems/todo/design/todo.toml");
    assert_eq!(tables.tables("apply", design, &["--yes"]).status, 0);
    let first = tables.json("status", design, &[])["tables"][0]["table"].as_str().expect("a name").to_owned();
    let item = Item::new().with("PK", "TODO#1").with("SK", "EVENT#1");
    tables.store().await.write(Write::put(&first, item).into()).await.expect("a put");

    let mut outputs = Vec::new();
    for args in [&["--yes"][..], &["--drop"], &["--drop", "--yes"], &["--drop", "--yes"]] {
        outputs.push(format!("$ drop {}\n{}", args.join(" "), tables.tables("drop", design, args)));
    }
    insta::assert_snapshot!("drop", outputs.join("\n\n"));
}

#[tokio::test]
async fn tables_that_contradict_the_design_are_reported_and_not_changed() {
    let (tables, design) = (TestTables::new("other"), "systems/todo/design/todo.toml");
    let names = tables.json("plan", design, &[]);
    let name = |at: usize| names["tables"][at]["table"].as_str().expect("a name").to_owned();
    let store = tables.store().await;
    let other = TableSpec::new(name(0), KeySchema::strings("id", "at"))
        .with_index("mine", KeySchema::strings("a", "b"))
        .with_ttl("until");
    store.ensure_tables(&[other]).await.expect("the table is made");

    let mut outputs = vec![format!("$ plan\n{}", tables.tables("plan", design, &[]))];
    outputs.push(format!("$ apply --yes\n{}", tables.tables("apply", design, &["--yes"])));
    insta::assert_snapshot!("conflicts", outputs.join("\n\n"));
    assert_eq!(tables.tables("drop", design, &["--yes"]).status, 0);
}

#[tokio::test]
async fn an_index_that_the_design_does_not_have_stays_unless_pruned() {
    let (tables, design) = (TestTables::new("extra"), "systems/kondate/design/kondate.toml");
    assert_eq!(tables.tables("apply", design, &["--yes"]).status, 0);
    let status = tables.json("status", design, &[]);
    let table = status["tables"][0]["table"].as_str().expect("a name");
    let store = tables.store().await;
    let wide = TableSpec::new(table, KeySchema::strings("PK", "SK"))
        .with_index("mine", KeySchema::strings("a", "b"))
        .with_ttl("expiresAt");
    store.ensure_tables(&[wide]).await.expect("the index is made");

    let mut outputs = Vec::new();
    for (verb, args) in [("plan", &[][..]), ("status", &[]), ("plan", &["--prune"]), ("apply", &["--prune", "--yes"])] {
        outputs.push(format!("$ {verb} {}\n{}", args.join(" "), tables.tables(verb, design, args)));
    }
    insta::assert_snapshot!("prune", outputs.join("\n\n"));
    assert_eq!(tables.tables("plan", design, &["--exit-code"]).status, 0);
    assert_eq!(tables.tables("drop", design, &["--yes"]).status, 0);
}

#[tokio::test]
async fn concurrent_creation_of_the_same_tables_succeeds() {
    let tables = TestTables::new("together");
    let stores = [tables.store().await, tables.store().await, tables.store().await];
    let key = || KeySchema::strings("PK", "SK");
    let narrow = TableSpec::new("together", key()).with_ttl("expiresAt");
    let wide = narrow
        .clone()
        .with_index("GSI1", KeySchema::strings("a", "b"))
        .with_index("GSI2", KeySchema::strings("c", "d"));
    for spec in [narrow, wide] {
        let specs = [spec];
        let (one, two, three) = tokio::join!(
            stores[0].ensure_tables(&specs),
            stores[1].ensure_tables(&specs),
            stores[2].ensure_tables(&specs)
        );
        [one, two, three].into_iter().for_each(|made| made.expect("all want the same"));
    }
    for store in &stores {
        store.query(Query::index("together", "GSI2", "x")).await.expect("it is there");
    }
}

#[tokio::test]
async fn a_table_without_a_stream_is_reported_with_the_remedy() {
    let (tables, design) = (TestTables::new("still"), "systems/kondate/design/kondate.toml");
    assert_eq!(tables.tables("apply", design, &["--yes"]).status, 0);
    let error =
        tables.store().await.changes("MainTable", StartPosition::Oldest, 10).await.expect_err("it has no stream");
    let outputs =
        "the table `MainTable` has no stream: write `stream = true` for it in the design and run `nagaya tables apply`";
    assert_eq!((error.code(), error.to_string().as_str()), ("invalid", outputs));
}

#[test]
fn missing_credentials_are_one_sentence_with_the_remedy() {
    let args = ["tables", "plan", "systems/todo/design/todo.toml", "--store", "dynamodb"];
    let run = nagaya_in(&args, "", &[("AWS_EC2_METADATA_DISABLED", "true"), ("HOME", "/nonexistent")]);
    assert_eq!(run.status, 2, "{run}");
    for part in
        ["there are no AWS credentials", "set AWS_ACCESS_KEY_ID", "set AWS_REGION", "set only DYNAMODB_ENDPOINT"]
    {
        assert!(run.stderr.contains(part), "{run}");
    }
    assert_eq!(run.stderr.lines().count(), 1, "no log lines of the SDK: {run}");
}

#[test]
fn missing_configuration_is_reported() {
    let (tables, design) = (TestTables::new("unasked"), "systems/todo/design/todo.toml");
    insta::assert_snapshot!("unasked", tables.tables("apply", design, &[]));
    let args = ["tables", "plan", design, "--store", "dynamodb"];
    let unreachable = [("DYNAMODB_ENDPOINT", "http://127.0.0.1:9")];
    let run = nagaya_in(&args, "", &unreachable);
    assert_eq!(run.status, 2, "{run}");
    assert_eq!(nagaya(&["tables", "apply", design]).status, 2);
}

#[test]
fn the_base_name_comes_from_the_environment_or_the_design() {
    let (tables, design) = (TestTables::new("base"), "systems/aiagent/design/single.toml");
    let args = ["tables", "plan", design, "--store", "dynamodb", "--json"];
    let first = |variables: &[(&str, &str)]| {
        let run = nagaya_in(&args, "", &[variables, &[("DYNAMODB_ENDPOINT", tables.endpoint.as_str())]].concat());
        let plan: Value = serde_json::from_str(&run.stdout).expect("--json prints JSON");
        plan["tables"][0]["table"].as_str().expect("a name").to_owned()
    };
    assert!(first(&[]).starts_with("aiagent-"), "{}", first(&[]));
    assert!(first(&[("DYNAMODB_TABLE_NAME", "elsewhere")]).starts_with("elsewhere-"));
}
