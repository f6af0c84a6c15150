//! A system while it is served: its router, and the steps of a request from its route to its answer.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Router,
    body::{Body, HttpBody as _},
    extract::{RawPathParams, Request, rejection::RawPathParamsRejection},
    http::{Method, header, request::Parts},
    response::Response,
    routing::{MethodFilter, MethodRouter, on},
};
use nagaya_store::Health;
use nagaya_tenancy::Nagaya;
use serde_json::{Map, Value as Json};

use crate::{
    Answer, Call, Caller, CustomRoute, Problem, ProblemCode, System, Verifier, body, derived, fallback, json_body,
    limits::SystemLimits,
    observe::{Metrics, RequestLog, RouteMetrics},
    openapi,
    pages::{self, SignIn},
    roles,
    route::{Operation, Route, positional},
    routers::CurrentRouter,
};

/// A system on a store, with its verifier and its limits.
pub(crate) struct SystemService {
    system: System,
    nagaya: Nagaya,
    verifier: Arc<Verifier>,
    limits: Arc<SystemLimits>,
    mount: Arc<str>,
    routes: Vec<Arc<Route>>,
    custom: Vec<CustomRoute>,
}

impl SystemService {
    pub(crate) fn new(
        system: System,
        nagaya: Nagaya,
        verifier: Arc<Verifier>,
        limits: Arc<SystemLimits>,
        mount: Arc<str>,
    ) -> Self {
        let (routes, custom) = system.routes();
        SystemService { system, nagaya, verifier, limits, mount, routes, custom }
    }

    /// The router of the system; requests that no route matches go to `otherwise`.
    pub(crate) fn router(
        self: &Arc<Self>,
        metrics: &Metrics,
        sign_in: &Arc<SignIn>,
        otherwise: CurrentRouter,
    ) -> Router {
        let mut paths: BTreeMap<String, MethodRouter> = BTreeMap::new();
        for route in &self.routes {
            let Ok(filter) = MethodFilter::try_from(route.method.clone()) else { continue };
            let path = format!("{}{}", self.mount, route.path);
            let metrics = metrics.route(&self.system.name, &route.method, &path);
            let (service, route) = (Arc::clone(self), Arc::clone(route));
            let handler = move |parameters: Result<RawPathParams, RawPathParamsRejection>, request: Request| {
                let (service, route, metrics) = (Arc::clone(&service), Arc::clone(&route), Arc::clone(&metrics));
                async move {
                    match parameters {
                        Ok(parameters) => service.handle(route, metrics, &parameters, request).await,
                        // A segment that is not UTF-8 is no id: 404.
                        Err(_) => fallback::not_found(request).await,
                    }
                }
            };
            let methods = paths.remove(&positional(&path)).unwrap_or_default();
            paths.insert(positional(&path), methods.merge(on(filter, handler)));
        }
        let router = paths.into_iter().fold(Router::new(), |router, (path, methods)| router.route(&path, methods));
        let service = Arc::clone(self);
        let document =
            move || openapi::of_routes(&service.system, &service.routes, &service.custom, &service.mount, now());
        let pages = pages::system_pages(&self.system, &self.mount, document, &self.routes, sign_in);
        router.merge(pages).fallback_service(otherwise).method_not_allowed_fallback(fallback::method_not_allowed)
    }

    async fn handle(
        &self,
        route: Arc<Route>,
        metrics: Arc<RouteMetrics>,
        parameters: &RawPathParams,
        request: Request,
    ) -> Response {
        let (mut parts, mut body) = request.into_parts();
        let log = parts.extensions.remove::<Arc<RequestLog>>().unwrap_or_default();
        log.matched(metrics);
        let path = parameters.iter().map(|(_, value)| value.to_owned()).collect();
        let response = match self.answer(route, path, parts, &mut body, &log).await {
            Ok(answer) => answer.into_response(),
            Err(problem) => {
                log.failed(&problem);
                problem.into_response(&log.origin.request)
            }
        };
        body::drain(body, response).await
    }

    async fn answer(
        &self,
        route: Arc<Route>,
        path: Vec<String>,
        parts: Parts,
        body: &mut Body,
        log: &RequestLog,
    ) -> Result<Answer, Problem> {
        // The token is valid, and its tenant is within its quota.
        let caller = self.caller(&route, &parts).await?;
        if !caller.is_visitor() {
            log.authenticated(&caller);
        }
        let _permit = self.limits.admit(&caller, log.origin.address.as_deref())?;
        // The roles of the token allow the route.
        roles::authorize(&self.system.design, &route, &self.custom, &caller)?;
        // The store accepts writes. Checked here because a custom route may call other services before it writes.
        if !route.method.is_safe()
            && let Health::ReadOnly(reason) = self.nagaya.store_health()
        {
            return Err(Problem::insufficient_storage().with_cause(reason));
        }
        // The query and the body are well-formed.
        let query = query(parts.uri.query().unwrap_or_default());
        if !matches!(route.operation, Operation::List(_) | Operation::Custom(_))
            && let Some((name, _)) = query.first()
        {
            return Err(Problem::bad_parameter(name, "Is not a parameter here."));
        }
        let body = if self.takes_body(&route) { self.read_body(&route, &parts, body).await? } else { Map::new() };

        let (nagaya, mount, headers) = (self.nagaya.clone(), Arc::clone(&self.mount), parts.headers);
        let origin = log.origin.clone();
        let own_items_only = false;
        let mut call = Call { nagaya, mount, route, caller, origin, path, query, headers, body, own_items_only };
        if let Operation::Custom(id) = call.route.operation {
            let handler =
                id.find_in(&self.custom).map(|route| Arc::clone(&route.handler)).ok_or_else(Problem::not_found)?;
            return handler(Arc::new(call)).await;
        }
        call.reject_fields_of_the_layer()?;
        let extension = &self.system.extension;
        if let Some(answer) = extension.before(&mut call).await? {
            return Ok(answer);
        }
        let mut answer = derived::run(&mut call).await?;
        extension.after(&call, &mut answer).await?;
        Ok(answer)
    }

    /// The caller that the token names; a visitor where there is no token and the route needs none.
    async fn caller(&self, route: &Route, parts: &Parts) -> Result<Arc<Caller>, Problem> {
        let Some(header) = parts.headers.get(header::AUTHORIZATION) else {
            return match route.admits_visitors(&self.system.design) {
                true => Ok(Caller::visitor()),
                false => Err(Problem::from_code(ProblemCode::NO_TOKEN, "Send a token: `Authorization: Bearer …`.")),
            };
        };
        let malformed =
            || Problem::from_code(ProblemCode::BAD_TOKEN, "The header `Authorization` has to be `Bearer` and a token.");
        let (scheme, token) = header.to_str().ok().and_then(|header| header.split_once(' ')).ok_or_else(malformed)?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(malformed());
        }
        self.verifier.caller(token.trim()).await
    }

    fn takes_body(&self, route: &Route) -> bool {
        match route.operation {
            Operation::Create(_) | Operation::Update(_) => true,
            Operation::Custom(id) => id.find_in(&self.custom).is_some_and(|route| route.body_schema.is_some()),
            Operation::Read(_) | Operation::Delete(_) | Operation::List(_) => false,
        }
    }

    /// The fields of the body.
    async fn read_body(&self, route: &Route, parts: &Parts, body: &mut Body) -> Result<Map<String, Json>, Problem> {
        // A custom route may require no field: then the body can be left out.
        if matches!(route.operation, Operation::Custom(_)) && body.is_end_stream() {
            return Ok(Map::new());
        }
        let media_type = parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let media_type = media_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        let is_patch = parts.method == Method::PATCH && media_type.eq_ignore_ascii_case("application/merge-patch+json");
        if !is_patch && !media_type.eq_ignore_ascii_case("application/json") {
            let detail = "Send JSON, with `Content-Type: application/json`.";
            return Err(Problem::from_code(ProblemCode::NOT_JSON, detail));
        }
        let bytes = body::read(body, self.limits.body_bytes()).await?;
        match json_body::parse(&bytes) {
            Ok(Json::Object(fields)) => Ok(fields),
            Ok(_) => Err(Problem::from_code(ProblemCode::BAD_BODY, "The body has to be a JSON object.")),
            Err(error) if error.is_data() => {
                Err(Problem::from_code(ProblemCode::BAD_BODY, format!("In the body, {error}.")))
            }
            Err(error) => Err(Problem::from_code(ProblemCode::BAD_BODY, format!("The body is not JSON: {error}."))),
        }
    }
}

/// Seconds since 1970.
fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// The parameters of a query.
fn query(text: &str) -> Vec<(String, String)> {
    form_urlencoded::parse(text.as_bytes()).map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
}
