//! The document and the page to read it, as they are served.

use std::{sync::Arc, time::Duration};

use nagaya_embedded::{Embedded, Options};
use nagaya_server::{Claims, Issuer, Limits, LocalIssuer, Server, System, Verifier};
use nagaya_store::Clock;
use nagaya_tenancy::Nagaya;
use serde_json::Value as Json;

use super::{design, systems};

/// Systems that are served until this is dropped.
struct House {
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

impl House {
    fn serve(systems: impl IntoIterator<Item = (String, System)>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let url = runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let url = format!("http://{}", listener.local_addr().expect("an address"));
            let issuer = Arc::new(LocalIssuer::in_memory().expect("an issuer"));
            let mut server = Server::new(Limits::default());
            for (mount, system) in systems {
                let nagaya = Nagaya::open(system.design.clone(), Embedded::memory(Options::default()).expect("memory"));
                let verifier = Verifier::new(Claims::of(&system.design), Clock::system());
                let verifier = verifier.trust(&Issuer::local(&issuer), &system.name);
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
        House { url, client, _runtime: runtime }
    }

    /// All systems, each below its name.
    fn whole() -> Self {
        House::serve(systems().map(|system| (format!("/{}", system.name), system)))
    }

    fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let request = self.client.get(format!("{}{path}", self.url));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let mut response = request.call().expect("an answer");
        let body = response.body_mut().read_to_vec().expect("a body");
        Answer { status: response.status().as_u16(), headers: response.headers().clone(), body }
    }
}

/// Proves the OpenAPI part of N4: the document of each system is at `/openapi.json`.
#[test]
fn the_document_of_each_system_is_there_without_a_token() {
    let house = House::whole();
    for system in systems() {
        let answer = house.get(&format!("/{}/openapi.json", system.name), &[]);
        assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"));
        let document: Json = serde_json::from_slice(&answer.body).expect("JSON");
        assert_eq!(document["info"]["title"], system.name.as_str());
        assert_eq!(document["servers"][0]["url"], format!("/{}", system.name));
        let known = house.get(&format!("/{}/openapi.json", system.name), &[("if-none-match", answer.header("etag"))]);
        assert_eq!((known.status, known.body.len()), (304, 0));
    }
}

#[test]
fn a_page_brings_everything_with_it_and_lets_nothing_else_in() {
    let house = House::whole();
    let page = house.get("/todo/docs", &[]);
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    assert!(page.header("content-security-policy").starts_with("default-src 'none'; script-src 'self';"));
    let text = page.text();
    assert!(!text.contains("http://") && !text.contains("https://") && !text.contains("<style"), "{text}");
    let named: Vec<_> = text.split('"').filter(|part| part.starts_with("docs/")).collect();
    assert_eq!(named, ["docs/swagger-ui.css", "docs/page.css", "docs/swagger-ui.js", "docs/page.js"]);
    for name in named {
        let asset = house.get(&format!("/todo/{name}"), &[("accept-encoding", "gzip")]);
        assert_eq!(asset.status, 200, "{name}");
        assert!(asset.body.len() > 100, "{name}");
        let known = house.get(&format!("/todo/{name}"), &[("if-none-match", asset.header("etag"))]);
        assert_eq!((known.status, known.body.len()), (304, 0), "{name}");
        assert_eq!(asset.header("content-encoding") == "gzip", name.contains("swagger"), "{name}");
    }
}

#[test]
fn the_way_to_the_page_starts_at_the_root() {
    let house = House::whole();
    let index = house.get("/", &[]);
    assert_eq!(index.status, 200);
    for system in systems() {
        assert!(index.text().contains(&format!("<a href=\"/{0}/docs\">{0}</a>", system.name)), "{}", index.text());
        for path in [format!("/{}", system.name), format!("/{}/", system.name)] {
            let answer = house.get(&path, &[]);
            assert_eq!((answer.status, answer.header("location")), (302, format!("/{}/docs", system.name).as_str()));
        }
    }
}

#[test]
fn a_system_alone_has_its_page_at_the_root() {
    let system = systems().find(|system| system.name == "todo").expect("the system");
    let house = House::serve([(String::new(), system)]);
    let answer = house.get("/", &[]);
    assert_eq!((answer.status, answer.header("location")), (302, "/docs"));
    let document: Json = serde_json::from_slice(&house.get("/openapi.json", &[]).body).expect("JSON");
    assert_eq!(document["servers"][0]["url"], "/");
}

/// A design may have an entity whose items are documents.
#[test]
fn a_route_of_the_design_keeps_its_place() {
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

        [access.docs]
        entity = "doc"
    "#;
    let house = House::serve([(String::new(), System::plain(design(source)))]);
    assert_eq!(house.get("/docs", &[]).status, 401);
    assert_eq!(house.get("/openapi.json", &[]).status, 200);
}

#[test]
fn what_a_design_says_cannot_break_out_of_the_page() {
    let mut design = systems().next().expect("a system").design;
    design.description = Some("<script>alert(1)</script>".to_owned());
    let house = House::serve([("/x".to_owned(), System::named("<b>\"x", design))]);
    let index = house.get("/", &[]).text();
    assert!(index.contains("&lt;script&gt;") && !index.contains("<script>") && !index.contains("<b>"), "{index}");
    assert!(!house.get("/x/docs", &[]).text().contains("<b>"));
}
