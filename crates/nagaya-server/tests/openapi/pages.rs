//! The document and the page to read it, as they are served.

use std::{sync::Arc, time::Duration};

use nagaya_embedded::{EmbeddedStore, Options};
use nagaya_server::{Claims, Issuer, Limits, LocalIssuer, Server, System, Verifier};
use nagaya_store::Clock;
use nagaya_tenancy::Nagaya;
use serde_json::Value as Json;

use super::{design, systems};

/// Systems that are served until this is dropped.
struct TestServer {
    url: String,
    client: ureq::Agent,
    _runtime: tokio::runtime::Runtime,
}

struct Answer {
    status: u16,
    headers: ureq::http::HeaderMap,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl TestServer {
    fn serve(systems: impl IntoIterator<Item = (String, System)>) -> Self {
        TestServer::start(systems, false)
    }

    fn start(systems: impl IntoIterator<Item = (String, System)>, sign_in: bool) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let url = runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let url = format!("http://{}", listener.local_addr().expect("an address"));
            let issuer = Arc::new(LocalIssuer::in_memory().expect("an issuer"));
            let mut server = Server::new(Limits::default());
            if sign_in {
                server.sign_in_with(&issuer);
            }
            for (mount, system) in systems {
                let nagaya =
                    Nagaya::open(system.design.clone(), EmbeddedStore::in_memory(Options::default()).expect("memory"));
                let verifier = Verifier::new(Claims::from_design(&system.design), Clock::system());
                let verifier = verifier.trust(&Issuer::local(&issuer), &system.name).expect("one issuer");
                server.mount(&mount, system, nagaya, verifier);
            }
            tokio::spawn(server.run(listener, std::future::pending()));
            url
        });
        let client = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(Duration::from_secs(10)))
            .build()
            .into();
        TestServer { url, client, _runtime: runtime }
    }

    /// All systems, each below its name.
    fn all_systems() -> Self {
        TestServer::serve(systems().map(|system| (format!("/{}", system.name), system)))
    }

    fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let request = self.client.get(format!("{}{path}", self.url));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        TestServer::read(request.call().expect("an answer"))
    }

    fn post(&self, path: &str, headers: &[(&str, &str)], body: &Json) -> Answer {
        let request = self.client.post(format!("{}{path}", self.url));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        TestServer::read(request.send(body.to_string()).expect("an answer"))
    }

    fn read(mut response: ureq::http::Response<ureq::Body>) -> Answer {
        let body = response.body_mut().read_to_vec().expect("a body");
        Answer { status: response.status().as_u16(), headers: response.headers().clone(), body }
    }
}

/// Proves the OpenAPI part of N4: the document of each system is at `/openapi.json`.
#[test]
fn the_document_of_each_system_is_served_without_a_token() {
    let server = TestServer::all_systems();
    for system in systems() {
        let answer = server.get(&format!("/{}/openapi.json", system.name), &[]);
        assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"));
        let document: Json = serde_json::from_slice(&answer.body).expect("JSON");
        assert_eq!(document["info"]["title"], system.name.as_str());
        assert_eq!(document["servers"][0]["url"], format!("/{}", system.name));
        let known = server.get(&format!("/{}/openapi.json", system.name), &[("if-none-match", answer.header("etag"))]);
        assert_eq!((known.status, known.body.len()), (304, 0));
    }
}

#[test]
fn a_page_loads_only_files_of_the_server() {
    let server = TestServer::all_systems();
    let page = server.get("/todo/docs", &[]);
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    assert!(page.header("content-security-policy").starts_with("default-src 'none'; script-src 'self';"));
    let text = page.text();
    assert!(!text.contains("http://") && !text.contains("https://") && !text.contains("<style"), "{text}");
    let named: Vec<_> = text.split('"').filter(|part| part.starts_with("docs/")).collect();
    assert_eq!(named, ["docs/swagger-ui.css", "docs/page.css", "docs/swagger-ui.js", "docs/page.js"]);
    for name in named {
        let asset = server.get(&format!("/todo/{name}"), &[("accept-encoding", "gzip")]);
        assert_eq!(asset.status, 200, "{name}");
        assert!(asset.body.len() > 100, "{name}");
        let known = server.get(&format!("/todo/{name}"), &[("if-none-match", asset.header("etag"))]);
        assert_eq!((known.status, known.body.len()), (304, 0), "{name}");
        assert_eq!(asset.header("content-encoding") == "gzip", name.contains("swagger"), "{name}");
    }
}

#[test]
fn the_root_links_to_the_pages() {
    let server = TestServer::all_systems();
    let index = server.get("/", &[]);
    assert_eq!(index.status, 200);
    for system in systems() {
        assert!(index.text().contains(&format!("<a href=\"/{0}/docs\">{0}</a>", system.name)), "{}", index.text());
        for path in [format!("/{}", system.name), format!("/{}/", system.name)] {
            let answer = server.get(&path, &[]);
            assert_eq!((answer.status, answer.header("location")), (302, format!("/{}/docs", system.name).as_str()));
        }
    }
}

#[test]
fn a_system_alone_has_its_page_at_the_root() {
    let system = systems().find(|system| system.name == "todo").expect("the system");
    let server = TestServer::serve([(String::new(), system)]);
    let answer = server.get("/", &[]);
    assert_eq!((answer.status, answer.header("location")), (302, "/docs"));
    let document: Json = serde_json::from_slice(&server.get("/openapi.json", &[]).body).expect("JSON");
    assert_eq!(document["servers"][0]["url"], "/");
}

/// The checker refuses such a path, but a design that code has built may have it.
#[test]
fn a_route_of_the_design_replaces_the_page_at_its_path() {
    let source = r#"
        name    = "library"
        version = "1.0"

        [tenant]
        field = "teamId"

        [table.app]
        key = ["PK", "SK"]

        [entity.doc]
        table = "app"
        key   = { PK = "TEAM#{teamId}", SK = "DOC#{docId}" }

        [entity.doc.fields]
        teamId = { type = "string", min = 1, max = 64 }
        docId  = { type = "ulid", default = "new" }

        [access.papers]
        entity = "doc"
    "#;
    let source = source.replace("[entity.doc]", "[entity.doc]\npath = \"/papers-of-team\"");
    let mut design = design(&source);
    design.access_patterns[0].path = Some("/docs".to_owned());
    let server = TestServer::serve([(String::new(), System::plain(design))]);
    assert_eq!(server.get("/docs", &[]).status, 401);
    assert_eq!(server.get("/openapi.json", &[]).status, 200);
}

#[test]
fn texts_of_a_design_are_escaped_in_pages() {
    let mut design = systems().next().expect("a system").design;
    design.description = Some("<script>alert(1)</script>".to_owned());
    let server = TestServer::serve([("/x".to_owned(), System::named("<b>\"x", design))]);
    let index = server.get("/", &[]).text();
    assert!(index.contains("&lt;script&gt;") && !index.contains("<script>") && !index.contains("<b>"), "{index}");
    assert!(!server.get("/x/docs", &[]).text().contains("<b>"));
}

#[test]
fn in_development_the_page_signs_in_with_the_local_issuer() {
    let json = [("content-type", "application/json")];
    let system = systems().find(|system| system.name == "aiagent").expect("the system");
    let design = system.design.clone();
    let wanted = serde_json::json!({ "tenant": "t-1", "role": design.roles[0].name });
    let server = TestServer::start([(String::new(), system)], true);
    let found: Json = serde_json::from_slice(&server.get("/docs/sign-in", &[]).body).expect("JSON");
    let roles: Vec<_> = design.roles.iter().map(|role| role.name.as_str()).collect();
    assert_eq!(found["data"]["roles"], serde_json::json!(roles));
    let answer = server.post("/docs/sign-in", &json, &wanted);
    assert_eq!((answer.status, answer.header("cache-control")), (200, "no-store"));
    let answer: Json = serde_json::from_slice(&answer.body).expect("JSON");
    let bearer = format!("Bearer {}", answer["data"]["token"].as_str().expect("a token"));
    // The token is accepted; the store of this test has no tables.
    let users = format!("{}/users", design.http_prefix);
    assert_eq!(server.get(&users, &[("authorization", &bearer)]).status, 503);

    // A foreign host name, a proxy, and a form of another site get no token.
    for header in [
        ("host", "evil.example"),
        ("host", "evil.example@localhost"),
        ("origin", "https://evil.example"),
        ("x-forwarded-for", "192.0.2.1"),
        ("x-forwarded-proto", "https"),
        ("x-real-ip", "192.0.2.1"),
        ("via", "1.1 proxy"),
    ] {
        assert_eq!(server.get("/docs/sign-in", &[header]).status, 404, "{header:?}");
        assert_eq!(server.post("/docs/sign-in", &[json[0], header], &wanted).status, 404, "{header:?}");
    }
    assert_eq!(server.post("/docs/sign-in", &[("content-type", "text/plain")], &wanted).status, 415);
}

#[test]
fn without_the_local_issuer_the_page_has_no_sign_in() {
    let system = systems().next().expect("a system");
    let server = TestServer::serve([(String::new(), system)]);
    let json = [("content-type", "application/json")];
    assert_eq!(server.get("/docs/sign-in", &[]).status, 404);
    assert_eq!(server.post("/docs/sign-in", &json, &serde_json::json!({ "tenant": "t-1" })).status, 404);
}
