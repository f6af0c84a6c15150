//! HTTP: routes from a design, authentication, problems, OpenAPI, limits, logs and metrics.

mod answer;
mod archiver;
mod body;
mod call;
mod connection;
mod cors;
mod derived;
mod extension;
mod fallback;
mod health;
mod identity;
mod item_sizes;
mod json_body;
mod limits;
pub mod observe;
mod openapi;
mod pages;
mod pipeline;
mod problem;
mod request_body;
mod roles;
mod route;
mod routers;
mod server;
mod service;
pub mod smoke;
mod stream_guard;
mod system;
mod unambiguous;

pub use self::{
    answer::{Answer, Content, etag_matches, tag},
    call::{Call, REASON_HEADER, RequestOrigin},
    connection::{Tls, TlsError, TlsFiles},
    cors::{BadOrigin, Cors, PROJECTION_LAG},
    derived::log_entry_json,
    extension::{CustomHandler, CustomRoute, Extension, ExtensionFuture, StopSignal},
    identity::{
        Caller, Claims, Grant, Issuer, IssuerError, LocalIssuer, Revocation, RevocationFollower, RevocationStore,
        Revocations, RevokedSubject, Verifier, http_agent, http_agent_at, router as issuer_routes, without_credentials,
    },
    limits::{Limits, raise_open_files_limit},
    openapi::{Document, document},
    problem::{FieldProblem, Problem, ProblemCode},
    request_body::{BodyField, BodyValue, RequestBody},
    route::{AccessId, CustomRouteId, EntityId, Operation, RequiredCaller, Route, positional, routes},
    server::{MountedSystem, RequestHandler, Server},
    system::System,
};
