//! The product on a store in memory, and what all tests of it need.

use std::path::Path;

use nagaya_design::{Design, check};
use nagaya_server::System;
pub(crate) use nagaya_testing::{Client, Response, TestServer, text};
use nagaya_todo::Notes;
use serde_json::{Value as Json, json};

pub(crate) fn design() -> Design {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("design/todo.toml");
    let source = std::fs::read_to_string(path).expect("the design is there");
    check(&source, &[]).design.expect("the design is sound")
}

pub(crate) fn system() -> System {
    nagaya_todo::system("todo", design(), Notes::in_memory()).expect("the aggregate is there")
}

/// The product on a store in memory.
pub(crate) fn todos() -> TestServer {
    TestServer::in_memory(system())
}

/// What somebody does who uses lists.
pub(crate) trait Lists {
    /// Makes a todo; once the list has it.
    fn make(&self, title: &str) -> Json;

    /// A todo once the list has what an answer says.
    fn synced(&self, todo: &Json) -> Response;

    /// A list that comes to have these titles: an index may follow its table soon, and not at once.
    fn lists(&self, path: &str, titles: &[&str]) -> Response;
}

impl Lists for Client<'_> {
    #[track_caller]
    fn make(&self, title: &str) -> Json {
        let made = self.post("/todos", &json!({ "title": title })).data(201);
        self.synced(&made).data(200);
        made
    }

    #[track_caller]
    fn synced(&self, todo: &Json) -> Response {
        self.get(&format!("/todos/{}?after={}", text(todo, "todoId"), text(todo, "lastEventId")))
    }

    #[track_caller]
    fn lists(&self, path: &str, titles: &[&str]) -> Response {
        self.until(path, |answer| titles_of(&answer.list()) == titles)
    }
}

pub(crate) fn titles_of(list: &[Json]) -> Vec<&str> {
    list.iter().map(|todo| text(todo, "title")).collect()
}

/// The path of a todo.
pub(crate) fn path(todo: &Json) -> String {
    format!("/todos/{}", text(todo, "todoId"))
}
