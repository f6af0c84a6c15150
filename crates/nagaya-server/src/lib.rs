//! A design becomes an API: routes, identity, errors, documentation, limits, observation.

mod answer;
mod body;
mod call;
mod cors;
mod derived;
mod extension;
mod health;
mod http;
mod identity;
mod limits;
pub mod observe;
mod openapi;
mod pages;
mod problem;
mod route;
mod served;
mod server;
mod shape;
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
    problem::{Flaw, Problem},
    route::{Act, Reach, Route, routes},
    server::{App, Mounted, Server},
    shape::Shape,
    system::{CatchUp, System},
};
