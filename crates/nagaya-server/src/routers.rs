//! The routers of a server, and the one that a path belongs to.

use std::{
    convert::Infallible,
    sync::{Arc, PoisonError, RwLock},
    task::{Context, Poll},
};

use axum::{
    Router,
    body::Body,
    extract::Request,
    http::{HeaderValue, Method, Uri, header},
    response::Response,
    routing::future::RouteFuture,
};
use tower_service::Service;

/// The routers of a server. A request goes straight to the router of its system: nested routers would cost time.
#[derive(Debug)]
pub(crate) struct Routers {
    /// The routers of the systems by the path that they are mounted at, longest paths first.
    systems: Vec<(Arc<str>, CurrentRouter)>,
    fallback: CurrentRouter,
}

impl Routers {
    pub(crate) fn new(mut systems: Vec<(Arc<str>, CurrentRouter)>, fallback: CurrentRouter) -> Self {
        systems.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        Routers { systems, fallback }
    }

    /// The router that answers a path.
    pub(crate) fn find(&self, path: &str) -> Router {
        let is_below = |(mount, _): &&(Arc<str>, CurrentRouter)| {
            path.strip_prefix(&**mount).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.systems.iter().find(is_below).map_or(&self.fallback, |(_, router)| router).get()
    }

    /// The methods of the routes at a path, as in the header `Allow`; `None` if there is no route.
    pub(crate) async fn methods_at(&self, uri: Uri) -> Option<HeaderValue> {
        let mut request = Request::new(Body::empty());
        // No route can have such a method: the router refuses it, and names those that there are.
        *request.method_mut() = Method::from_bytes(b"NONE").ok()?;
        let mut router = self.find(uri.path());
        *request.uri_mut() = uri;
        match router.call(request).await {
            Ok(mut response) => response.headers_mut().remove(header::ALLOW),
            Err(never) => match never {},
        }
    }
}

/// A router that can be replaced while it is in use.
#[derive(Debug, Clone, Default)]
pub(crate) struct CurrentRouter(Arc<RwLock<Router>>);

impl CurrentRouter {
    pub(crate) fn new(router: Router) -> Self {
        CurrentRouter(Arc::new(RwLock::new(router)))
    }

    pub(crate) fn get(&self) -> Router {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn replace(&self, router: Router) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = router;
    }
}

impl Service<Request> for CurrentRouter {
    type Response = Response;
    type Error = Infallible;
    type Future = RouteFuture<Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        self.get().call(request)
    }
}
