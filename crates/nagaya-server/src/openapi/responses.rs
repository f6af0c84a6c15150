//! Responses: what can come back, with which headers, and which problems.

use nagaya_design::{Entity, ResultKind};
use serde_json::{Map, Value as Json, json};

use crate::ProblemCode;

/// The statuses of problems that operations share: each with the name of its response, and what it means.
const PROBLEMS: [(u16, &str, &str); 14] = [
    (400, "BadRequest", "A parameter, a header or the form of the body is wrong."),
    (401, "Unauthorized", "The token is missing or not accepted."),
    (403, "Forbidden", "The token does not allow this."),
    (404, "NotFound", "It does not exist, or it belongs to another tenant."),
    (409, "Conflict", "An existing item conflicts with it, or a referenced item does not exist."),
    (412, "VersionConflict", "The item has changed since the version that `If-Match` names."),
    (413, "TooLarge", "The body, or the item that it would create, is too large."),
    (415, "NotJson", "The `Content-Type` of the body is not JSON."),
    (422, "Invalid", "The fields do not fit; `errors` says which and why."),
    (429, "TooMany", "The tenant sends too many requests; `Retry-After` says how long to wait."),
    (500, "Internal", "The server failed."),
    (503, "Unavailable", "It cannot be done now; `Retry-After` says how long to wait."),
    (504, "TimedOut", "It took too long; it is unknown whether it had an effect."),
    (507, "OutOfSpace", "The store has no space left."),
];

/// The statuses of problems that every operation can answer with.
const OF_EVERY_OPERATION: [u16; 7] = [400, 401, 403, 429, 500, 503, 504];

/// The responses with problems that operations share, by name; `schema` is the name of the schema of a problem.
pub(super) fn shared(schema: &str) -> Json {
    let mut responses = Map::new();
    for (status, name, meaning) in PROBLEMS {
        let codes: Vec<_> = ProblemCode::ALL.iter().filter(|code| code.status == status && code.in_openapi).collect();
        let listed = codes.iter().map(|code| format!("`{}`", code.code)).collect::<Vec<_>>().join(", ");
        let example = codes.first().map(|code| {
            json!({
                "type": format!("urn:nagaya:problem:{}", code.code),
                "title": code.title(),
                "status": status,
                "code": code.code,
                "detail": meaning,
                "requestId": "01KG9S5Q60T4N2Y8ZC3M7VXR1E",
            })
        });
        let description = format!("{meaning} {}: {listed}.", if codes.len() == 1 { "Code" } else { "Codes" });
        let mut response = problem_response(schema, &description);
        response["content"]["application/problem+json"]["example"] = example.into();
        match status {
            429 | 503 => {
                response["headers"]["Retry-After"] = json!({ "$ref": "#/components/headers/RetryAfter" });
            }
            401 => {
                response["headers"]["WWW-Authenticate"] = json!({ "$ref": "#/components/headers/Challenge" });
            }
            _ => {}
        }
        responses.insert(name.to_owned(), response);
    }
    responses.into()
}

/// A response with a problem; `schema` is the name of the schema of a problem.
pub(super) fn problem_response(schema: &str, meaning: &str) -> Json {
    json!({
        "description": meaning,
        "headers": request_id(),
        "content": { "application/problem+json": { "schema": reference(schema) } },
    })
}

/// The headers that responses share, by name.
pub(super) fn headers() -> Json {
    json!({
        "Challenge": {
            "description": "How to authenticate.",
            "required": true,
            "schema": { "type": "string" },
        },
        "ETag": {
            "description": "The tag of the current version of the item: for `If-Match` and `If-None-Match`.",
            "required": true,
            "schema": { "type": "string", "pattern": "^\"[!#-~]+\"$" },
        },
        "Location": {
            "description": "The path of the item.",
            "required": true,
            "schema": { "type": "string", "pattern": "^/" },
        },
        "RequestId": {
            "description": "The id of the request in the logs.",
            "required": true,
            "schema": { "type": "string", "minLength": 1 },
        },
        "RetryAfter": {
            "description": "Seconds to wait before the next attempt.",
            "schema": { "type": "integer", "minimum": 0 },
        },
    })
}

/// The schema of a problem.
pub(super) fn problem() -> Json {
    json!({
        "type": "object",
        "description": "Why a request failed (RFC 9457). Programs go by `code`, which never changes its meaning; `detail` is for people.",
        "properties": {
            "type": { "type": "string", "format": "uri", "description": "`urn:nagaya:problem:` and the code." },
            "title": { "type": "string", "description": "The name of the status." },
            "status": { "type": "integer", "minimum": 400, "maximum": 599 },
            "code": { "type": "string", "pattern": "^[a-z][a-z0-9_]*$" },
            "detail": { "type": "string" },
            "requestId": { "type": "string", "description": "The id of the request in the logs." },
            "errors": {
                "type": "array",
                "description": "Everything that is wrong.",
                "items": {
                    "type": "object",
                    "properties": {
                        "pointer": { "type": "string", "description": "Where in the body (RFC 6901)." },
                        "parameter": { "type": "string", "description": "Which parameter or header." },
                        "detail": { "type": "string" },
                    },
                    "required": ["detail"],
                },
            },
        },
        "required": ["type", "title", "status", "code", "detail", "requestId"],
    })
}

/// The responses of an operation: its own, and the shared ones for problems of every operation and of these statuses.
pub(super) fn all(own: Vec<(u16, Json)>, problems: &[u16]) -> Json {
    let mut all = Map::new();
    for (status, name, _) in PROBLEMS {
        if OF_EVERY_OPERATION.contains(&status) || problems.contains(&status) {
            all.insert(status.to_string(), json!({ "$ref": format!("#/components/responses/{name}") }));
        }
    }
    // The operation's own response replaces the shared one of the same status.
    all.extend(own.into_iter().map(|(status, response)| (status.to_string(), response)));
    all.into()
}

/// A response with an item and its tag.
pub(super) fn item(description: &str, schema: &str, example: Json) -> Json {
    let mut response = data(description, reference(schema));
    response["content"]["application/json"]["example"] = json!({ "data": example });
    response["headers"]["ETag"] = json!({ "$ref": "#/components/headers/ETag" });
    response
}

/// A response with something in `data`.
pub(super) fn data(description: &str, schema: Json) -> Json {
    json!({
        "description": description,
        "headers": request_id(),
        "content": {
            "application/json": {
                "schema": { "type": "object", "properties": { "data": schema }, "required": ["data"], "additionalProperties": false },
            },
        },
    })
}

/// The response of an access pattern.
pub(super) fn listed(entity: &Entity, returns: ResultKind, item: &Json, example: Json) -> Json {
    let words = entity.name.replace('_', " ");
    let mut response = match returns {
        ResultKind::Count => {
            let count = json!({ "type": "integer", "minimum": 0 });
            let count = json!({ "type": "object", "properties": { "count": count }, "required": ["count"], "additionalProperties": false });
            data("The number of items.", count)
        }
        ResultKind::One => {
            let mut response = data(&format!("The {words}."), item.clone());
            response["headers"]["ETag"] = json!({ "$ref": "#/components/headers/ETag" });
            response
        }
        ResultKind::Many => {
            let mut response = data("A page.", json!({ "type": "array", "items": item }));
            paged(&mut response);
            response
        }
    };
    response["content"]["application/json"]["example"] = match returns {
        ResultKind::Many => json!({ "data": [example] }),
        ResultKind::One => json!({ "data": example }),
        ResultKind::Count => json!({ "data": { "count": 3 } }),
    };
    response
}

/// Adds the cursor to the next page.
pub(super) fn paged(response: &mut Json) {
    response["content"]["application/json"]["schema"]["properties"]["nextCursor"] = json!({
        "type": "string",
        "minLength": 1,
        "description": "Where the next page starts. A page can be short, or empty, and still have one.",
    });
}

/// A response that lasts until the client disconnects.
pub(super) fn streamed(kind: &str) -> Json {
    let mut response = empty("A stream that lasts until the client disconnects.");
    response["content"] = json!({ kind: { "schema": { "type": "string" } } });
    response
}

/// A response without a body.
pub(super) fn empty(description: &str) -> Json {
    json!({ "description": description, "headers": request_id() })
}

/// 304: the caller has the current version.
pub(super) fn not_modified() -> Json {
    let mut response = empty("The item is unchanged since the version that `If-None-Match` names.");
    response["headers"]["ETag"] = json!({ "$ref": "#/components/headers/ETag" });
    response
}

pub(super) fn reference(schema: &str) -> Json {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

/// The header that every response has.
fn request_id() -> Json {
    json!({ "X-Request-Id": { "$ref": "#/components/headers/RequestId" } })
}
