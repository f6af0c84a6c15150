//! A system while it is served: its routes, and the way of a request through them.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Router,
    body::{Body, HttpBody as _},
    extract::{RawPathParams, Request, rejection::RawPathParamsRejection},
    http::{Method, StatusCode, header, request::Parts},
    response::Response,
    routing::{MethodFilter, MethodRouter, on},
};
use nagaya_store::Health;
use nagaya_tenancy::Nagaya;
use serde_json::{Map, Value as Json};

use crate::{
    Answer, Call, Problem, System, body, derived,
    extension::OwnRoute,
    identity::{Caller, Verifier},
    limits::Enforced,
    observe::{Metrics, Seen, Spot},
    openapi, pages,
    route::{Act, Reach, Route, routes},
    server::Current,
};

/// A system on a store, with what checks its callers.
pub(crate) struct Served {
    pub(crate) system: System,
    pub(crate) nagaya: Nagaya,
    pub(crate) verifier: Arc<Verifier>,
    pub(crate) limits: Arc<Enforced>,
    pub(crate) mount: Arc<str>,
    pub(crate) routes: Vec<Arc<Route>>,
    pub(crate) own: Vec<OwnRoute>,
}

impl Served {
    pub(crate) fn new(
        system: System,
        nagaya: Nagaya,
        verifier: Arc<Verifier>,
        limits: Arc<Enforced>,
        mount: impl Into<Arc<str>>,
    ) -> Self {
        let own = system.extension.routes();
        let routes = all_routes(&system, &own).into_iter().map(Arc::new).collect();
        Served { system, nagaya, verifier, limits, mount: mount.into(), routes, own }
    }

    /// The routes as a router; what comes by none of them is answered by `otherwise`.
    pub(crate) fn router(self: &Arc<Self>, metrics: &Metrics, otherwise: Current) -> Router {
        let mut paths: BTreeMap<String, MethodRouter> = BTreeMap::new();
        for route in &self.routes {
            let Ok(filter) = MethodFilter::try_from(route.method.clone()) else { continue };
            let path = format!("{}{}", self.mount, route.path);
            let spot = metrics.spot(&self.system.name, &route.method, &path);
            let (served, kept) = (Arc::clone(self), Arc::clone(route));
            let handler = move |parameters: Result<RawPathParams, RawPathParamsRejection>, request: Request| {
                let (served, route, spot) = (Arc::clone(&served), Arc::clone(&kept), Arc::clone(&spot));
                async move {
                    match parameters {
                        Ok(parameters) => served.handle(route, spot, &parameters, request).await,
                        // A segment that is not UTF-8 is no id.
                        Err(_) => nothing(request).await,
                    }
                }
            };
            let methods = paths.remove(&positional(&path)).unwrap_or_default();
            paths.insert(positional(&path), methods.merge(on(filter, handler)));
        }
        let router = paths.into_iter().fold(Router::new(), |router, (path, methods)| router.route(&path, methods));
        let served = Arc::clone(self);
        let document = move || openapi::of_routes(&served.system, &served.routes, &served.own, &served.mount, now());
        let pages = pages::of_system(&self.system.name, &self.mount, document, &self.routes);
        router.merge(pages).fallback_service(otherwise).method_not_allowed_fallback(no_such_method)
    }

    async fn handle(
        &self,
        route: Arc<Route>,
        spot: Arc<Spot>,
        parameters: &RawPathParams,
        request: Request,
    ) -> Response {
        let (mut parts, mut body) = request.into_parts();
        let seen = parts.extensions.remove::<Arc<Seen>>().unwrap_or_default();
        seen.at(spot);
        let path = parameters.iter().map(|(_, value)| value.to_owned()).collect();
        let response = match self.answer(route, path, parts, &mut body, &seen).await {
            Ok(answer) => answer.into_response(),
            Err(problem) => {
                seen.failed(&problem);
                problem.into_answer(&seen.origin.request)
            }
        };
        body::leave(body, response).await
    }

    async fn answer(
        &self,
        route: Arc<Route>,
        path: Vec<String>,
        parts: Parts,
        body: &mut Body,
        seen: &Seen,
    ) -> Result<Answer, Problem> {
        // The token is good, and its tenant within its rate.
        let caller = self.caller(&route, &parts).await?;
        if !caller.is_visitor() {
            seen.by(&caller);
        }
        let _place = self.limits.admit(&caller, seen.origin.address.as_deref())?;
        // Its roles allow what the route does.
        self.permits(&route, &caller)?;
        // The store takes what is written: a system may write to more than its store, and should not begin in vain.
        if !route.method.is_safe()
            && let Health::ReadOnly(reason) = self.nagaya.store_health()
        {
            return Err(Problem::insufficient_storage().because(reason));
        }
        // What is asked is readable.
        let query = query(parts.uri.query().unwrap_or_default())?;
        if !matches!(route.act, Act::List(_) | Act::Own(_))
            && let Some((name, _)) = query.first()
        {
            return Err(Problem::bad_parameter(name, "Is not a parameter here."));
        }
        let body = if self.takes_body(&route) { self.body(&route, &parts, body).await? } else { Map::new() };

        let (nagaya, mount, headers) = (self.nagaya.clone(), Arc::clone(&self.mount), parts.headers);
        let origin = seen.origin.clone();
        let mut call = Call { nagaya, mount, route, caller, origin, path, query, headers, body };
        if let Act::Own(at) = call.route.act {
            let handler = self.own.get(at).map(|own| Arc::clone(&own.handler)).ok_or_else(Problem::not_found)?;
            return handler(Arc::new(call)).await;
        }
        derived::only_given(&call)?;
        let extension = &self.system.extension;
        if let Some(answer) = extension.before(&mut call).await? {
            return Ok(answer);
        }
        let mut answer = derived::act(&mut call).await?;
        extension.after(&call, &mut answer).await?;
        Ok(answer)
    }

    /// Who asks.
    async fn caller(&self, route: &Route, parts: &Parts) -> Result<Arc<Caller>, Problem> {
        let unauthorized = |code, detail: &str| Problem::new(StatusCode::UNAUTHORIZED, code, detail);
        let Some(header) = parts.headers.get(header::AUTHORIZATION) else {
            return match route.admits_visitors(&self.system.design) {
                true => Ok(Caller::visitor()),
                false => Err(unauthorized("no_token", "Send a token: `Authorization: Bearer …`.")),
            };
        };
        let malformed = || unauthorized("bad_token", "The header `Authorization` is not `Bearer` and a token.");
        let (scheme, token) = header.to_str().ok().and_then(|header| header.split_once(' ')).ok_or_else(malformed)?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(malformed());
        }
        self.verifier.caller(token.trim()).await
    }

    fn permits(&self, route: &Route, caller: &Caller) -> Result<(), Problem> {
        let design = &self.system.design;
        if route.reach == Reach::Operator && !design.is_operator(&caller.roles) {
            return Err(Problem::operators_only(design));
        }
        let own = match route.act {
            Act::Own(at) => self.own.get(at).and_then(|own| own.needs.as_ref()),
            _ => None,
        };
        let needed = match own {
            Some((entity, verb)) => Some((entity.as_str(), *verb)),
            None => route.subject(design).map(|(entity, verb)| (entity.name.as_str(), verb)),
        };
        match needed {
            // What somebody without a token may read, whoever has one may read.
            _ if route.admits_visitors(design) => Ok(()),
            Some((entity, verb)) if !design.permits(&caller.roles, entity, verb) => {
                let would = design.roles_permitting(entity, verb, route.reach == Reach::Operator);
                Err(Problem::no_role(&format!("The roles of the token do not allow `{entity}.{verb}`"), &would))
            }
            _ => Ok(()),
        }
    }

    fn takes_body(&self, route: &Route) -> bool {
        match route.act {
            Act::Create(_) | Act::Update(_) => true,
            Act::Own(at) => self.own.get(at).is_some_and(|own| own.body.is_some()),
            Act::Read(_) | Act::Delete(_) | Act::List(_) => false,
        }
    }

    /// The fields in the body.
    async fn body(&self, route: &Route, parts: &Parts, body: &mut Body) -> Result<Map<String, Json>, Problem> {
        // A route of the system's own may need none of what it takes.
        if matches!(route.act, Act::Own(_)) && body.is_end_stream() {
            return Ok(Map::new());
        }
        let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        let merge = parts.method == Method::PATCH && kind.eq_ignore_ascii_case("application/merge-patch+json");
        if !merge && !kind.eq_ignore_ascii_case("application/json") {
            let detail = "Send JSON, with `Content-Type: application/json`.";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_json", detail));
        }
        let bytes = body::read(body, self.limits.body_bytes()).await?;
        match serde_json::from_slice(&bytes) {
            Ok(Json::Object(fields)) => Ok(fields),
            Ok(_) => Err(Problem::bad_request("bad_body", "The body has to be a JSON object.")),
            Err(error) => Err(Problem::bad_request("bad_body", format!("The body is not JSON: {error}."))),
        }
    }
}

/// The routes of a system: those of its design, and its own in front of them.
pub(crate) fn all_routes(system: &System, own: &[OwnRoute]) -> Vec<Route> {
    let prefix = &system.design.http_prefix;
    let route = |(at, own): (usize, &OwnRoute)| Route {
        method: own.method.clone(),
        path: format!("{prefix}{}", own.path),
        act: Act::Own(at),
        reach: own.reach,
    };
    let mut all: Vec<Route> = own.iter().enumerate().map(route).collect();
    let same = |a: &Route, b: &Route| a.method == b.method && positional(&a.path) == positional(&b.path);
    for derived in routes(&system.design) {
        if !all.iter().any(|own| same(own, &derived)) {
            all.push(derived);
        }
    }
    all
}

/// A path with its parameters called by their position: what they are called is the route's own business.
pub(crate) fn positional(path: &str) -> String {
    let mut nth = 0;
    let segment = |segment: &str| {
        if segment.starts_with('{') {
            nth += 1;
            format!("{{p{nth}}}")
        } else {
            segment.to_owned()
        }
    };
    path.split('/').map(segment).collect::<Vec<_>>().join("/")
}

/// Seconds since 1970.
fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// The parameters of a query.
fn query(text: &str) -> Result<Vec<(String, String)>, Problem> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let parsed = form_urlencoded::parse(text.as_bytes());
    Ok(parsed.map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
}

pub(crate) async fn nothing(request: Request) -> Response {
    refused(request, Problem::not_found()).await
}

async fn no_such_method(request: Request) -> Response {
    let detail = format!("{} cannot be used here; the header `Allow` says what can.", request.method());
    refused(request, Problem::new(StatusCode::METHOD_NOT_ALLOWED, "no_such_method", detail)).await
}

/// The answer to a request that came by no route.
async fn refused(request: Request, problem: Problem) -> Response {
    let seen = request.extensions().get::<Arc<Seen>>();
    if let Some(seen) = seen {
        seen.failed(&problem);
    }
    let response = problem.into_answer(seen.map_or("", |seen| &seen.origin.request));
    body::leave(request.into_body(), response).await
}
