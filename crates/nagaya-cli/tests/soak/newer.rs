//! A newer version of the todo system: it writes events that the served one does not know.

use std::{fs, path::Path, sync::Arc};

use nagaya::{
    Nagaya, Principal, Settings, design,
    embedded::{EmbeddedStore, Options},
};
use nagaya_events::{CommandRequest, Context, Decide, Events, Evolve};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::common::root;

/// A todo whose events are not looked at.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct NewerTodo {}

impl Evolve for NewerTodo {
    type Event = Json;

    fn evolve(&mut self, _: &Json) {}

    /// The state of the served version is another one, so neither reads snapshots of the other.
    fn schema_version() -> u32 {
        4_711
    }
}

impl Decide<()> for NewerTodo {
    type Reply = ();
    type Refusal = ();

    fn decide(&self, (): &(), _: &Context) -> Result<Vec<Json>, ()> {
        Ok(vec![json!({ "eventType": "TodoShared", "data": {} })])
    }

    fn reply(&self, (): &()) {}
}

/// Appends an unknown event to each of these todos of the tenant `demo`.
pub(crate) fn append_unknown_events(data: &Path, ids: &[String]) {
    let design = fs::read_to_string(root().join("systems/todo/design/todo.toml")).expect("a design");
    let design = design
        .replace("\nTodoDeleted      = {}", "\nTodoDeleted      = {}\nTodoShared       = {}")
        .replace(r#""TodoDeleted"]"#, r#""TodoDeleted", "TodoShared"]"#);
    let checked = design::check(&design, &[]);
    let design = checked.design.unwrap_or_else(|| panic!("{:#?}", checked.diagnostics));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let events: Arc<Events<NewerTodo>> =
            Arc::new(Events::new(&design, "todo", Default::default()).expect("an aggregate"));
        let store = EmbeddedStore::open(data, Options::default()).expect("the directory opens");
        let nagaya = Nagaya::open_with(design, store, Settings { prefix: "todo/".to_owned(), ..Settings::default() });
        let tenant = nagaya.tenant(&Principal::new("demo", "newer")).expect("a tenant");
        for id in ids {
            let (now, ids) = (nagaya.clock().millis(), nagaya.ids());
            let (user, cause) = ("newer".to_owned(), "a newer version".to_owned());
            let context = Context { now, user, correlation: cause.clone(), causation: cause, ids };
            let request = CommandRequest { expected: None, idempotency: None, context };
            events.execute(&tenant, id, &(), &request).await.expect("it is appended");
        }
    });
}
