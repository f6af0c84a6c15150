//! The operation that reads the operator log.

use serde_json::{Value as Json, json};

use super::{Source, parameters, responses};

pub(super) fn operation(source: &Source<'_>) -> Json {
    let instant = |name: &str, description: &str| {
        let schema = json!({ "type": "string", "format": "date-time" });
        json!({ "name": name, "in": "query", "description": description, "schema": schema })
    };
    let mut page = responses::data("The entries, the oldest first.", json!({ "type": "array", "items": entry() }));
    responses::paged(&mut page);
    json!({
        "tags": [source.design.name],
        "summary": "Read what operators did",
        "description": "Pages of at most 100 entries, the oldest first. Reading the log is an entry of the log itself.",
        "parameters": [
            instant("from", "Entries from this instant on."),
            instant("to", "Entries before this instant."),
            parameters::reference("Cursor"),
        ],
        // Reading writes an entry: 507.
        "responses": responses::all(vec![(200, page)], &[507]),
    })
}

/// The schema of an entry.
fn entry() -> Json {
    let text = |description: &str| json!({ "type": "string", "description": description });
    let optional = |description: &str| json!({ "type": ["string", "null"], "description": description });
    let properties = json!({
        "number": {
            "type": ["integer", "null"],
            "description": "Its number in the hash chain; `null` if it was written before the log had one.",
        },
        "at": { "type": "string", "format": "date-time" },
        "action": text("What was done, such as `user.read`."),
        "operator": text("Who did it."),
        "issuer": optional("The issuer of the operator's token; `null` if it was done without a token."),
        "reason": text("Why."),
        "tenant": optional("The tenant that it concerns."),
        "target": text("The id of the item, or the name of the access pattern."),
        "changes": {
            "type": "object",
            "description": "The changed fields, each with its `old` and `new` value; personal data masked.",
        },
        "requestId": optional("The request that it was part of."),
        "address": optional("Where the request came from."),
    });
    let required: Vec<_> = properties.as_object().into_iter().flat_map(|all| all.keys()).collect();
    json!({ "type": "object", "required": required, "properties": properties })
}
