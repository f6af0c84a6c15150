//! A system as AWS Lambda functions: the binary against a simulated Lambda runtime API, on DynamoDB Local.

mod common;

use std::{
    fs::{self, File},
    io::{BufReader, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, SystemTime},
};

use common::{Run, nagaya, nagaya_in, root};
use nagaya_dynamodb::{Dynamodb, Options, Settings};
use nagaya_store::{Item, Scan, Store as _, Value as Stored, Write};
use nagaya_testing::ServeProcess;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The key of the operator log and of cursors.
const KEY: &str = "0f0e0d0c0b0a09080706050403020100000102030405060708090a0b0c0d0e0f";
/// The trace of all invocations.
const TRACE: &str = "1-5bef4de7-ad49b0e87f6ef6c87fc2e700";

/// A database of DynamoDB Local of its own.
struct Local {
    settings: Settings,
}

impl Local {
    /// With the tables of a system.
    fn with_tables(system: &str) -> Self {
        let endpoint =
            std::env::var("NAGAYA_TEST_DYNAMODB_LOCAL").expect("run `cargo xtask test`, or `cargo xtask servers`");
        let nanos = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos());
        // Each region is a separate database.
        let region = Some(format!("lambda-{system}-{nanos:x}"));
        let local = Local { settings: Settings { region, ..Settings::local(endpoint) } };
        let design = format!("systems/{system}/design/{system}.toml");
        let made = local.nagaya(&["tables", "apply", &design, "--store", "dynamodb", "--yes"]);
        assert_eq!(made.status, 0, "{made}");
        local
    }

    fn variables(&self) -> Vec<(&str, &str)> {
        vec![
            ("DATA_STORE_DRIVER", "dynamodb"),
            ("DYNAMODB_ENDPOINT", self.settings.endpoint.as_deref().expect("an endpoint")),
            ("AWS_REGION", self.settings.region.as_deref().expect("a region")),
            ("AWS_ACCESS_KEY_ID", "local"),
            ("AWS_SECRET_ACCESS_KEY", "local"),
            ("NAGAYA_AUDIT_KEY", KEY),
        ]
    }

    /// Runs a command on it.
    fn nagaya(&self, args: &[&str]) -> Run {
        nagaya_in(args, "", &self.variables())
    }

    async fn store(&self) -> Dynamodb {
        Dynamodb::open(&self.settings, Options::default()).await.expect("it is there")
    }

    /// The items of a table as the records of its stream when they were created.
    async fn created_records(&self, table: &str) -> Vec<Value> {
        let page = self.store().await.scan(Scan::table(table)).await.expect("a page");
        page.items.iter().enumerate().map(|(n, item)| record(n, "INSERT", None, Some(image(item)))).collect()
    }
}

/// An issuer of tokens, on another server.
struct Issuer {
    process: ServeProcess,
    _keys: TempDir,
}

impl Issuer {
    fn of(system: &str) -> Self {
        let keys = tempfile::tempdir().expect("a directory");
        let data = keys.path().to_str().expect("a path");
        let process = ServeProcess::start(Command::new(env!("CARGO_BIN_EXE_nagaya")), &[system, "--data", data]);
        Issuer { process, _keys: keys }
    }

    fn variables<'a>(&'a self, audience: &'a str) -> [(&'a str, &'a str); 3] {
        [("NAGAYA_ISSUER", self.process.url()), ("NAGAYA_AUDIENCE", audience), ("NAGAYA_CURSOR_KEY", KEY)]
    }
}

/// A simulated Lambda runtime: it hands out one event at a time, and takes the response to it.
struct Function {
    listener: TcpListener,
    process: Child,
    given: usize,
    /// Where it runs, and all that it could write to. Nothing may be written there.
    root: TempDir,
    log: PathBuf,
    _logs: TempDir,
}

impl Function {
    /// Starts a function as Lambda does, with these settings and nothing else.
    fn start(handler: &str, variables: &[(&str, &str)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("an address");
        listener.set_nonblocking(true).expect("a setting of the listener");
        let (root, logs) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        set_writable(root.path(), false);
        let log = logs.path().join("log");
        let process = Command::new(env!("CARGO_BIN_EXE_nagaya"))
            .arg("lambda")
            .env_clear()
            .envs(variables.iter().copied())
            .env("HOME", root.path())
            .env("TMPDIR", root.path())
            .env("LAMBDA_TASK_ROOT", root.path())
            .env("_HANDLER", handler)
            .env("AWS_LAMBDA_RUNTIME_API", listener.local_addr().expect("an address").to_string())
            .env("AWS_LAMBDA_FUNCTION_NAME", "function")
            .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256")
            .env("AWS_LAMBDA_FUNCTION_VERSION", "1")
            .env("AWS_LAMBDA_LOG_STREAM_NAME", "stream")
            .env("AWS_LAMBDA_LOG_GROUP_NAME", "group")
            .current_dir(root.path())
            .stdout(Stdio::null())
            .stderr(File::create(&log).expect("a file"))
            .spawn()
            .expect("the function starts");
        Function { listener, process, given: 0, root, log, _logs: logs }
    }

    /// The function's response to an event.
    #[track_caller]
    fn invoke(&mut self, event: &Value) -> Value {
        self.try_invoke(event).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The function's response to an event, or its error.
    fn try_invoke(&mut self, event: &Value) -> Result<Value, Value> {
        self.given += 1;
        let id = self.invocation();
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false).expect("a setting of the connection");
                    if let Some(answer) = exchange(&stream, &id, event) {
                        return answer;
                    }
                }
                Err(_) => {
                    let ended = self.process.try_wait().expect("it was started");
                    assert!(ended.is_none(), "the function ended: {}", self.log());
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        }
    }

    /// The id of the last invocation.
    fn invocation(&self) -> String {
        format!("8476a536-e9f4-11e8-9739-{:012}", self.given)
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("a log")
    }

    /// The lines of the log with a text.
    fn lines(&self, text: &str) -> Vec<Value> {
        let log = self.log();
        log.lines().filter(|line| line.contains(text)).map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let written: Vec<_> = fs::read_dir(self.root.path()).expect("a directory").flatten().collect();
        set_writable(self.root.path(), true);
        if !std::thread::panicking() {
            // The permissions do not keep the super-user from writing.
            assert!(written.is_empty(), "the function has written {written:?}");
        }
    }
}

fn set_writable(directory: &Path, writable: bool) {
    let mut permissions = fs::metadata(directory).expect("it is there").permissions();
    #[cfg(unix)]
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, if writable { 0o755 } else { 0o555 });
    #[cfg(not(unix))]
    permissions.set_readonly(!writable);
    fs::set_permissions(directory, permissions).expect("it is ours");
}

/// Handles one connection; the response to the event with this id, if it arrives.
fn exchange(mut stream: &TcpStream, id: &str, event: &Value) -> Option<Result<Value, Value>> {
    let mut reader = BufReader::new(stream);
    loop {
        let (path, body) = request(&mut reader)?;
        // One event at a time: the function polls again on a new connection.
        if path.ends_with("/invocation/next") {
            let event = event.to_string();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nLambda-Runtime-Aws-Request-Id: {id}\r\n\
                 Lambda-Runtime-Deadline-Ms: 9999999999999\r\nLambda-Runtime-Invoked-Function-Arn: \
                 arn:aws:lambda:ap-northeast-1:123456789012:function:todo\r\nLambda-Runtime-Trace-Id: \
                 Root={TRACE};Parent=53995c3f42cd8ad8;Sampled=1\r\nContent-Length: {}\r\n\r\n{event}",
                event.len()
            );
            stream.write_all(head.as_bytes()).expect("the function listens");
            continue;
        }
        stream
            .write_all(b"HTTP/1.1 202 Accepted\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            .expect("it listens");
        let json = serde_json::from_str(&body).expect("an answer is JSON");
        return Some(match path.strip_prefix(&format!("/2018-06-01/runtime/invocation/{id}/")) {
            Some("response") => Ok(json),
            Some("error") => Err(json),
            _ => panic!("{path}: {body}"),
        });
    }
}

fn request(reader: &mut impl std::io::BufRead) -> Option<(String, String)> {
    let mut first = String::new();
    reader.read_line(&mut first).ok().filter(|read| *read > 0)?;
    let path = first.split_whitespace().nth(1)?.to_owned();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((path, String::from_utf8(body).ok()?))
}

fn event(file: &str) -> Value {
    let text =
        fs::read_to_string(root().join("crates/nagaya-cli/tests/lambda").join(file)).expect("the event is there");
    serde_json::from_str(&text).expect("an event is JSON")
}

/// A request in the format of an API Gateway HTTP API.
fn http(token: &str, method: &str, path: &str, body: &Value) -> Value {
    let mut event = event("http-api.json");
    event["rawPath"] = path.into();
    event["headers"]["authorization"] = format!("Bearer {token}").into();
    event["requestContext"]["http"]["method"] = method.into();
    event["requestContext"]["http"]["path"] = path.into();
    event["body"] = body.to_string().into();
    event
}

/// The same request in the format of an API Gateway REST API, on a stage.
fn rest(token: &str, method: &str, path: &str, called: &str, body: &Value) -> Value {
    let mut event = event("rest-api.json");
    event["path"] = path.into();
    event["httpMethod"] = method.into();
    event["headers"]["authorization"] = format!("Bearer {token}").into();
    event["requestContext"]["path"] = called.into();
    event["requestContext"]["httpMethod"] = method.into();
    event["body"] = body.to_string().into();
    event
}

/// A record of a stream.
fn record(n: usize, name: &str, old: Option<Value>, new: Option<Value>) -> Value {
    let mut record = event("stream.json")["Records"][2].take();
    record["eventID"] = format!("e-{n}").into();
    record["eventName"] = name.into();
    record["dynamodb"]["SequenceNumber"] = format!("44215845000000000174504{n:05}").into();
    record["dynamodb"]["OldImage"] = old.unwrap_or_default();
    record["dynamodb"]["NewImage"] = new.unwrap_or_default();
    record
}

/// The record of the first event of the n-th todo.
fn created(n: usize) -> Value {
    let id = format!("01HARX5BD7F8G9H0J1K2M3N{n:03}");
    let image = event("stream.json")["Records"][2]["dynamodb"]["NewImage"].to_string();
    let image = image.replace("01HARX5BD7F8G9H0J1K2M3N4PQ", &id);
    record(n, "INSERT", None, Some(serde_json::from_str(&image).expect("JSON")))
}

/// An item in the JSON of DynamoDB.
fn image(item: &Item) -> Value {
    item.iter().map(|(name, value)| (name.to_owned(), attribute(value))).collect::<serde_json::Map<_, _>>().into()
}

fn attribute(value: &Stored) -> Value {
    match value {
        Stored::Null => json!({ "NULL": true }),
        Stored::Boolean(truth) => json!({ "BOOL": truth }),
        Stored::Number(number) => json!({ "N": number.to_string() }),
        Stored::String(text) => json!({ "S": text.as_str() }),
        Stored::List(list) => json!({ "L": list.iter().map(attribute).collect::<Vec<_>>() }),
        Stored::Map(map) => {
            let fields = map.iter().map(|(name, value)| (name.clone(), attribute(value)));
            json!({ "M": fields.collect::<serde_json::Map<_, _>>() })
        }
        Stored::StringSet(texts) => json!({ "SS": texts }),
        other => panic!("{other:?} is not in these items"),
    }
}

/// The JSON body of an answer.
fn body(answer: &Value) -> Value {
    serde_json::from_str(answer["body"].as_str().expect("a body")).expect("JSON")
}

fn records(records: impl IntoIterator<Item = Value>) -> Value {
    json!({ "Records": records.into_iter().collect::<Vec<_>>() })
}

/// Proves T26.
#[test]
fn the_api_runs_as_a_lambda_function_on_a_read_only_root() {
    let (local, issuer) = (Local::with_tables("todo"), Issuer::of("todo"));
    let mut api = Function::start("todo.api", &[&local.variables()[..], &issuer.variables("todo")].concat());
    let token = issuer.process.token("todo");

    let made = api.invoke(&http(&token, "POST", "/todos", &json!({ "title": "Buy milk" })));
    assert_eq!(made["statusCode"], 201, "{made}");
    let todo = body(&made);
    assert_eq!((&todo["data"]["title"], &todo["data"]["version"]), (&json!("Buy milk"), &json!(1)), "{todo}");
    assert_eq!(made["headers"]["etag"], "\"v1\"", "{made}");

    let again = api.invoke(&http(&token, "POST", "/todos", &json!({ "title": "Buy milk" })));
    assert_eq!(again["body"], made["body"], "the same key gives the same answer");

    let id = todo["data"]["todoId"].as_str().expect("an id");
    let history = api.invoke(&http(&token, "GET", &format!("/todos/{id}/history"), &json!({})));
    assert!(history["body"].as_str().is_some_and(|body| body.contains("TodoCreated")), "{history}");

    let stranger = api.invoke(&http("nonsense", "GET", "/todos", &json!({})));
    assert_eq!(stranger["statusCode"], 401, "{stranger}");
    // A function cannot answer with an endless stream, and says so without reading anything.
    let stream = api.invoke(&http(&token, "GET", "/events", &json!({})));
    assert_eq!((&stream["statusCode"], &body(&stream)["code"]), (&json!(501), &json!("not_here")), "{stream}");
}

/// A stage is part of the address of an API, and not of the path of a route.
#[test]
fn the_api_answers_on_every_stage() {
    let (local, issuer) = (Local::with_tables("todo"), Issuer::of("todo"));
    let mut api = Function::start("todo.api", &[&local.variables()[..], &issuer.variables("todo")].concat());
    let token = issuer.process.token("todo");
    let on_stage = |path: &str, stage: &str| {
        let mut event = http(&token, "GET", path, &json!({}));
        event["requestContext"]["stage"] = stage.into();
        event
    };
    let mut check = |event: Value, status: u16| {
        let answer = api.invoke(&event);
        assert_eq!(answer["statusCode"], status, "{event}: {answer}");
        answer
    };
    check(on_stage("/todos", "$default"), 200);
    check(on_stage("/prod/todos", "prod"), 200);
    // A domain of one's own leaves the stage out.
    check(on_stage("/todos", "prod"), 200);
    check(on_stage("/prod/todo", "prod"), 404);
    check(on_stage("/prodtodos", "prod"), 404);
    check(rest(&token, "GET", "/todos", "/prod/todos", &json!({})), 200);
    check(rest(&token, "GET", "/todos", "/todos", &json!({})), 200);
    // The path that begins like the stage is a path of the API.
    check(rest(&token, "GET", "/prod/todos", "/prod/prod/todos", &json!({})), 404);

    let mut query = rest(&token, "GET", "/todos", "/prod/todos", &json!({}));
    query["multiValueQueryStringParameters"] = json!({ "status": ["nonsense"] });
    check(query, 400);
    let milk = json!({ "title": "Milk" });
    let made = check(rest(&token, "POST", "/todos", "/prod/todos", &milk), 201);
    let id = body(&made)["data"]["todoId"].as_str().expect("an id").to_owned();
    let location = &made["multiValueHeaders"]["location"][0];
    assert_eq!(*location, format!("/prod/todos/{id}"), "{made}");
}

/// The settings are those of `serve`.
#[test]
fn settings_ids_and_logs_of_the_api_are_those_of_the_server() {
    let (local, issuer) = (Local::with_tables("todo"), Issuer::of("todo"));
    let settings = [
        ("NAGAYA_CORS_ORIGINS", "https://app.example.com"),
        ("NAGAYA_CORS_CREDENTIALS", "true"),
        ("NAGAYA_MAX_BODY", "100"),
        ("NAGAYA_TENANT_RATE", "1000"),
        ("NAGAYA_SLOW_REQUEST", "0"),
        ("NAGAYA_LOG_FORMAT", "json"),
        ("NAGAYA_LOG_KEY", KEY),
    ];
    let variables = [&local.variables()[..], &issuer.variables("todo"), &settings].concat();
    let mut api = Function::start("todo.api", &variables);
    let token = issuer.process.token("todo");

    let mut list = http(&token, "GET", "/todos", &json!({}));
    list["headers"]["origin"] = "https://app.example.com".into();
    let answer = api.invoke(&list);
    let headers = &answer["headers"];
    assert_eq!(headers["access-control-allow-origin"], "https://app.example.com", "{answer}");
    assert_eq!(headers["access-control-allow-credentials"], "true", "{answer}");
    assert_eq!(headers["ratelimit-policy"], "\"tenant\";q=2000;w=2", "{answer}");
    // The ids are those of the invocation.
    assert_eq!(headers["x-request-id"], api.invocation(), "{answer}");
    assert_eq!(headers["x-amzn-trace-id"], format!("Root={TRACE}"), "{answer}");
    let line = &api.lines("nagaya::access")[0];
    assert_eq!((&line["request"], &line["trace"]), (&json!(api.invocation()), &json!(TRACE)), "{line}");
    assert_eq!(line["slow"], true, "{line}");

    // The caller's own id has precedence, as on a server. The trace is that of the invocation.
    list["headers"]["x-request-id"] = "r-1".into();
    list["headers"]["x-amzn-trace-id"] = "Root=1-67891233-abcdef012345678912345678".into();
    let answer = api.invoke(&list);
    assert_eq!(answer["headers"]["x-request-id"], "r-1", "{answer}");
    let line = &api.lines("\"r-1\"")[0];
    assert_eq!(line["trace"], TRACE, "{line}");

    let long = api.invoke(&http(&token, "POST", "/todos", &json!({ "title": "x".repeat(200) })));
    assert_eq!(long["statusCode"], 413, "{long}");
}

/// A function is production: payments that cost nothing are off.
#[test]
fn payments_are_declined_on_lambda() {
    let (local, issuer) = (Local::with_tables("kondate"), Issuer::of("kondate"));
    let mut api = Function::start("kondate.api", &[&local.variables()[..], &issuer.variables("kondate")].concat());
    let card = json!({ "token": "tok_visa" });
    let declined = api.invoke(&http(&issuer.process.token("kondate"), "POST", "/v1/payment-methods", &card));
    assert_eq!(declined["statusCode"], 402, "{declined}");
    assert!(declined["body"].as_str().is_some_and(|body| body.contains("Payments are not set up")), "{declined}");
}

/// Proves the function part of T10.
#[tokio::test]
async fn the_stream_updates_the_projection_and_a_bad_record_holds_up_nothing() {
    let local = Local::with_tables("todo");
    let mut stream = Function::start("todo.stream", &local.variables());
    // A record that cannot be read, one with an event that cannot be, as it is stored, and others before and after them.
    let (mut unreadable, mut damaged) = (created(1), created(2));
    unreadable["dynamodb"]["NewImage"]["data"] = json!({ "M": { "title": { "T": "a secret" } } });
    damaged["dynamodb"]["NewImage"]["aggregateVersion"] = json!({ "S": "two" });
    let stored = [("PK", "TODO#01HARX5BD7F8G9H0J1K2M3N002"), ("SK", "EVENT#01HARX5BD7F8G9H0J1K2M3N002")];
    let stored = stored.into_iter().fold(Item::new(), |item, (name, value)| item.with(name, Stored::from(value)));
    let fields = [
        ("aggregateId", "01HARX5BD7F8G9H0J1K2M3N002"),
        ("eventId", "01HARX5BD7F8G9H0J1K2M3N002"),
        ("aggregateVersion", "two"),
        ("GSI1PK", "FAMILY#f-123"),
        ("GSI1SK", "01HARX5BD7F8G9H0J1K2M3N002"),
    ];
    let stored = fields.into_iter().fold(stored, |item, (name, value)| item.with(name, Stored::from(value)));
    let actor = Stored::Map([("familyId".to_owned(), Stored::from("f-123"))].into());
    let stored = stored.with("metadata", Stored::Map([("actor".to_owned(), actor)].into()));
    local.store().await.write(Write::put("EventsTable", stored).into()).await.expect("it is stored");

    let batch = records([created(0), unreadable, damaged, created(3)]);
    // A repeated event changes nothing.
    for _ in 0..2 {
        assert_eq!(stream.invoke(&batch), json!({ "batchItemFailures": [] }));
    }
    // The records of the sample are in another order than the events, and have an item that is no event among them.
    assert_eq!(stream.invoke(&event("stream.json")), json!({ "batchItemFailures": [] }));
    let line = &stream.lines("nagaya::stream").pop().expect("a line");
    assert_eq!((&line["request"], &line["records"]), (&json!(stream.invocation()), &json!(3)), "{line}");
    assert!(line["trace"].as_str().is_some_and(|trace| trace.contains(TRACE)), "{line}");
    assert!(!stream.log().contains("a secret"), "{}", stream.log());

    let page = local.store().await.scan(Scan::table("TodosProjection")).await.expect("a page");
    let text = |item: &Item, name: &str| item.get(name).and_then(Stored::as_str).unwrap_or_default().to_owned();
    let items = page.items.iter().filter(|item| text(item, "SK").starts_with("TODO#"));
    let mut items: Vec<_> =
        items.map(|item| (text(item, "todoId"), item.get("completed") == Some(&Stored::Boolean(true)))).collect();
    items.sort();
    let expected = [("000", false), ("003", false), ("4PQ", true)];
    assert_eq!(items, expected.map(|(id, completed)| (format!("01HARX5BD7F8G9H0J1K2M3N{id}"), completed)));

    // What could not be read is found later.
    let listed = local.nagaya(&["events", "dlq", "list", "todo"]);
    assert_eq!(listed.status, 1, "{listed}");
    assert!(listed.stdout.contains("01HARX5BD7F8G9H0J1K2M3N002 of f-123"), "{listed}");
    assert!(listed.stdout.contains("record e-1 of a stream cannot be read"), "{listed}");
    assert!(listed.stdout.contains("its `NewImage` is not an item: `data` is not a value"), "{listed}");
    // The event of that record is not stored, so there is nothing to read.
    let caught_up = local.nagaya(&["events", "catch-up", "todo"]);
    assert_eq!(caught_up.status, 1, "{caught_up}");
    assert!(caught_up.stdout.contains("1 cannot be brought up to date"), "{caught_up}");
    let listed = local.nagaya(&["events", "dlq", "list", "todo", "--json"]);
    let listed: Value = serde_json::from_str(&listed.stdout).expect("JSON");
    assert_eq!((&listed["unreadable"], listed["deadLetters"].as_array().map(Vec::len)), (&json!([]), Some(1)));
}

/// Records of a stream that cannot be used at all are not lost in silence.
#[test]
fn a_stream_without_images_is_an_error() {
    let local = Local::with_tables("todo");
    let mut stream = Function::start("todo.stream", &local.variables());
    let mut keys_only = created(1);
    keys_only["dynamodb"]["StreamViewType"] = "KEYS_ONLY".into();
    let error = stream.try_invoke(&records([keys_only])).expect_err("nothing can be read");
    let text = error["errorMessage"].as_str().expect("a text");
    assert!(text.contains("has the view type KEYS_ONLY") && text.contains("set it to NEW_AND_OLD_IMAGES"), "{text}");
    let error = stream.try_invoke(&json!({ "detail": {} })).expect_err("no stream");
    assert!(error["errorMessage"].as_str().is_some_and(|text| text.contains("Attach the function")), "{error}");
}

/// A batch of many todos at once, and events from before the function was attached.
#[test]
fn a_large_batch_is_applied_and_older_events_are_caught_up_with() {
    let (local, issuer) = (Local::with_tables("todo"), Issuer::of("todo"));
    let mut api = Function::start("todo.api", &[&local.variables()[..], &issuer.variables("todo")].concat());
    let token = issuer.process.token("todo");
    // No stream delivers these.
    for title in ["milk", "tea"] {
        let mut create = http(&token, "POST", "/todos", &json!({ "title": title }));
        create["headers"]["idempotency-key"] = title.into();
        assert_eq!(api.invoke(&create)["statusCode"], 201);
    }
    let mut count = |expected: usize| {
        let mut list = http(&token, "GET", "/todos", &json!({}));
        list["rawQueryString"] = "limit=100".into();
        let answer = api.invoke(&list);
        assert_eq!(body(&answer)["data"].as_array().map(Vec::len), Some(expected), "{answer}");
    };
    count(0);
    let caught_up = local.nagaya(&["events", "catch-up", "todo"]);
    assert_eq!(caught_up.status, 0, "{caught_up}");
    assert_eq!(caught_up.stdout, "`todo`: 2 stored items processed\n`note_cleanup`: 2 stored items processed\n");
    count(2);

    let mut stream = Function::start("todo.stream", &local.variables());
    let tenant = "demo";
    let many = (0..90).map(|n| serde_json::from_str(&created(n).to_string().replace("f-123", tenant)).expect("JSON"));
    assert_eq!(stream.invoke(&records(many)), json!({ "batchItemFailures": [] }));
    count(92);
}

/// What is derived from other items than events is derived on Lambda too.
#[tokio::test]
async fn search_and_saved_counts_follow_the_stream() {
    let (local, issuer) = (Local::with_tables("kondate"), Issuer::of("kondate"));
    let mut api = Function::start("kondate.api", &[&local.variables()[..], &issuer.variables("kondate")].concat());
    let token = issuer.process.token("kondate");
    let made = api.invoke(&http(&token, "POST", "/v1/recipes", &json!({ "title": "Miso soup" })));
    assert_eq!(made["statusCode"], 201, "{made}");
    let mut find = || {
        let mut search = http(&token, "GET", "/v1/recipes", &json!({}));
        search["rawQueryString"] = "q=miso".into();
        let found = api.invoke(&search);
        body(&found)["data"].as_array().map(Vec::len)
    };
    assert_eq!(find(), Some(0), "nothing has indexed it yet");
    let created = local.created_records("MainTable").await;
    let mut stream = Function::start("kondate.stream", &local.variables());
    assert_eq!(stream.invoke(&records(created)), json!({ "batchItemFailures": [] }));
    assert_eq!(find(), Some(1));
    assert_eq!(local.nagaya(&["events", "dlq", "list", "kondate"]).status, 0);
    let caught_up = local.nagaya(&["events", "catch-up", "kondate"]);
    assert!(caught_up.stdout.starts_with("`counts_and_search`: "), "{caught_up}");
}

/// Nothing is created in place of a key that was not given: each instance would have another one.
#[test]
fn a_function_without_its_keys_names_the_one_that_is_missing() {
    let local = Local::with_tables("todo");
    let start = |handler: &str, without: &str, more: &[(&str, &str)]| {
        let variables = local.variables().into_iter().filter(|(name, _)| *name != without);
        let variables: Vec<_> = variables.chain(more.iter().copied()).chain([("_HANDLER", handler)]).collect();
        let run = nagaya_in(&["lambda"], "", &[&variables[..], &[("AWS_LAMBDA_RUNTIME_API", "127.0.0.1:1")]].concat());
        assert_eq!(run.status, 2, "{run}");
        run.stderr
    };
    let refused = start("todo.stream", "NAGAYA_AUDIT_KEY", &[]);
    assert!(refused.contains("NAGAYA_AUDIT_KEY is not set"), "{refused}");
    let issuer = [("NAGAYA_ISSUER", "https://id.example.com"), ("NAGAYA_AUDIENCE", "todo")];
    let refused = start("todo.api", "", &issuer);
    assert!(refused.contains("NAGAYA_CURSOR_KEY is not set"), "{refused}");
}

/// On Lambda there is no local issuer, and instances have no directory of their own to keep keys in.
#[test]
fn the_api_function_is_refused_without_an_issuer_and_without_shared_keys() {
    let data = tempfile::tempdir().expect("a directory");
    let missing = data.path().join("data");
    let start = |args: &[&str], variables: &[(&str, &str)]| {
        let runtime = [("AWS_LAMBDA_RUNTIME_API", "127.0.0.1:1"), ("AWS_REGION", "local")];
        let data = ["--data", missing.to_str().expect("a path")];
        let run = nagaya_in(&[&["lambda", "todo.api"], args, &data].concat(), "", &[&runtime[..], variables].concat());
        assert_eq!(run.status, 2, "{run}");
        assert!(!missing.exists(), "nothing is created before the settings are checked");
        run.stderr
    };
    let refused = start(&["--store", "embedded"], &[]);
    assert!(refused.contains("NAGAYA_ISSUER and NAGAYA_AUDIENCE"), "{refused}");
    let issuer = ["--issuer", "https://id.example.com", "--audience", "todo", "--store", "dynamodb"];
    let refused = start(&issuer, &[("NAGAYA_AUDIT_KEY", &"0f".repeat(32))]);
    assert!(refused.contains("NAGAYA_CURSOR_KEY is not set"), "{refused}");
}

#[test]
fn a_function_that_cannot_start_reports_the_reason() {
    let check = |args: &[&str], reason: &str| {
        let run = nagaya(args);
        assert_eq!(run.status, 2, "{run}");
        assert!(run.stderr.contains(reason), "{run}");
    };
    check(&["lambda", "todo"], "name a system and a function of it");
    check(&["lambda", "todo.cron"], "the functions are `todo.api` and `todo.stream`");
    check(&["lambda", "kondate.api", "--subscription-plans", "x.json"], "declines all payments in production");
    check(&["lambda", "todo.api"], "AWS_LAMBDA_RUNTIME_API is not set");

    // Lambda starts the program under a fixed name and without arguments.
    let directory = tempfile::tempdir().expect("a directory");
    let bootstrap = directory.path().join("bootstrap");
    fs::copy(env!("CARGO_BIN_EXE_nagaya"), &bootstrap).expect("a copy");
    let run = Command::new(&bootstrap).env("_HANDLER", "todo.cron").output().expect("it starts");
    let stderr = String::from_utf8_lossy(&run.stderr);
    assert!(stderr.contains("the functions are `todo.api` and `todo.stream`"), "{stderr}");
}
