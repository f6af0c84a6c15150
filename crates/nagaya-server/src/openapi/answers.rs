//! Answers: what can come back, with which headers, and which problems.

use nagaya_design::{Entity, Returns};
use serde_json::{Map, Value as Json, json};

use crate::limits::RATE_LIMITED;

/// A problem that an operation can answer with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Failure {
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    Conflict,
    VersionConflict,
    TooLarge,
    NotJson,
    Invalid,
    TooMany,
    Internal,
    Unavailable,
    TimedOut,
    OutOfSpace,
}

impl Failure {
    const ALL: [Failure; 14] = [
        Failure::BadRequest,
        Failure::Unauthorized,
        Failure::Forbidden,
        Failure::NotFound,
        Failure::Conflict,
        Failure::VersionConflict,
        Failure::TooLarge,
        Failure::NotJson,
        Failure::Invalid,
        Failure::TooMany,
        Failure::Internal,
        Failure::Unavailable,
        Failure::TimedOut,
        Failure::OutOfSpace,
    ];

    /// What every operation can answer with.
    pub(super) const EVERYWHERE: [Failure; 7] = [
        Failure::BadRequest,
        Failure::Unauthorized,
        Failure::Forbidden,
        Failure::TooMany,
        Failure::Internal,
        Failure::Unavailable,
        Failure::TimedOut,
    ];

    /// Status, codes and what it means.
    fn told(self) -> (u16, &'static [&'static str], &'static str) {
        match self {
            Failure::BadRequest => (
                400,
                &["bad_parameter", "bad_body", "bad_cursor", "bad_idempotency_key", "no_reason"],
                "A parameter, a header or the form of the body is wrong.",
            ),
            Failure::Unauthorized => (401, &["no_token", "bad_token"], "There is no token, or none that counts."),
            Failure::Forbidden => (403, &["forbidden", "bad_tenant", "not_a_member"], "The token does not allow this."),
            Failure::NotFound => (404, &["not_found"], "There is no such thing, or it is none of the caller's."),
            Failure::Conflict => (
                409,
                &["taken", "no_reference", "referenced"],
                "Something that is there stands against it, or something needed is not there.",
            ),
            Failure::VersionConflict => {
                (412, &["version_conflict"], "The item is not the one that `If-Match` names any more.")
            }
            Failure::TooLarge => (413, &["too_large"], "The body, or the item that would come of it, is too large."),
            Failure::NotJson => (415, &["not_json"], "The body is not JSON, or does not say so."),
            Failure::Invalid => {
                (422, &["invalid", "idempotency_key_reused"], "The fields do not fit; `errors` says which and why.")
            }
            Failure::TooMany => {
                (429, &[RATE_LIMITED], "The tenant asks too often; `Retry-After` says how long to wait.")
            }
            Failure::Internal => (500, &["internal"], "Something failed inside the server."),
            Failure::Unavailable => (
                503,
                &[
                    "busy",
                    "contended",
                    "overloaded",
                    "store_unavailable",
                    "index_missing",
                    "table_missing",
                    "issuer_unreachable",
                ],
                "It cannot be done now; `Retry-After` says how long to wait.",
            ),
            Failure::TimedOut => (504, &["timeout", "unanswered"], "It took too long, and may have happened or not."),
            Failure::OutOfSpace => (507, &["insufficient_storage"], "The store has no room for more."),
        }
    }

    fn name(self) -> String {
        format!("{self:?}")
    }
}

/// The problems as answers that operations share, by name.
pub(super) fn shared(problem: &str) -> Json {
    let answer = |failure: Failure| {
        let (status, codes, detail) = failure.told();
        let code = codes.first().copied().unwrap_or_default();
        let listed = codes.iter().map(|code| format!("`{code}`")).collect::<Vec<_>>().join(", ");
        let description = format!("{detail} {}: {listed}.", if codes.len() == 1 { "Code" } else { "Codes" });
        let title = axum::http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
        let mut headers = Map::from_iter([request_id()]);
        match failure {
            Failure::TooMany | Failure::Unavailable => {
                headers.insert("Retry-After".to_owned(), json!({ "$ref": "#/components/headers/RetryAfter" }));
            }
            Failure::Unauthorized => {
                headers.insert("WWW-Authenticate".to_owned(), json!({ "$ref": "#/components/headers/Challenge" }));
            }
            _ => {}
        }
        let answer = json!({
            "description": description,
            "headers": headers,
            "content": {
                "application/problem+json": {
                    "schema": { "$ref": format!("#/components/schemas/{problem}") },
                    "example": {
                        "type": format!("urn:nagaya:problem:{code}"),
                        "title": title,
                        "status": status,
                        "code": code,
                        "detail": detail,
                        "requestId": "01KG9S5Q60T4N2Y8ZC3M7VXR1E",
                    },
                },
            },
        });
        (failure.name(), answer)
    };
    Json::Object(Failure::ALL.into_iter().map(answer).collect())
}

/// A problem that only one operation answers with.
pub(super) fn refused(problem: &str, means: &str) -> Json {
    json!({
        "description": means,
        "headers": Map::from_iter([request_id()]),
        "content": { "application/problem+json": { "schema": reference(problem) } },
    })
}

/// The headers that answers share, by name.
pub(super) fn headers() -> Json {
    json!({
        "Challenge": {
            "description": "How to say who asks.",
            "required": true,
            "schema": { "type": "string" },
        },
        "ETag": {
            "description": "The tag of the item as it is: for `If-Match` and `If-None-Match`.",
            "required": true,
            "schema": { "type": "string", "pattern": "^\"[!#-~]+\"$" },
        },
        "Location": {
            "description": "The path of the item.",
            "required": true,
            "schema": { "type": "string", "pattern": "^/" },
        },
        "RequestId": {
            "description": "The id by which the logs know the request.",
            "required": true,
            "schema": { "type": "string", "minLength": 1 },
        },
        "RetryAfter": {
            "description": "Seconds after which trying again makes sense.",
            "schema": { "type": "integer", "minimum": 0 },
        },
    })
}

/// The schema of a problem.
pub(super) fn problem() -> Json {
    json!({
        "type": "object",
        "description": "Why a request failed (RFC 9457). Programs go by `code`, which stays; people read `detail`.",
        "properties": {
            "type": { "type": "string", "format": "uri", "description": "`urn:nagaya:problem:` and the code." },
            "title": { "type": "string", "description": "What the status means." },
            "status": { "type": "integer", "minimum": 400, "maximum": 599 },
            "code": { "type": "string", "pattern": "^[a-z][a-z0-9_]*$" },
            "detail": { "type": "string" },
            "requestId": { "type": "string", "description": "The id by which the logs know the request." },
            "errors": {
                "type": "array",
                "description": "Everything that is wrong, one by one.",
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

/// The answers of an operation: what comes when it succeeds, and how it can fail.
pub(super) fn all(fine: Vec<(u16, Json)>, failures: impl IntoIterator<Item = Failure>) -> Json {
    let failed = failures.into_iter().map(|failure| {
        let (status, ..) = failure.told();
        (status.to_string(), json!({ "$ref": format!("#/components/responses/{}", failure.name()) }))
    });
    // What an operation says of a status itself says more than what all say.
    Json::Object(failed.chain(fine.into_iter().map(|(status, answer)| (status.to_string(), answer))).collect())
}

/// An item and its tag.
pub(super) fn item(description: &str, schema: &str, example: Json) -> Json {
    let mut answer = data(description, reference(schema));
    answer["content"]["application/json"]["example"] = json!({ "data": example });
    answer["headers"]["ETag"] = json!({ "$ref": "#/components/headers/ETag" });
    answer
}

/// Something wrapped in `data`.
pub(super) fn data(description: &str, schema: Json) -> Json {
    json!({
        "description": description,
        "headers": Map::from_iter([request_id()]),
        "content": {
            "application/json": {
                "schema": { "type": "object", "properties": { "data": schema }, "required": ["data"], "additionalProperties": false },
            },
        },
    })
}

/// What an access pattern gives.
pub(super) fn listed(entity: &Entity, returns: Returns, item: &Json, example: Json) -> Json {
    let words = entity.name.replace('_', " ");
    let mut answer = match returns {
        Returns::Count => {
            let count = json!({ "type": "integer", "minimum": 0 });
            let count = json!({ "type": "object", "properties": { "count": count }, "required": ["count"], "additionalProperties": false });
            data("How many there are.", count)
        }
        Returns::One => {
            let mut answer = data(&format!("The {words}."), item.clone());
            answer["headers"]["ETag"] = json!({ "$ref": "#/components/headers/ETag" });
            answer
        }
        Returns::Many => {
            let mut answer = data("A page.", json!({ "type": "array", "items": item }));
            paged(&mut answer);
            answer
        }
    };
    answer["content"]["application/json"]["example"] = match returns {
        Returns::Many => json!({ "data": [example] }),
        Returns::One => json!({ "data": example }),
        Returns::Count => json!({ "data": { "count": 3 } }),
    };
    answer
}

/// Adds the cursor to the next page.
pub(super) fn paged(answer: &mut Json) {
    answer["content"]["application/json"]["schema"]["properties"]["nextCursor"] = json!({
        "type": "string",
        "minLength": 1,
        "description": "Where the next page starts. A page can be short, or empty, and still have one.",
    });
}

/// What goes on for as long as it is listened to.
pub(super) fn streamed(kind: &str) -> Json {
    let mut answer = empty("It goes on for as long as it is listened to.");
    answer["content"] = json!({ kind: { "schema": { "type": "string" } } });
    answer
}

/// Nothing in the body.
pub(super) fn empty(description: &str) -> Json {
    json!({ "description": description, "headers": Map::from_iter([request_id()]) })
}

/// Nothing in the body, since the caller has it.
pub(super) fn not_modified() -> Json {
    let mut answer = empty("The item is still the one that `If-None-Match` names.");
    answer["headers"]["ETag"] = json!({ "$ref": "#/components/headers/ETag" });
    answer
}

pub(super) fn reference(schema: &str) -> Json {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

fn request_id() -> (String, Json) {
    ("X-Request-Id".to_owned(), json!({ "$ref": "#/components/headers/RequestId" }))
}
