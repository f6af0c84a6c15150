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

const TENANCY: &str = "crates/nagaya-tenancy";
const SERVER: &str = "crates/nagaya-server";

pub(super) const GUARDED: [Guarded; 2] = [
    Guarded {
        folder: TENANCY,
        modules: &[
            "compiled",
            "handles",
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
        folder: SERVER,
        modules: &[
            "call/mod",
            "cors",
            "derived/operator_log",
            "identity/cache",
            "identity/claims",
            "identity/ed25519",
            "identity/issuer",
            "identity/keys",
            "identity/mod",
            "identity/remote",
            "identity/revocation/follow",
            "identity/revocation/mod",
            "identity/revocation/store",
            "identity/token",
            "identity/verifier",
            "json_body",
            "limits/client_network",
            "limits/held_body",
            "limits/mod",
            "limits/quota",
            "pages/sign_in",
            "roles",
            "service",
            "stream_guard",
        ],
        tests: &[(SERVER, "lib"), (SERVER, "api"), (SERVER, "identity"), (SERVER, "limits"), (SERVER, "observe")],
    },
];

/// Mutants without an observable effect, by name, each with the reason.
pub(super) const EQUIVALENT: [(&str, &str); 0] = [];
