//! An extension that shows callers less of an item than the store has.

use std::sync::Arc;

use axum::http::Method;
use nagaya_server::{Answer, Call, CustomRoute, Extension, ExtensionFuture, Problem, System};
use nagaya_tenancy::Record;
use nagaya_testing::{Client, Response, TestServer, parse_design};
use serde_json::{Map, Value as Json, json};

const LIBRARY: &str = r#"
name    = "library"
version = "1.0"

[tenant]
field = "tenantId"

[table.main]
key = ["PK", "SK"]

[entity.book]
table   = "main"
key     = { PK = "TENANT#{tenantId}", SK = "BOOK#{bookId}" }
version = "version"

[entity.book.fields]
tenantId = { type = "string", min = 1, max = 64 }
bookId   = { type = "string", min = 1, max = 64 }
title    = { type = "string", min = 1, max = 64 }
text     = { type = "string", max = 1000 }

[access.books]
entity = "book"

[access.book_texts]
entity     = "book"
projection = ["bookId", "text"]

[access.first_book]
entity  = "book"
returns = "one"
"#;

/// Shows the text of books to one user only.
struct Librarian;

impl Extension for Librarian {
    fn routes(&self) -> Vec<CustomRoute> {
        vec![CustomRoute::new(Method::GET, "/favourite", "The favourite book.", |call: Arc<Call>| async move {
            Ok(Answer::record(call.tenant()?.get("book", &["b1"]).await?))
        })]
    }

    fn restrict<'a>(
        &'a self,
        call: &'a Call,
        records: &'a mut [Record],
    ) -> Option<ExtensionFuture<'a, Result<(), Problem>>> {
        Some(Box::pin(async move {
            if &*call.caller.user != "reader" {
                let shown: Arc<[String]> = ["bookId", "title", "version"].map(str::to_owned).into();
                let added: Map<String, Json> = [("abridged".to_owned(), true.into())].into_iter().collect();
                records.iter_mut().for_each(|record| record.restrict(&shown, added.clone()));
            }
            Ok(())
        }))
    }
}

fn library() -> TestServer {
    TestServer::in_memory(System::new("library", parse_design(LIBRARY), Librarian))
}

#[test]
fn an_extension_restricts_the_items_of_every_answer() {
    let server = library();
    let (reader, guest) = (server.client_of_user("t1", "reader"), server.client_of_user("t1", "guest"));
    let book = json!({ "bookId": "b1", "title": "Emma", "text": "Emma Woodhouse, handsome" });
    let whole = reader.post("/books", &book).expect_data(201);
    assert_eq!(whole["text"], book["text"]);
    let abridged = json!({ "bookId": "b1", "title": "Emma", "version": 1, "abridged": true });

    let one = |client: &Client<'_>, path: &str| match client.get(path).expect_data(200) {
        Json::Array(mut list) => list.remove(0),
        item => item,
    };
    for path in ["/books/b1", "/books", "/first-book", "/favourite"] {
        assert_eq!(one(&reader, path), whole, "{path}");
        assert_eq!(one(&guest, path), abridged, "{path}");
    }
    // What the access pattern leaves out is not shown again.
    assert_eq!(one(&guest, "/book-texts"), json!({ "bookId": "b1", "abridged": true }));
    // Answers to writes are restricted too.
    let changed = guest.patch("/books/b1", &json!({ "title": "Persuasion" })).expect_data(200);
    assert_eq!(changed, json!({ "bookId": "b1", "title": "Persuasion", "version": 2, "abridged": true }));
    let made = guest.post("/books", &json!({ "bookId": "b2", "title": "Sanditon", "text": "A gentleman" }));
    assert_eq!(made.expect_data(201).get("text"), None);
}

#[test]
fn the_tag_of_a_restricted_item_follows_from_what_is_shown() {
    let server = library();
    let (reader, guest) = (server.client_of_user("t1", "reader"), server.client_of_user("t1", "guest"));
    reader.post("/books", &json!({ "bookId": "b1", "title": "Emma", "text": "Emma Woodhouse" })).expect_data(201);
    let tag = |answer: &Response| answer.header("etag").expect("a tag").to_owned();
    for path in ["/books/b1", "/first-book"] {
        let (whole, abridged) = (tag(&reader.get(path)), tag(&guest.get(path)));
        assert_ne!(whole, abridged);
        for (client, known, status) in
            [(&reader, &whole, 304), (&reader, &abridged, 200), (&guest, &abridged, 304), (&guest, &whole, 200)]
        {
            let answer = client.with_header("if-none-match", known).get(path);
            assert_eq!(answer.status, status, "{path}");
            assert_eq!(tag(&answer) == *known, status == 304, "{path}");
        }
    }
}
