//! Invalid requests: the problem names the error, its place and the remedy.

use serde_json::json;

use crate::desk::desk;

fn pointers(body: &serde_json::Value) -> Vec<String> {
    let errors = body["errors"].as_array().map_or(&[][..], Vec::as_slice);
    errors.iter().filter_map(|each| each["pointer"].as_str()).map(str::to_owned).collect()
}

#[test]
fn all_errors_of_a_body_are_listed_with_their_pointers() {
    let server = desk();
    let t1 = server.user_with("t1", "u1", &["admin"]);
    let wrong = json!({ "subject": "", "status": "lost", "tags": ["a", 7], "colour": "red" });
    let answer = t1.post("/v1/tickets", &wrong);
    answer.expect_problem(422, "invalid");
    let mut found = pointers(&answer.body);
    found.sort();
    assert_eq!(found, ["/colour", "/status", "/subject", "/tags/1"]);
    assert_eq!(pointers(&t1.post("/v1/tickets", &json!({})).body), ["/subject"]);
}

/// Proves T5.
#[test]
fn the_tenant_comes_from_the_token_and_from_nowhere_else() {
    let server = desk();
    let t1 = server.user_with("t1", "u1", &["admin"]);
    for tenant in ["t2", "t1"] {
        let answer = t1.post("/v1/tickets", &json!({ "subject": "a", "tenantId": tenant }));
        answer.expect_problem(422, "invalid");
        assert_eq!(pointers(&answer.body), ["/tenantId"]);
    }
    let location =
        t1.post("/v1/tickets", &json!({ "subject": "a" })).header("location").expect("a location").to_owned();
    t1.patch(&location, &json!({ "tenantId": "t2" })).expect_problem(422, "invalid");
    for query in ["tenantId=t2", "tenantId=t1"] {
        t1.get(&format!("/v1/tickets?{query}")).expect_problem(400, "bad_parameter");
        t1.get(&format!("{location}?{query}")).expect_problem(400, "bad_parameter");
    }
}

#[test]
fn no_header_and_no_path_chooses_the_tenant() {
    let server = desk();
    let (t1, t2) = (server.user_with("t1", "u1", &["admin"]), server.user_with("t2", "u2", &["admin"]));
    let theirs = t2.post("/v1/tickets", &json!({ "subject": "theirs" }));
    let theirs = theirs.header("location").expect("a location");
    for name in ["tenantid", "tenant-id", "x-tenant-id", "x-tenant", "nagaya-tenant", "x-forwarded-tenant"] {
        let client = t1.with_header(name, "t2");
        client.get(theirs).expect_problem(404, "not_found");
        assert_eq!(client.get("/v1/tickets").list(), [] as [serde_json::Value; 0], "{name}");
        let made = client.post("/v1/tickets", &json!({ "subject": "ours" }));
        assert_eq!(made.expect_data(201)["tenantId"], "t1", "{name}");
        assert_eq!(client.delete(made.header("location").expect("a location")).status, 204);
    }
    let (_, id) = theirs.rsplit_once('/').expect("an id");
    for path in [
        "/v1/t2/tickets".to_owned(),
        "/t2/v1/tickets".to_owned(),
        "/v1/tenants/t2/tickets".to_owned(),
        "/v1/tickets;tenantId=t2".to_owned(),
        format!("/v1/tickets/t2/{id}"),
        format!("/v1/tickets/t2%2F{id}"),
        format!("/v1/tickets/TENANT%23t2%23{id}"),
        format!("/v1/../t2/tickets/{id}"),
    ] {
        for method in ["GET", "DELETE"] {
            let answer = t1.send(method, &path, None);
            assert!(matches!(answer.status, 400 | 404 | 405), "{method} {path}: {}", answer.status);
        }
    }
    assert_eq!(t2.get(theirs).expect_data(200)["subject"], "theirs");
}

#[test]
fn a_body_that_is_not_an_object_is_refused() {
    let server = desk();
    let t1 = server.user_with("t1", "u1", &["admin"]);
    for (body, code) in
        [("{", "bad_body"), ("[]", "bad_body"), ("7", "bad_body"), ("", "bad_body"), ("\u{0}", "bad_body")]
    {
        t1.request_bytes("POST", "/v1/tickets", Some(body.as_bytes())).expect_problem(400, code);
    }
    t1.request_bytes("POST", "/v1/tickets", Some(b"{\"subject\": \"\xff\"}")).expect_problem(400, "bad_body");
    let deep = "[".repeat(10_000);
    t1.request_bytes("POST", "/v1/tickets", Some(deep.as_bytes())).expect_problem(400, "bad_body");
    let form = t1.with_header("content-type", "application/x-www-form-urlencoded");
    form.request_bytes("POST", "/v1/tickets", Some(b"subject=a")).expect_problem(415, "not_json");
    let large = json!({ "subject": "a".repeat(2_000_000) });
    t1.post("/v1/tickets", &large).expect_problem(413, "too_large");
}

#[test]
fn conflicts_name_the_fields() {
    let server = desk();
    let t1 = server.user_with("t1", "u1", &["admin"]);
    t1.post("/v1/teams", &json!({ "teamId": "a", "name": "A" })).expect_data(201);
    let again = t1.post("/v1/teams", &json!({ "name": "A" }));
    assert_eq!(again.expect_problem(409, "taken"), ["/name"]);
    let again = t1.post("/v1/teams", &json!({ "teamId": "a", "name": "B" }));
    assert_eq!(again.expect_problem(409, "taken"), ["/teamId"]);
    let astray = t1.post("/v1/tickets", &json!({ "subject": "a", "teamId": "b" }));
    assert_eq!(astray.expect_problem(409, "no_reference"), ["/teamId"]);
    let ticket = t1.post("/v1/tickets", &json!({ "subject": "a", "teamId": "a" }));
    t1.delete("/v1/teams/a").expect_problem(409, "referenced");
    assert_eq!(t1.delete(ticket.header("location").expect("a location")).status, 204);
    assert_eq!(t1.delete("/v1/teams/a").status, 204);
}

#[test]
fn unknown_paths_and_methods_are_refused() {
    let server = desk();
    let t1 = server.user_with("t1", "u1", &["admin"]);
    for path in ["/", "/v1", "/v1/nothing", "/tickets", "/v1/tickets/", "/v1/tickets/a/b/c", "/v1/seats/a"] {
        let answer = t1.get(path);
        assert!(matches!(answer.status, 404 | 405 | 302 | 307), "{path}: {}", answer.status);
    }
    let answer = t1.request_bytes("PUT", "/v1/tickets/a", Some(b"{}"));
    answer.expect_problem(405, "no_such_method");
    let allowed = answer.header("allow").expect("what is");
    assert!(["GET", "PATCH", "DELETE"].iter().all(|method| allowed.contains(method)), "{allowed}");
}

#[test]
fn without_a_valid_token_every_route_answers_401_or_403() {
    let server = desk();
    let anonymous = server.anonymous_client();
    let without = anonymous.get("/v1/tickets");
    without.expect_problem(401, "no_token");
    assert_eq!(without.header("www-authenticate"), Some("Bearer"));
    anonymous.with_header("authorization", "Basic dXNlcjpwYXNz").get("/v1/tickets").expect_problem(401, "bad_token");
    anonymous.with_token("nonsense").get("/v1/tickets").expect_problem(401, "bad_token");
    let elsewhere = desk().token(Some("t1"), "u1", &["admin"]);
    anonymous.with_token(&elsewhere).get("/v1/tickets").expect_problem(401, "bad_token");
    let nowhere = server.token(None, "u1", &["admin"]);
    anonymous.with_token(&nowhere).get("/v1/tickets").expect_problem(403, "forbidden");
    let system = server.token(Some("system"), "u1", &["admin"]);
    anonymous.with_token(&system).get("/v1/tickets").expect_problem(403, "bad_tenant");
}

#[test]
fn roles_permit_only_what_the_design_says() {
    let server = desk();
    let (admin, viewer, stranger) = (
        server.user_with("t1", "u1", &["admin"]),
        server.user_with("t1", "u1", &["viewer"]),
        server.user_with("t1", "u1", &["unheard-of"]),
    );
    let location =
        admin.post("/v1/tickets", &json!({ "subject": "a" })).header("location").expect("a location").to_owned();
    viewer.get("/v1/tickets").expect_data(200);
    viewer.get(&location).expect_data(200);
    viewer.post("/v1/tickets", &json!({ "subject": "b" })).expect_problem(403, "forbidden");
    viewer.patch(&location, &json!({ "subject": "b" })).expect_problem(403, "forbidden");
    viewer.delete(&location).expect_problem(403, "forbidden");
    viewer.get("/v1/seats").expect_problem(403, "forbidden");
    stranger.get("/v1/tickets").expect_problem(403, "forbidden");
    // A role with all permissions is not an operator.
    admin.with_header("nagaya-reason", "out of curiosity").get("/v1/regions").expect_problem(403, "forbidden");
}

/// A proxy in front may have checked the other of two values.
#[test]
fn a_header_that_says_one_thing_is_refused_if_it_is_there_twice() {
    use std::io::{Read as _, Write as _};

    let server = desk();
    let bearer = format!("Bearer {}", server.token(Some("t1"), "u1", &["viewer"]));
    let send_to = |line: &str, more: &[(&str, &str)]| {
        let mut stream = std::net::TcpStream::connect(server.address).expect("a connection");
        let more: String = more.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head =
            format!("{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: {bearer}\r\n{more}\r\n");
        stream.write_all(head.as_bytes()).expect("it is sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let status = answer.split(' ').nth(1).unwrap_or_default().to_owned();
        (status, answer.contains(r#""code":"repeated_header""#))
    };
    let send = |more: &[(&str, &str)]| send_to("GET /v1/tickets", more);
    assert_eq!(send(&[("X-Other", "a"), ("X-Other", "b")]), ("200".to_owned(), false));
    assert_eq!(send(&[("Idempotency-Key", "a")]), ("200".to_owned(), false));
    let refused = ("400".to_owned(), true);
    assert_eq!(send(&[("Authorization", &bearer)]), refused);
    assert_eq!(send(&[("authorization", "Bearer x")]), refused);
    assert_eq!(send(&[("Host", "localhost")]), refused);
    assert_eq!(send(&[("Idempotency-Key", "a"), ("idempotency-key", "b")]), refused);
    assert_eq!(send(&[("Content-Type", "application/json"), ("Content-Type", "text/plain")]), refused);
    assert_eq!(send(&[("Nagaya-Reason", "ticket 471"), ("Nagaya-Reason", "ticket 472")]), refused);
    // Wherever the request goes.
    for line in
        ["GET /healthz", "GET /docs", "GET /openapi.json", "GET /nowhere", "PUT /v1/tickets", "OPTIONS /v1/tickets"]
    {
        assert_eq!(send_to(line, &[("Host", "localhost")]), refused, "{line}");
    }
}

#[test]
fn a_request_without_a_host_is_refused() {
    use std::io::{Read as _, Write as _};

    let server = desk();
    for (version, status) in [("1.1", "400"), ("1.0", "200")] {
        let mut stream = std::net::TcpStream::connect(server.address).expect("a connection");
        let head = format!("GET /healthz HTTP/{version}\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).expect("it is sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert_eq!(answer.split(' ').nth(1), Some(status), "{answer}");
        assert_eq!(answer.contains(r#""code":"no_host""#), version == "1.1", "{answer}");
    }
}

/// A proxy in front would have read another body than the server.
#[test]
fn an_encoded_body_is_refused() {
    use std::io::{Read as _, Write as _};

    let server = desk();
    let token = server.token(Some("t1"), "u1", &["agent"]);
    let send = |headers: &str| {
        let mut stream = std::net::TcpStream::connect(server.address).expect("a connection");
        let head = format!(
            "POST /v1/tickets HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\n{headers}\r\n\r\n"
        );
        let body = if headers.contains("chunked") { "2\r\n{}\r\n0\r\n\r\n" } else { "{}" };
        stream.write_all((head + body).as_bytes()).expect("it is sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer.contains(r#""code":"encoded_body""#)
    };
    for plain in ["Content-Length: 2", "Content-Length: 2\r\nContent-Encoding: identity", "Transfer-Encoding: Chunked"]
    {
        assert!(!send(plain), "{plain}");
    }
    for encoded in ["Content-Length: 2\r\nContent-Encoding: gzip", "Transfer-Encoding: gzip, chunked"] {
        assert!(send(encoded), "{encoded}");
    }
}

/// A client that sends its body after the head can reuse the connection, also where the body is not read.
#[test]
fn a_connection_can_be_reused_after_a_refusal() {
    use std::io::{Read as _, Write as _};

    let server = desk();
    let token = server.token(Some("t1"), "u1", &["viewer"]);
    let mut stream = std::net::TcpStream::connect(server.url.trim_start_matches("http://")).expect("a connection");
    // Forbidden, unknown path, unknown method, no token: four responses on one connection.
    for (line, token, status) in [
        ("POST /v1/tickets", Some(&token), "403"),
        ("POST /v1/nothing", Some(&token), "404"),
        ("PUT /v1/tickets", Some(&token), "405"),
        ("POST /v1/tickets", None, "401"),
    ] {
        let token = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
        let head = format!(
            "{line} HTTP/1.1\r\nhost: x\r\n{token}content-type: application/json\r\ncontent-length: 15\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).expect("a head");
        std::thread::sleep(std::time::Duration::from_millis(20));
        stream.write_all(b"{\"subject\":\"a\"}").expect("a body");
        let mut answer = String::new();
        while !answer.contains("\"title\"") {
            let mut bytes = [0; 4096];
            let read = stream.read(&mut bytes).expect("an answer");
            assert_ne!(read, 0, "the connection has ended after {answer:?}");
            answer += std::str::from_utf8(&bytes[..read]).expect("text");
        }
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
        assert!(!answer.contains("connection: close"), "{answer}");
    }
}

#[test]
fn a_parameter_that_no_item_can_have_is_an_error_and_not_an_empty_page() {
    let server = desk();
    let t1 = server.user_with("t1", "u1", &["admin"]);
    let long = format!("/v1/tickets-of-team?teamId={}", "x".repeat(65));
    for query in ["/v1/tickets-by-status?status=lost", &long] {
        t1.get(query).expect_problem(400, "bad_parameter");
    }
    for path in ["/v1/tickets/lost/between", "/v1/tickets/%ff"] {
        t1.get(path).expect_problem(404, "not_found");
    }
}
