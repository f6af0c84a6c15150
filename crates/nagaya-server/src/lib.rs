//! HTTP: routes from a design, authentication, problems, OpenAPI, limits, logs and metrics.

mod answer;
mod body;
mod call;
mod connection;
mod cors;
mod derived;
mod extension;
mod fallback;
mod health;
mod identity;
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
mod system;

pub use self::{
    answer::{Answer, Content, names, tag},
    call::{Call, Origin, REASON},
    cors::{BadOrigin, Cors},
    extension::{Extension, Handler, Later, OwnRoute, Stop},
    identity::{
        Caller, Claims, Grant, Issuer, IssuerError, LocalIssuer, Verifier, http_agent, router as issuer_routes,
    },
    limits::{Limits, file_handles, raise_file_handles},
    openapi::{Document, document},
    problem::{Flaw, Problem, ProblemCode},
    request_body::{BodyField, BodyValue, RequestBody},
    route::{AccessId, CustomRouteId, EntityId, Operation, Reach, Route, routes},
    server::{App, Mounted, Server},
    system::{CatchUp, System},
};
