//! Whole OpenAPI documents.

use std::collections::BTreeSet;

use nagaya_server::{CustomRoute, Document, RequiredCaller, Route, System, document, routes};
use serde_json::{Value as Json, json};

use super::{NOW, design, of, operations, resolved, systems};

/// Proves the OpenAPI part of N4: the document of each system is one of OpenAPI 3.1.
#[test]
fn every_document_is_valid_openapi() {
    let specification: Json = serde_json::from_str(include_str!("openapi-3.1.schema.json")).expect("JSON");
    let specification = jsonschema::draft202012::new(&specification).expect("a schema");
    for system in systems() {
        let document = of(&system);
        let wrong: Vec<_> = specification.iter_errors(&document).map(|error| error.to_string()).collect();
        assert!(wrong.is_empty(), "{}: {wrong:?}", system.name);
        for (name, schema) in document["components"]["schemas"].as_object().expect("schemas") {
            assert!(jsonschema::meta::is_valid(schema), "{} {name}", system.name);
        }
    }
}

#[test]
fn every_route_is_an_operation_with_a_unique_id() {
    for system in systems() {
        let document = of(&system);
        let mut described: Vec<_> =
            operations(&document).iter().map(|(method, path, _)| normalized(method, path)).collect();
        let route = |route: &Route| normalized(route.method.as_str(), &route.path);
        let mut served: Vec<_> = routes(&system.design).iter().map(route).collect();
        described.sort();
        served.sort();
        assert_eq!(described, served, "{}", system.name);
        let names: BTreeSet<_> =
            operations(&document).iter().map(|(.., each)| each["operationId"].to_string()).collect();
        assert_eq!(names.len(), described.len(), "{}", system.name);
    }
}

/// A method and a path without the names of its parameters.
fn normalized(method: &str, path: &str) -> String {
    let segment = |segment: &str| if segment.starts_with('{') { "{}".to_owned() } else { segment.to_owned() };
    format!("{} {}", method.to_uppercase(), path.split('/').map(segment).collect::<Vec<_>>().join("/"))
}

#[test]
fn every_reference_resolves() {
    fn visit(document: &Json, value: &Json) {
        resolved(document, value);
        match value {
            Json::Object(values) => values.values().for_each(|value| visit(document, value)),
            Json::Array(values) => values.iter().for_each(|value| visit(document, value)),
            _ => {}
        }
    }
    for system in systems() {
        let document = of(&system);
        visit(&document, &document);
        let names: BTreeSet<_> =
            operations(&document).iter().filter_map(|(.., each)| each["operationId"].as_str()).collect();
        for (_, path, operation) in operations(&document) {
            for link in operation["responses"]["201"]["links"].as_object().into_iter().flat_map(|links| links.values())
            {
                assert!(link["operationId"].as_str().is_some_and(|name| names.contains(name)), "{path}: {link}");
            }
        }
    }
}

#[test]
fn the_parameters_of_a_path_are_those_of_its_operations() {
    for system in systems() {
        let document = of(&system);
        for (method, path, operation) in operations(&document) {
            let parameters = operation["parameters"].as_array().map_or(&[][..], Vec::as_slice);
            let parameters = parameters.iter().map(|parameter| resolved(&document, parameter));
            let described: BTreeSet<_> = parameters
                .filter(|parameter| parameter["in"] == "path")
                .map(|parameter| format!("{{{}}}", parameter["name"].as_str().unwrap_or_default()))
                .collect();
            let there = path.split('/').filter(|segment| segment.starts_with('{')).map(str::to_owned).collect();
            assert_eq!(described, there, "{} {method} {path}", system.name);
        }
    }
}

const NOTES: &str = r#"
name        = "notes"
version     = "1.2"
description = "Notes of teams."

[tenant]
field = "teamId"

[role.writer]
may = ["*"]

[role.reader]
may = ["note.read"]

[table.app]
key        = ["PK", "SK"]
index.GSI1 = ["GSI1PK", "GSI1SK"]
ttl        = "expiresAt"

[entity.author]
table = "app"
key   = { PK = "TEAM#{teamId}", SK = "AUTHOR#{authorId}" }

[entity.author.fields]
teamId   = { type = "string", min = 1, max = 64 }
authorId = { type = "ulid", default = "new" }
name     = { type = "string", min = 1, max = 100, personal = true }

[entity.note]
table       = "app"
description = "Something to remember."
key         = { PK = "TEAM#{teamId}", SK = "NOTE#{noteId}" }
version     = "version"
unique      = [{ fields = ["title"], within = "tenant" }]
index.GSI1  = { GSI1PK = "TEAM#{teamId}#AUTHOR#{authorId}", GSI1SK = "{createdAt}#{noteId}" }

[entity.note.fields]
teamId    = { type = "string", min = 1, max = 64 }
noteId    = { type = "ulid", default = "new" }
authorId  = { type = "ulid", references = { entity = "author" } }
title     = { type = "string", min = 1, max = 200 }
text      = { type = "string", max = 5000, optional = true }
pin       = { type = "string", max = 20, secret = true, optional = true }
tags      = { type = "list", max = 10, items = { type = "string", max = 50 }, default = [] }
createdAt = { type = "timestamp", default = "now", immutable = true }
expiresAt = { type = "timestamp", precision = "epoch", optional = true }

[access.notes]
entity = "note"

[access.notes_of_author]
description = "The notes of an author in a time."
entity      = "note"
index       = "GSI1"
by          = ["authorId"]
range       = "createdAt"
order       = "desc"
limit       = 20

[access.authors]
entity = "author"
"#;

/// Proves the OpenAPI part of N4: everything that a document says, at the example of a small design.
#[test]
fn a_document_describes_the_whole_design() {
    let document = document(&System::plain(design(NOTES)), "", NOW);
    insta::assert_snapshot!("notes", serde_json::to_string_pretty(&document).expect("JSON"));
}

#[test]
fn equal_names_get_a_number() {
    let source = NOTES.replace("entity.author]", "entity.problem]").replace("entity.author.", "entity.problem.");
    let source =
        source.replace("entity = \"author\"", "entity = \"problem\"").replace("[access.notes]", "[access.read_note]");
    let document = document(&System::plain(design(&source)), "", NOW);
    let schemas: Vec<_> = document["components"]["schemas"].as_object().expect("schemas").keys().collect();
    assert_eq!(schemas, ["NewNote", "NewProblem", "Note", "NotePatch", "Problem", "Problem2", "ProblemPatch"]);
    let failure = &document["components"]["responses"]["NotFound"]["content"]["application/problem+json"]["schema"];
    assert_eq!(failure["$ref"], "#/components/schemas/Problem2");
    let ids: Vec<_> = operations(&document).iter().filter_map(|(.., each)| each["operationId"].as_str()).collect();
    assert!(ids.contains(&"readNote") && ids.contains(&"readNote2"), "{ids:?}");
}

/// A system with a custom route.
struct Desk;

impl nagaya_server::Extension for Desk {
    fn routes(&self) -> Vec<CustomRoute> {
        let answer = json!({ "$ref": "#/components/schemas/Note" });
        let done = |_| async { Ok(nagaya_server::Answer::data(json!({}))) };
        vec![
            CustomRoute::new(axum::http::Method::POST, "/notes/{noteId}/pin", "Pins a note.", done)
                .requires_permission("note", nagaya_design::Verb::Update)
                .body(json!({ "type": "object", "properties": { "pin": { "type": "string" } } }))
                .answers(200, Some(answer)),
            CustomRoute::new(axum::http::Method::GET, "/notes", "The notes, in another way.", done)
                .caller(RequiredCaller::Anyone),
            CustomRoute::new(axum::http::Method::GET, "/pins", "Pinned notes.", done)
                .parameter(json!({ "name": "since", "in": "query", "schema": { "type": "string" } }))
                .parameter(json!({ "$ref": "#/components/parameters/IfNoneMatch" }))
                .answers_pages_of(json!({ "$ref": "#/components/schemas/Note" })),
            CustomRoute::new(axum::http::Method::GET, "/news", "What happens.", done)
                .answers_stream("text/event-stream"),
        ]
    }

    fn customize_openapi(&self, document: &mut Document) {
        document.remove_from_bodies("note", "authorId");
        document.remove_from_patch("note", "title");
        document.narrow_field("note", "text", &json!({ "maxLength": 10 }));
        if let Some(create) = document.operation("createNote") {
            create["responses"]["402"] = json!({ "description": "Notes cost something." });
        }
    }
}

#[test]
fn custom_routes_are_in_the_document() {
    let document = document(&System::new("desk", design(NOTES), Desk), "/desk", NOW);
    let pin = &document["paths"]["/notes/{noteId}/pin"]["post"];
    assert_eq!(pin["operationId"], "postNotesPin");
    assert_eq!(pin["summary"], "Pins a note");
    assert_eq!(pin["tags"], json!(["note"]));
    assert_eq!(pin["parameters"][0]["schema"]["pattern"], "^(?:[0-7][0-9A-HJKMNP-TV-Z]{25})$");
    let data = &pin["responses"]["200"]["content"]["application/json"]["schema"]["properties"]["data"];
    assert_eq!(data["$ref"], "#/components/schemas/Note");
    assert!(pin["description"].as_str().is_some_and(|text| text.contains("`note.update`: the role `writer`")), "{pin}");
    // It replaces the derived route.
    assert_eq!(document["paths"]["/notes"]["get"]["operationId"], "getNotes");
    assert_eq!(document["paths"]["/notes"]["get"]["tags"], json!(["notes"]));
    assert_eq!(document["servers"], json!([{ "url": "/desk" }]));
}

#[test]
fn the_document_has_parameters_and_answers_of_custom_routes() {
    let document = document(&System::new("desk", design(NOTES), Desk), "/desk", NOW);
    let pins = &document["paths"]["/pins"]["get"];
    assert_eq!(pins["parameters"][0]["name"], "since");
    let page = &pins["responses"]["200"]["content"]["application/json"]["schema"]["properties"];
    assert_eq!(page["data"]["items"]["$ref"], "#/components/schemas/Note");
    assert_eq!(page["nextCursor"]["type"], "string");
    // With `If-None-Match` it may answer 304.
    assert!(pins["responses"].get("304").is_some() && pins.get("x-nagaya-stream").is_none(), "{pins}");

    let news = &document["paths"]["/news"]["get"];
    let kinds: Vec<_> = news["responses"]["200"]["content"].as_object().expect("kinds").keys().collect();
    assert_eq!(kinds, ["text/event-stream"]);
    assert!(news["responses"].get("304").is_none(), "{news}");
    // Clients that wait for the end of a response skip it.
    assert_eq!(news["x-nagaya-stream"], true);
}

#[test]
fn an_extension_completes_the_document() {
    let document = document(&System::new("desk", design(NOTES), Desk), "/desk", NOW);
    let schemas = &document["components"]["schemas"];
    // A field that callers cannot set is not required, and not in the example.
    assert!(schemas["NewNote"]["properties"].get("authorId").is_none());
    assert_eq!(schemas["NewNote"]["required"], json!(["title"]));
    let create = &document["paths"]["/notes"]["post"];
    assert_eq!(create["requestBody"]["content"]["application/json"]["example"], json!({ "title": "title" }));
    assert_eq!(create["responses"]["402"]["description"], "Notes cost something.");
    assert!(schemas["NotePatch"]["properties"].get("title").is_none());
    assert_eq!(schemas["NotePatch"]["properties"]["text"]["maxLength"], 10);
    // The schema of the stored item does not change.
    assert_eq!(schemas["Note"]["properties"]["text"]["maxLength"], 5000);
    assert!(schemas["Note"]["properties"].get("authorId").is_some());
}
