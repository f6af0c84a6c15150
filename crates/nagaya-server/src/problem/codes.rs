//! The problem codes of the platform: one table for answers, the OpenAPI document and `docs/reference/problems.md`.

use axum::http::StatusCode;

/// A problem code: programs go by it, so it never changes its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProblemCode {
    /// The code, as `code` and at the end of `type`.
    pub code: &'static str,
    /// The status of the answer.
    pub status: StatusCode,
    /// What went wrong, in a sentence.
    pub meaning: &'static str,
    /// What the caller can do about it, in a sentence.
    pub remedy: &'static str,
    /// Whether operations of the OpenAPI document list it.
    pub in_openapi: bool,
}

impl ProblemCode {
    /// The title of the answer: the name of its status.
    pub fn title(&self) -> &'static str {
        self.status.canonical_reason().unwrap_or("Error")
    }
}

/// Fills the table: a block for each status, and in it a line for each code with its meaning and its remedy.
macro_rules! table {
    ($($status:ident { $($name:ident $code:literal $listed:literal, $meaning:literal, $remedy:literal;)* })*) => {
        impl ProblemCode {
            $($(
                #[doc = $meaning]
                pub const $name: ProblemCode = ProblemCode {
                    code: $code,
                    status: StatusCode::$status,
                    meaning: $meaning,
                    remedy: $remedy,
                    in_openapi: $listed,
                };
            )*)*

            /// Every code, by status.
            pub const ALL: &[ProblemCode] = &[$($(ProblemCode::$name),*),*];
        }
    };
}

table! {
    BAD_REQUEST {
        BAD_PARAMETER "bad_parameter" true,
            "A parameter of the query is unknown, is given twice, or has a value that it cannot have.",
            "Correct the parameter that `errors` names.";
        BAD_BODY "bad_body" true,
            "The body is not a JSON object, or it ended early.",
            "Send a complete JSON object.";
        BAD_CURSOR "bad_cursor" true,
            "The cursor was not issued to this caller for this list.",
            "Start again without `cursor`, and change no other parameter but `limit` between pages.";
        BAD_IDEMPOTENCY_KEY "bad_idempotency_key" true,
            "`Idempotency-Key` is not 1 to 255 printable characters.",
            "Send a UUID, or leave the header out.";
        BAD_IF_MATCH "bad_if_match" true,
            "`If-Match` is not a list of tags in quotes.",
            "Send the `ETag` of the item as it is, with its quotes.";
        NO_REASON "no_reason" true,
            "An operator's request has no reason, or one that is too short.",
            "Send the reason in the header `Nagaya-Reason`, with at least 10 characters.";
        REPEATED_HEADER "repeated_header" true,
            "`Authorization`, `Content-Type`, `Host`, `Idempotency-Key` or `Nagaya-Reason` is there more than once.",
            "Send the header that `errors` names once.";
        NO_HOST "no_host" true,
            "The request has no `Host`, which HTTP/1.1 requires.",
            "Send the header `Host`, as every HTTP library does.";
    }
    UNAUTHORIZED {
        NO_TOKEN "no_token" true,
            "There is no token, and the route needs one.",
            "Send `Authorization: Bearer …`.";
        BAD_TOKEN "bad_token" true,
            "The token is malformed, has expired, was revoked, lives too long, is for another audience, or its issuer or key is not trusted.",
            "Get a new token from an issuer that the server trusts; `detail` says what is wrong with this one.";
    }
    FORBIDDEN {
        FORBIDDEN "forbidden" true,
            "The roles of the token do not allow this, or the token names no tenant where one is needed.",
            "Use a token with a role that `detail` names.";
        BAD_TENANT "bad_tenant" true,
            "The token names a tenant that this system cannot have.",
            "Correct the tenant's claim where tokens are issued.";
        NOT_A_MEMBER "not_a_member" true,
            "The user of the token does not belong to the tenant of the token.",
            "Use a token for one of the user's tenants.";
    }
    NOT_FOUND {
        NOT_FOUND "not_found" true,
            "Nothing is here, or it belongs to another tenant.",
            "Check the path and the id.";
    }
    METHOD_NOT_ALLOWED {
        NO_SUCH_METHOD "no_such_method" false,
            "The path exists, but not with this method.",
            "Use a method that the header `Allow` names.";
    }
    CONFLICT {
        TAKEN "taken" true,
            "Another item has the id, or a value that must be unique.",
            "Use another value in the fields that `errors` names.";
        NO_REFERENCE "no_reference" true,
            "A field refers to an item that does not exist.",
            "Create that item first, or correct the field that `errors` names.";
        REFERENCED "referenced" true,
            "Other items refer to the item, so it cannot be deleted.",
            "Delete or change those items first.";
        RESULT_CHANGED "result_changed" true,
            "The request was carried out before with this `Idempotency-Key`, and its result has changed since.",
            "Read the item whose id `detail` names.";
    }
    GONE {
        RESULT_DELETED "result_deleted" true,
            "The request was carried out before with this `Idempotency-Key`, and its result has been deleted since.",
            "Use a new key to create the item again.";
    }
    PRECONDITION_FAILED {
        VERSION_CONFLICT "version_conflict" true,
            "The item has changed since the version that `If-Match` names.",
            "Read the item again, and send its new `ETag`.";
    }
    PAYLOAD_TOO_LARGE {
        TOO_LARGE "too_large" true,
            "The body, or the item that it would create, is too large.",
            "Send less; `detail` names the limit.";
    }
    UNSUPPORTED_MEDIA_TYPE {
        NOT_JSON "not_json" true,
            "The `Content-Type` of the body is not JSON.",
            "Send JSON with `Content-Type: application/json`.";
        ENCODED_BODY "encoded_body" true,
            "The body is compressed, or its transfer has another coding than `chunked`.",
            "Send the body as it is, without `Content-Encoding`.";
    }
    UNPROCESSABLE_ENTITY {
        INVALID "invalid" true,
            "Fields of the body do not fit the design.",
            "Correct the fields that `errors` names.";
        IDEMPOTENCY_KEY_REUSED "idempotency_key_reused" true,
            "The `Idempotency-Key` was used for another request.",
            "Use a new key for each new request.";
    }
    TOO_MANY_REQUESTS {
        RATE_LIMITED "rate_limited" true,
            "The caller has more requests, streams, unread answers or unfinished bodies than it may have; or too many tokens from its address were refused.",
            "Wait for the seconds in `Retry-After`.";
    }
    INTERNAL_SERVER_ERROR {
        INTERNAL "internal" true,
            "The server failed.",
            "Look up `requestId` in the log of the server.";
    }
    NOT_IMPLEMENTED {
        NOT_HERE "not_here" false,
            "The answer is a stream, and this process sends answers as a whole, such as a function of AWS Lambda.",
            "Ask a server, or read the list again.";
    }
    SERVICE_UNAVAILABLE {
        BUSY "busy" true,
            "The store is busy.",
            "Repeat the request after the seconds in `Retry-After`.";
        CONTENDED "contended" true,
            "Too many writes change the same item at once.",
            "Repeat the request after the seconds in `Retry-After`.";
        OVERLOADED "overloaded" true,
            "The server has too many requests, streams, unread answers or unfinished bodies of all callers at once.",
            "Repeat the request after the seconds in `Retry-After`.";
        STORE_UNAVAILABLE "store_unavailable" true,
            "The store cannot be reached, or refuses to work. Nothing was written.",
            "Repeat the request after the seconds in `Retry-After`; operators find the cause in the log.";
        INDEX_MISSING "index_missing" true,
            "The store does not have an index that the design needs.",
            "Operators create it with `nagaya tables apply`.";
        TABLE_MISSING "table_missing" true,
            "The store does not have a table that the design needs.",
            "Operators create it with `nagaya tables apply`.";
        ISSUER_UNREACHABLE "issuer_unreachable" true,
            "The keys of the token's issuer cannot be fetched, so the token cannot be checked.",
            "Repeat the request after the seconds in `Retry-After`.";
        NOT_READY "not_ready" false,
            "`/readyz`: a store is not available or does not answer.",
            "Wait; operators find the cause in the log.";
        STOPPING "stopping" false,
            "`/readyz`: the server is shutting down.",
            "Send requests to another process.";
    }
    GATEWAY_TIMEOUT {
        TIMEOUT "timeout" true,
            "The request reached its time limit. It is unknown whether it had an effect.",
            "Read before writing again, or repeat with the same `Idempotency-Key`.";
        UNANSWERED "unanswered" true,
            "The store did not confirm the write. It is unknown whether it was written.",
            "Read before writing again, or repeat with the same `Idempotency-Key`.";
    }
    INSUFFICIENT_STORAGE {
        INSUFFICIENT_STORAGE "insufficient_storage" true,
            "The store has no space left. Nothing was written; reading still works.",
            "Operators add space; see `nagaya store`.";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_page_has_this_table() {
        let row = |each: &ProblemCode| {
            format!("| {} | `{}` | {} | {} |\n", each.status.as_u16(), each.code, each.meaning, each.remedy)
        };
        let table: String = ProblemCode::ALL.iter().map(row).collect();
        let page = include_str!("../../../../docs/reference/problems.md");
        assert!(page.contains(&table), "docs/reference/problems.md has to have these lines:\n{table}");
    }

    #[test]
    fn no_code_is_in_the_table_twice() {
        let mut codes: Vec<_> = ProblemCode::ALL.iter().map(|each| each.code).collect();
        codes.sort_unstable();
        assert!(codes.windows(2).all(|pair| pair[0] != pair[1]), "{codes:?}");
    }
}
