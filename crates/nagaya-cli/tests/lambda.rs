//! A system as AWS Lambda functions: the binary against a simulated Lambda runtime API.

mod common;

use std::{
    fs,
    io::{BufReader, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
};

use common::{nagaya, nagaya_in, root};
use nagaya::{
    embedded::{EmbeddedStore, Options},
    store::{Key, Store as _, Value as Stored},
};
use nagaya_testing::ServeProcess;
use serde_json::{Value, json};

/// A simulated Lambda runtime: it hands out one event at a time, and takes the response to it.
struct Runtime {
    listener: TcpListener,
    function: Child,
    given: usize,
}

impl Runtime {
    fn start(handler: &str, data: &Path, variables: &[(&str, &str)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("an address");
        let function = Command::new(env!("CARGO_BIN_EXE_nagaya"))
            .args(["lambda", "--data", data.to_str().expect("a path"), "--store", "embedded"])
            .env("_HANDLER", handler)
            .envs(variables.iter().copied())
            .env("AWS_LAMBDA_RUNTIME_API", listener.local_addr().expect("an address").to_string())
            .env("AWS_LAMBDA_FUNCTION_NAME", "todo")
            .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256")
            .env("AWS_LAMBDA_FUNCTION_VERSION", "1")
            .env("AWS_LAMBDA_LOG_STREAM_NAME", "stream")
            .env("AWS_LAMBDA_LOG_GROUP_NAME", "group")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the function starts");
        Runtime { listener, function, given: 0 }
    }

    /// The function's response to an event.
    fn invoke(&mut self, event: &Value) -> Value {
        self.given += 1;
        let id = format!("8476a536-e9f4-11e8-9739-{:012}", self.given);
        loop {
            let (stream, _) = self.listener.accept().expect("the function asks");
            if let Some(answer) = exchange(&stream, &id, event) {
                return answer;
            }
        }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        let _ = self.function.kill();
        let _ = self.function.wait();
    }
}

/// Handles one connection; the response to the event with this id, if it arrives.
fn exchange(mut stream: &TcpStream, id: &str, event: &Value) -> Option<Value> {
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
                 Root=1-5bef4de7-ad49b0e87f6ef6c87fc2e700\r\nContent-Length: {}\r\n\r\n{event}",
                event.len()
            );
            stream.write_all(head.as_bytes()).expect("the function listens");
        } else {
            stream
                .write_all(b"HTTP/1.1 202 Accepted\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
                .expect("it listens");
            assert!(path.ends_with(&format!("/invocation/{id}/response")), "{path}: {body}");
            return Some(serde_json::from_str(&body).expect("an answer is JSON"));
        }
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

fn event(file: &str) -> String {
    fs::read_to_string(root().join("crates/nagaya-cli/tests/lambda").join(file)).expect("the event is there")
}

/// A request in the format of an API Gateway HTTP API.
fn http(token: &str, method: &str, path: &str, body: &Value) -> Value {
    let body = Value::from(body.to_string()).to_string();
    let text = event("http-api.json").replace("TOKEN", token).replace("METHOD", method).replace("PATH", path);
    serde_json::from_str(&text.replace("\"BODY\"", &body)).expect("an event is JSON")
}

/// Proves T26.
#[test]
fn the_api_runs_as_a_lambda_function() {
    let data = tempfile::tempdir().expect("a directory");
    // The issuer is another server.
    let keys = tempfile::tempdir().expect("a directory");
    let keys = keys.path().to_str().expect("a path");
    let issuer = ServeProcess::start(Command::new(env!("CARGO_BIN_EXE_nagaya")), &["todo", "--data", keys]);
    let token = nagaya(&["token", "--system", "todo", "--tenant", "f-123", "--user", "u-1", "--data", keys]).stdout;
    let token = token.trim();
    let variables = [("NAGAYA_ISSUER", issuer.url()), ("NAGAYA_AUDIENCE", "todo")];
    let mut runtime = Runtime::start("todo.api", data.path(), &variables);

    let made = runtime.invoke(&http(token, "POST", "/todos", &json!({ "title": "Buy milk" })));
    assert_eq!(made["statusCode"], 201, "{made}");
    let body: Value = serde_json::from_str(made["body"].as_str().expect("a body")).expect("JSON");
    assert_eq!((&body["data"]["title"], &body["data"]["version"]), (&json!("Buy milk"), &json!(1)), "{body}");
    assert_eq!(made["headers"]["etag"], "\"v1\"", "{made}");

    let again = runtime.invoke(&http(token, "POST", "/todos", &json!({ "title": "Buy milk" })));
    assert_eq!(again["body"], made["body"], "the same key gives the same answer");

    let id = body["data"]["todoId"].as_str().expect("an id");
    let history = runtime.invoke(&http(token, "GET", &format!("/todos/{id}/history"), &json!({})));
    assert!(history["body"].as_str().is_some_and(|body| body.contains("TodoCreated")), "{history}");

    let stranger = runtime.invoke(&http("nonsense", "GET", "/todos", &json!({})));
    assert_eq!(stranger["statusCode"], 401, "{stranger}");
    // A function cannot answer with an endless stream.
    let stream = runtime.invoke(&http(token, "GET", "/events", &json!({})));
    assert_eq!(stream["statusCode"], 501, "{stream}");
}

/// A function is production: payments that cost nothing are off.
#[test]
fn payments_are_declined_on_lambda() {
    let data = tempfile::tempdir().expect("a directory");
    let keys = tempfile::tempdir().expect("a directory");
    let keys = keys.path().to_str().expect("a path");
    let issuer = ServeProcess::start(Command::new(env!("CARGO_BIN_EXE_nagaya")), &["kondate", "--data", keys]);
    let variables = [("NAGAYA_ISSUER", issuer.url()), ("NAGAYA_AUDIENCE", "kondate")];
    let mut runtime = Runtime::start("kondate.api", data.path(), &variables);
    let card = json!({ "token": "tok_visa" });
    let declined = runtime.invoke(&http(&issuer.token("kondate"), "POST", "/v1/payment-methods", &card));
    assert_eq!(declined["statusCode"], 402, "{declined}");
    assert!(declined["body"].as_str().is_some_and(|body| body.contains("Payments are not set up")), "{declined}");
}

/// Proves the function part of T10.
#[tokio::test]
async fn stream_records_update_the_projection_and_failures_are_reported_for_retry() {
    let data = tempfile::tempdir().expect("a directory");
    let records: Value = serde_json::from_str(&event("stream.json")).expect("an event is JSON");
    let damaged = event("stream.json")
        .replace("\"aggregateVersion\": { \"N\": \"2\" }", "\"aggregateVersion\": { \"S\": \"two\" }");
    let damaged: Value = serde_json::from_str(&damaged).expect("an event is JSON");
    {
        let mut runtime = Runtime::start("todo.stream", data.path(), &[]);
        let failed = runtime.invoke(&damaged);
        assert_eq!(failed, json!({ "batchItemFailures": [{ "itemIdentifier": "4421584500000000017450439092" }] }));
        // The corrected event, then the same once more: a repeated event changes nothing.
        for _ in 0..2 {
            assert_eq!(runtime.invoke(&records), json!({ "batchItemFailures": [] }));
        }
    }
    let store = EmbeddedStore::open(data.path(), Options::default()).expect("the directory opens");
    let key = Key::new("FAMILY#f-123", "TODO#01HARX5BD7F8G9H0J1K2M3N4PQ");
    let item = store.get("todo/TodosProjection", &key).await.expect("the store answers").expect("the item is there");
    assert_eq!(item.get("title").and_then(Stored::as_str), Some("Buy milk"));
    assert_eq!((item.get("completed"), item.get("GSI1PK")), (Some(&Stored::Boolean(true)), None));
    assert_eq!(
        item.get("version").and_then(Stored::as_number).map(|version| version.to_string()),
        Some("2".to_owned())
    );
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
