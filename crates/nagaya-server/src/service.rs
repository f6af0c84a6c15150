//! A system while it is served: its router, and the steps of a request from its route to its answer.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, HttpBody as _},
    extract::{RawPathParams, Request, rejection::RawPathParamsRejection},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts},
    response::Response,
    routing::{MethodFilter, MethodRouter, on},
};
use bytes::Bytes;
use nagaya_store::Health;
use nagaya_tenancy::Nagaya;
use serde_json::{Map, Value as Json};

use crate::{
    Answer, Call, Caller, Content, CustomRoute, Problem, ProblemCode, System, Verifier, body, derived, fallback,
    item_sizes::ItemSizes,
    json_body,
    limits::{
        Permit, RATE_LIMIT, RATE_LIMIT_POLICY, RateStatus, ReadShares, Refusal, Room, SMALL_BODY, SystemLimits,
        UncountedAnswer, hold_until_sent, large_size,
    },
    observe::{Metrics, RequestLog, RouteMetrics},
    openapi,
    pages::{self, SignIn},
    roles,
    route::{Operation, Route, positional},
    routers::CurrentRouter,
    stream_guard::StreamGuard,
};

/// Marks a request whose answer is sent as a whole.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WholeAnswer;

/// A system on a store, with its verifier and its limits.
pub(crate) struct SystemService {
    system: System,
    nagaya: Nagaya,
    verifier: Arc<Verifier>,
    limits: Arc<SystemLimits>,
    mount: Arc<str>,
    routes: Vec<Arc<Route>>,
    custom: Vec<CustomRoute>,
    /// Whether a route answers with a stream.
    has_streams: bool,
    item_sizes: ItemSizes,
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
        let has_streams = custom.iter().any(|route| route.stream_media_type.is_some());
        let item_sizes = ItemSizes::of_design(&system.design);
        SystemService { system, nagaya, verifier, limits, mount, routes, custom, has_streams, item_sizes }
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
        let document = move || {
            openapi::of_routes(
                &service.system,
                &service.routes,
                &service.custom,
                &service.mount,
                service.nagaya.clock().seconds(),
            )
        };
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
        let is_safe = parts.method.is_safe();
        let mut admission = Admission::default();
        // Boxed: the future of a request is moved several times before it starts, and this is most of it.
        let answering = Box::pin(self.answer(route, path, parts, &mut body, &log, &mut admission));
        let response = match answering.await {
            Ok(answer) => answer.into_response(),
            Err(problem) => failed(problem, &log),
        };
        let mut response = match (admission.permit, large_size(&response)) {
            // What the client has not read yet counts.
            (Some(permit), Some(size)) => {
                let room = match is_safe {
                    true => {
                        let mut room = self.limits.room(&permit);
                        room.grow_for_answer(size).map(|()| room)
                    }
                    // The write has been done, and is answered in any case.
                    false => Ok(self.limits.count_answer(&permit, size)),
                };
                match room {
                    Ok(room) => {
                        let mut response = hold_until_sent(response, (permit, room));
                        response.extensions_mut().insert(UncountedAnswer);
                        response
                    }
                    Err(problem) => failed(problem, &log),
                }
            }
            _ => response,
        };
        drop(admission.read_shares);
        if let Some(rate) = admission.rate {
            rate_headers(rate, response.headers_mut());
        }
        body::drain(body, response).await
    }

    async fn answer(
        &self,
        route: Arc<Route>,
        path: Vec<String>,
        parts: Parts,
        body: &mut Body,
        log: &RequestLog,
        admission: &mut Admission,
    ) -> Result<Answer, Problem> {
        // The token is valid, and its tenant is within its quota.
        let address = log.origin.address.clone();
        let (caller, token) = self.caller(&route, &parts, address.as_deref().unwrap_or_default()).await?;
        if !caller.is_visitor() {
            log.authenticated(&caller, &self.nagaya);
        }
        let permit = match self.limits.admit(&caller, address.as_deref()) {
            Ok(permit) => &*admission.permit.insert(permit),
            Err(refusal) => return Err(admission.refuse(&refusal)),
        };
        admission.rate = permit.rate_status();
        // The roles of the token allow the route.
        roles::authorize(&self.system.design, &route, &self.custom, &caller)?;
        // The answer can be sent. Nothing is read for a stream that could not be.
        if parts.extensions.get::<WholeAnswer>().is_some() && self.answers_stream(&route) {
            return Err(Problem::from_code(
                ProblemCode::NOT_HERE,
                "Answers are sent as a whole here, and a stream has no end.",
            ));
        }
        // The store accepts writes. Checked here because a custom route may call other services before it writes.
        if !route.method.is_safe()
            && let Health::ReadOnly(reason) = self.nagaya.store_health()
        {
            return Err(Problem::insufficient_storage().with_cause(reason));
        }
        // The query and the body are well-formed.
        let query = query(parts.uri.query().unwrap_or_default());
        if !matches!(route.operation, Operation::List(_) | Operation::Custom(_) | Operation::OperatorLog)
            && let Some((name, _)) = query.first()
        {
            return Err(Problem::bad_parameter(name, "Is not a parameter here."));
        }
        let takes_body = self.takes_body(&route);
        let mut room = (takes_body || !route.method.is_safe()).then(|| self.limits.room(permit));
        let (body, raw_body) = match &mut room {
            Some(room) if takes_body => self.read_body(&route, &parts, body, room).await?,
            _ => (Map::new(), Bytes::new()),
        };
        let bytes = raw_body.len();
        // What the request reads has room in memory.
        let bytes_read = self.item_sizes.read_by(&self.system.design, &route, &self.custom, &query);
        admission.read_shares = self.limits.acquire_read(permit, bytes_read).await?;
        // The server has capacity. Asked for only now, because a client may take its time to send a body.
        let _server = self.limits.admit_to_server()?;
        // A write is done only if its answer has room.
        let most = self.item_sizes.answered_by(&self.system.design, &route, &self.custom, bytes);
        if let Some(room) = room.as_mut().filter(|_| most > SMALL_BODY) {
            room.grow_for_answer(most)?;
        }

        let (nagaya, mount, headers) = (self.nagaya.clone(), Arc::clone(&self.mount), parts.headers);
        let origin = log.origin.clone();
        let own_items_only = false;
        let raw_body = if self.keeps_raw_body(&route) { raw_body } else { Bytes::new() };
        let mut call =
            Call { nagaya, mount, route, caller, origin, path, query, headers, body, raw_body, own_items_only };
        if let Operation::Custom(id) = call.route.operation {
            let handler =
                id.find_in(&self.custom).map(|route| Arc::clone(&route.handler)).ok_or_else(Problem::not_found)?;
            let call = Arc::new(call);
            let mut answer = handler(Arc::clone(&call)).await?;
            self.restrict(&call, &mut answer).await?;
            return self.guard_stream(answer, &call.caller, token, address.as_deref());
        }
        call.reject_fields_of_the_layer()?;
        let mut answer = self.derived_answer(&mut call).await?;
        self.restrict(&call, &mut answer).await?;
        Ok(if call.route.method.is_safe() { answer.unless_known(call.header("if-none-match")) } else { answer })
    }

    async fn derived_answer(&self, call: &mut Call) -> Result<Answer, Problem> {
        let extension = &self.system.extension;
        if let Some(answer) = extension.before(call).await? {
            return Ok(answer);
        }
        let mut answer = derived::run(call).await?;
        extension.after(call, &mut answer).await?;
        Ok(answer)
    }

    /// Makes an answer what this caller may see.
    async fn restrict(&self, call: &Call, answer: &mut Answer) -> Result<(), Problem> {
        let records = answer.records_mut();
        if records.is_empty() {
            return Ok(());
        }
        match self.system.extension.restrict(call, records) {
            Some(restricting) => restricting.await?,
            None => return Ok(()),
        }
        answer.tag_adapted();
        Ok(())
    }

    /// The same answer; a stream has permits of its own, and ends when its token is no longer valid.
    fn guard_stream(
        &self,
        mut answer: Answer,
        caller: &Caller,
        token: Option<Arc<str>>,
        address: Option<&str>,
    ) -> Result<Answer, Problem> {
        if let Content::Stream(_, body) = &mut answer.content {
            let permit = self.limits.admit_stream(caller, address)?;
            let token = token.map(|token| (Arc::clone(&self.verifier), token));
            let guard = StreamGuard::new(std::mem::take(body), token, permit);
            *body = Body::new(guard);
        }
        Ok(answer)
    }

    /// The caller that the token names, and the token; a visitor where there is no token and the route needs none.
    async fn caller(
        &self,
        route: &Route,
        parts: &Parts,
        address: &str,
    ) -> Result<(Arc<Caller>, Option<Arc<str>>), Problem> {
        let Some(header) = parts.headers.get(header::AUTHORIZATION) else {
            return match route.admits_visitors(&self.system.design) {
                true => Ok((Caller::visitor(), None)),
                false => Err(Problem::from_code(ProblemCode::NO_TOKEN, "Send a token: `Authorization: Bearer …`.")),
            };
        };
        let malformed =
            || Problem::from_code(ProblemCode::BAD_TOKEN, "The header `Authorization` has to be `Bearer` and a token.");
        let (scheme, token) = header.to_str().ok().and_then(|header| header.split_once(' ')).ok_or_else(malformed)?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(malformed());
        }
        let token = token.trim();
        let caller = match self.verifier.known_caller(token).await {
            Some(caller) => Ok(caller),
            None => self.verify(token, address).await,
        };
        Ok((caller?.with_counting_roles(&self.system.design), self.has_streams.then(|| token.into())))
    }

    /// The caller of a token that is not known. An address that guesses tokens gets no answer to its guesses, while known
    /// tokens of others behind the same address go on.
    async fn verify(&self, token: &str, address: &str) -> Result<Arc<Caller>, Problem> {
        if let Some(wait) = self.limits.too_many_failures(address) {
            let detail = "Too many tokens from this address were refused. `Retry-After` says when to go on.";
            return Err(Problem::from_code(ProblemCode::RATE_LIMITED, detail).retry_after(whole_seconds(wait)));
        }
        let caller = self.verifier.verify(token).await;
        if caller.as_ref().is_err_and(|problem| problem.status() == StatusCode::UNAUTHORIZED) {
            self.limits.count_failure(address);
        }
        caller
    }

    fn answers_stream(&self, route: &Route) -> bool {
        let Operation::Custom(id) = route.operation else { return false };
        id.find_in(&self.custom).is_some_and(|route| route.stream_media_type.is_some())
    }

    fn takes_body(&self, route: &Route) -> bool {
        match route.operation {
            Operation::Create(_) | Operation::Update(_) => true,
            Operation::Custom(id) => id.find_in(&self.custom).is_some_and(|route| route.body_schema.is_some()),
            Operation::Read(_) | Operation::Delete(_) | Operation::List(_) | Operation::OperatorLog => false,
        }
    }

    fn keeps_raw_body(&self, route: &Route) -> bool {
        matches!(route.operation, Operation::Custom(id) if id.find_in(&self.custom).is_some_and(|route| route.keeps_raw_body))
    }

    /// The fields of the body, and its bytes.
    async fn read_body(
        &self,
        route: &Route,
        parts: &Parts,
        body: &mut Body,
        room: &mut Room,
    ) -> Result<(Map<String, Json>, Bytes), Problem> {
        // A custom route may require no field: then the body can be left out.
        if matches!(route.operation, Operation::Custom(_)) && body.is_end_stream() {
            return Ok((Map::new(), Bytes::new()));
        }
        let media_type = parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let media_type = media_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        let is_patch = parts.method == Method::PATCH && media_type.eq_ignore_ascii_case("application/merge-patch+json");
        if !is_patch && !media_type.eq_ignore_ascii_case("application/json") {
            let detail = "Send JSON, with `Content-Type: application/json`.";
            return Err(Problem::from_code(ProblemCode::NOT_JSON, detail));
        }
        let bytes = body::read(body, self.limits.body_bytes(), |more| room.grow_for_body(more)).await?;
        match json_body::parse(&bytes) {
            Ok(Json::Object(fields)) => Ok((fields, bytes)),
            Ok(_) => Err(Problem::from_code(ProblemCode::BAD_BODY, "The body has to be a JSON object.")),
            Err(error) if error.is_data() => {
                Err(Problem::from_code(ProblemCode::BAD_BODY, format!("In the body, {error}.")))
            }
            Err(error) => Err(Problem::from_code(ProblemCode::BAD_BODY, format!("The body is not JSON: {error}."))),
        }
    }
}

/// What a request was admitted with.
#[derive(Debug, Default)]
struct Admission {
    permit: Option<Permit>,
    rate: Option<RateStatus>,
    read_shares: ReadShares,
}

impl Admission {
    /// The problem of a request beyond the caller's rate.
    fn refuse(&mut self, refusal: &Refusal) -> Problem {
        self.rate = refusal.status;
        let detail = "The caller sends more requests than it may. `Retry-After` says when to go on.";
        Problem::from_code(ProblemCode::RATE_LIMITED, detail).retry_after(whole_seconds(refusal.wait))
    }
}

fn failed(problem: Problem, log: &RequestLog) -> Response {
    log.failed(&problem);
    problem.into_response(&log.origin.request)
}

/// What is left of the rate, in the fields that the IETF drafts for it.
fn rate_headers(rate: RateStatus, headers: &mut HeaderMap) {
    let RateStatus { quota, window, remaining, reset } = rate;
    let fields = [
        (RATE_LIMIT_POLICY, format!("\"tenant\";q={quota};w={window}")),
        (RATE_LIMIT, format!("\"tenant\";r={remaining};t={reset}")),
    ];
    for (name, value) in fields {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
}

/// Rounded up, and at least 1: after this time a request is admitted.
fn whole_seconds(wait: Duration) -> u32 {
    u32::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(u32::MAX).max(1)
}

/// The parameters of a query.
fn query(text: &str) -> Vec<(String, String)> {
    form_urlencoded::parse(text.as_bytes()).map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announced_wait_is_rounded_up() {
        let announced = [0, 1, 1_000, 1_001, 5_000].map(|millis| whole_seconds(Duration::from_millis(millis)));
        assert_eq!(announced, [1, 1, 1, 2, 5]);
    }
}
