//! The product on a store in memory, and helpers for all tests.

use std::path::Path;

use nagaya_design::{Design, check};
use nagaya_server::System;
pub(crate) use nagaya_testing::{Client, Response, TestServer, text};
use nagaya_todo::LongNoteStorage;
use serde_json::{Value as Json, json};

pub(crate) fn design() -> Design {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("design/todo.toml");
    let source = std::fs::read_to_string(path).expect("the design is there");
    check(&source, &[]).design.expect("the design is sound")
}

pub(crate) fn system() -> System {
    nagaya_todo::system("todo", design(), LongNoteStorage::in_memory()).expect("the aggregate is there")
}

/// The product on a store in memory.
pub(crate) fn todo_server() -> TestServer {
    TestServer::in_memory(system())
}

/// Requests that wait for the projection.
pub(crate) trait TodoClient {
    /// Creates a todo, and waits until the projection has it.
    fn create(&self, title: &str) -> Json;

    /// Reads a todo as soon as the projection has the event of this response.
    fn synced(&self, todo: &Json) -> Response;

    /// Waits until a list has these titles: an index lags behind its table.
    fn wait_for_list(&self, path: &str, titles: &[&str]) -> Response;
}

impl TodoClient for Client<'_> {
    #[track_caller]
    fn create(&self, title: &str) -> Json {
        let made = self.post("/todos", &json!({ "title": title })).expect_data(201);
        self.synced(&made).expect_data(200);
        made
    }

    #[track_caller]
    fn synced(&self, todo: &Json) -> Response {
        self.get(&format!("/todos/{}?after={}", text(todo, "todoId"), text(todo, "lastEventId")))
    }

    #[track_caller]
    fn wait_for_list(&self, path: &str, titles: &[&str]) -> Response {
        self.get_until(path, |answer| titles_of(&answer.list()) == titles)
    }
}

pub(crate) fn titles_of(list: &[Json]) -> Vec<&str> {
    list.iter().map(|todo| text(todo, "title")).collect()
}

/// The path of a todo.
pub(crate) fn path(todo: &Json) -> String {
    format!("/todos/{}", text(todo, "todoId"))
}
