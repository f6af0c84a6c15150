//! The modules with guards, and the tests that have to notice when one is broken.

/// The guards of a package.
pub(super) struct Guarded {
    /// The folder of the package.
    pub(super) folder: &'static str,
    /// The modules that hold guards.
    pub(super) modules: &'static [&'static str],
    /// The tests that have to notice: package and target, `lib` for those in the sources.
    pub(super) tests: &'static [(&'static str, &'static str)],
}

const DESIGN: &str = "crates/nagaya-design";
const TENANCY: &str = "crates/nagaya-tenancy";
const SERVER: &str = "crates/nagaya-server";
const EVENTS: &str = "crates/nagaya-events";
const EMBEDDED: &str = "crates/nagaya-embedded";
const CLI: &str = "crates/nagaya-cli";
const AIAGENT: &str = "systems/aiagent";
const KONDATE: &str = "systems/kondate";
const TODO: &str = "systems/todo";

pub(super) const GUARDED: [Guarded; 10] = [
    Guarded {
        folder: "crates/nagaya-store",
        modules: &["files"],
        tests: &[
            ("crates/nagaya-store", "lib"),
            (EMBEDDED, "lib"),
            (EMBEDDED, "files"),
            (EMBEDDED, "encryption"),
            (EMBEDDED, "backup"),
            (CLI, "serve"),
            (CLI, "audit"),
        ],
    },
    Guarded {
        folder: TENANCY,
        modules: &[
            "compiled",
            "handles",
            "key_set",
            "log_names",
            "read/audit_log",
            "read/cursor",
            "read/get",
            "read/guard",
            "read/list",
            "read/own_list",
            "read/referrers",
            "read/verify_log/mod",
            "read/verify_log/report",
            "read/verify_log/runs",
            "record",
            "scope",
            "session",
            "side_record",
            "subscription/source",
            "write/audit/archive",
            "write/audit/archive/run",
            "write/audit/chain",
            "write/audit/changes",
            "write/audit/expiry",
            "write/audit/log",
            "write/audit/lost_key",
            "write/audit/mod",
            "write/audit/prune",
            "write/change_set",
            "write/commit",
            "write/deletion/cascade",
            "write/deletion/mark",
            "write/deletion/mod",
            "write/draft/checks",
            "write/draft/fields",
            "write/draft/mod",
            "write/idempotency",
            "write/plan",
            "write/unique",
        ],
        tests: &[(TENANCY, "lib"), (TENANCY, "walls")],
    },
    Guarded {
        folder: EMBEDDED,
        modules: &[
            "encryption/data_keys",
            "encryption/key",
            "encryption/keyring",
            "encryption/state",
            "encryption/stream",
            "encryption/unlock",
            "files",
            "lock",
            "maintenance/backup/objects",
        ],
        tests: &[(EMBEDDED, "lib"), (EMBEDDED, "encryption"), (EMBEDDED, "files"), (EMBEDDED, "backup")],
    },
    Guarded {
        folder: EVENTS,
        modules: &["events/idempotency", "events/load", "feed", "seal"],
        tests: &[(EVENTS, "lib"), (EVENTS, "behaviour"), (EVENTS, "erasure")],
    },
    Guarded {
        folder: SERVER,
        modules: &[
            "body",
            "call/list",
            "call/mod",
            "connection/guarded_stream",
            "connection/table",
            "connection/tls",
            "cors",
            "derived/operator_log",
            "identity/cache",
            "identity/claims",
            "identity/ed25519",
            "identity/issuer",
            "identity/keys",
            "identity/local/files",
            "identity/local/mod",
            "identity/local/signer",
            "identity/mod",
            "identity/remote",
            "identity/revocation/follow",
            "identity/revocation/mod",
            "identity/revocation/store",
            "identity/token",
            "identity/verifier",
            "item_sizes",
            "json_body",
            "limits/bytes_in_flight",
            "limits/client_network",
            "limits/held_body",
            "limits/mod",
            "limits/quota",
            "limits/reading",
            "observe/ids",
            "pages/sign_in",
            "pipeline",
            "request_body",
            "roles",
            "service",
            "unambiguous",
            "stream_guard",
        ],
        tests: &[
            (SERVER, "lib"),
            (SERVER, "api"),
            (SERVER, "identity"),
            (SERVER, "limits"),
            (SERVER, "observe"),
            (SERVER, "openapi"),
        ],
    },
    Guarded {
        folder: AIAGENT,
        modules: &[
            "applications/review",
            "applications/submit",
            "extension",
            "invitations",
            "mails",
            "policy",
            "tenant_status",
            "tenants",
        ],
        tests: &[(AIAGENT, "lib"), (AIAGENT, "behaviour")],
    },
    Guarded {
        folder: KONDATE,
        modules: &[
            "archive",
            "catalog/preview",
            "catalog/price",
            "catalog/publish",
            "catalog/save",
            "payments/purchases",
            "payments/start",
            "payments/subscription",
            "payments/subscription_state",
            "reconciler/jobs",
            "search/query",
            "shares",
        ],
        tests: &[(KONDATE, "lib"), (KONDATE, "behaviour")],
    },
    Guarded {
        folder: TODO,
        modules: &[
            "http/change",
            "http/create",
            "http/listing",
            "http/note",
            "http/read",
            "http/stream",
            "notes/mod",
            "notes/place",
            "notes/sweep",
        ],
        tests: &[(TODO, "lib"), (TODO, "behaviour")],
    },
    Guarded {
        folder: CLI,
        modules: &["control/server", "key_file", "serve/network", "serve/tokens"],
        tests: &[(CLI, "lib"), (CLI, "serve"), (CLI, "audit")],
    },
    Guarded {
        folder: DESIGN,
        modules: &[
            "check/callers",
            "check/collisions",
            "check/constraints",
            "check/keys",
            "check/shared_partitions",
            "check/system_fields",
            "check/walls",
        ],
        tests: &[(DESIGN, "lib"), (DESIGN, "examples"), (CLI, "designs")],
    },
];

/// Mutants without an observable effect, by name, each with the reason.
pub(super) const EQUIVALENT: [(&str, &str); 23] = [
    (
        "crates/nagaya-tenancy/src/read/list.rs: list: `*bytes > MAX_PAGE_BYTES` becomes `*bytes >= MAX_PAGE_BYTES`",
        "A page whose items have exactly two megabytes ends one item earlier, and the next page goes on.",
    ),
    (
        "crates/nagaya-tenancy/src/read/list.rs: list: `round > 0` becomes `true` #2",
        "Items of the first page of the store are measured without need: it is smaller than the limit.",
    ),
    (
        "crates/nagaya-tenancy/src/read/list.rs: list: `round > 0` becomes `round >= 0` #2",
        "Items of the first page of the store are measured without need: it is smaller than the limit.",
    ),
    (
        "crates/nagaya-tenancy/src/read/referrers.rs: current_items: `!referrer.by_index || self.state.store.capabilities().consistent_indexes` becomes `!referrer.by_index && self.state.store.capabilities().consistent_indexes`",
        "Items that are current already are read once more.",
    ),
    (
        "crates/nagaya-tenancy/src/record.rs: without_secrets: `self.compiled.contains_secret(name)` becomes `true`",
        "Fields without secrets are looked through for some, in vain.",
    ),
    (
        "crates/nagaya-tenancy/src/write/commit.rs: fit_together: `bytes() <= limits::MAX_WRITE_SET_BYTES` becomes `bytes() < limits::MAX_WRITE_SET_BYTES`",
        "The bytes of the head are an estimate above the real ones, so a set of exactly the limit may go either way.",
    ),
    (
        "crates/nagaya-tenancy/src/write/deletion/cascade.rs: remove_together: `last.2 + bytes <= MAX_SET_BYTES` becomes `last.2 + bytes < MAX_SET_BYTES`",
        "The budget is half of what a store takes; a byte of it decides only which of two sets has a deletion.",
    ),
    (
        "crates/nagaya-tenancy/src/write/deletion/mark.rs: precheck: `seen.len() <= PRECHECK_ITEMS` becomes `seen.len() < PRECHECK_ITEMS`",
        "The check before marking looks at about so many items, and the complete check follows it.",
    ),
    (
        "crates/nagaya-server/src/connection/guarded_stream.rs: poll_read_timer: `deadline < self.read_timer.deadline()` becomes `deadline <= self.read_timer.deadline()`",
        "It sets the timer to the time that it has already.",
    ),
    (
        "crates/nagaya-server/src/json_body.rs: expecting: returns `Ok(Default::default())`",
        "The visitor takes every kind of value that serde_json gives, so the text is never shown.",
    ),
    (
        "crates/nagaya-server/src/json_body.rs: visit_unit: returns `Ok(Default::default())`",
        "The default of a JSON value is `null`.",
    ),
    (
        "crates/nagaya-server/src/service.rs: answer: `most > SMALL_BODY` becomes `most >= SMALL_BODY`",
        "An answer of exactly the small size reserves its bytes among megabytes.",
    ),
    (
        "crates/nagaya-cli/src/control/server.rs: accept: leaves out `std::thread::sleep(Duration::from_millis(100));`",
        "It is a pause between retries while the process has too many open files; each connection is accepted all the same.",
    ),
    (
        "crates/nagaya-tenancy/src/read/verify_log/mod.rs: verify_entries: `link.number > verification.newest` becomes `link.number >= verification.newest`",
        "The head is read once more, and nothing else is known then.",
    ),
    (
        "crates/nagaya-tenancy/src/read/verify_log/mod.rs: verify_entries: `!newer.is_empty()` becomes `true`",
        "The head is read once more for each page, and the entries are the same.",
    ),
    (
        "crates/nagaya-tenancy/src/write/plan.rs: unchanged: `compiled.referenceable` becomes `true`",
        "An item that nothing can refer to never has the mark that is compared.",
    ),
    (
        "crates/nagaya-server/src/body.rs: drain: `body.is_end_stream()` becomes `false`",
        "The rest of a body that has ended is read at once, and is nothing.",
    ),
    (
        "crates/nagaya-server/src/connection/guarded_stream.rs: poll_read: `buffer.filled().len() > before` becomes `buffer.filled().len() >= before`",
        "A read of nothing is the end of the connection.",
    ),
    (
        "crates/nagaya-server/src/limits/quota.rs: remove_idle: `usage.used_until.load(Relaxed) > now` becomes `usage.used_until.load(Relaxed) >= now`",
        "What is whole again at this nanosecond is removed by the next sweep.",
    ),
    (
        "crates/nagaya-server/src/service.rs: restrict: `records.is_empty()` becomes `false`",
        "The extension is asked about no records.",
    ),
    (
        "systems/kondate/src/catalog/preview.rs: withheld_items: `items.is_empty()` becomes `false`",
        "The subscription is read without need, and none of no items is withheld.",
    ),
    (
        "systems/kondate/src/reconciler/jobs.rs: of_items: leaves out `jobs.searched.retain(|searched| seen.insert(hasher.hash_one(searched)));`",
        "What several postings lead to is indexed several times, with the same result.",
    ),
    (
        "systems/kondate/src/reconciler/jobs.rs: add: `search::is_indexed(entity)` becomes `true`",
        "Indexing an item of another entity does nothing.",
    ),
];
