//! Pages: the OpenAPI document of a system, Swagger UI to read and try it, and an index of the systems.

mod asset;
mod sign_in;
mod swagger;

use std::{
    fmt::Write as _,
    sync::{Arc, OnceLock},
};

use axum::{
    Router,
    extract::Request,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::get,
};
use nagaya_design::server_path;
use serde_json::Value as Json;

use self::asset::Asset;
pub(crate) use self::sign_in::SignIn;
use crate::{
    System, answer, fallback,
    limits::UncountedAnswer,
    route::{Route, positional},
};

/// Pages load from and connect to this server only, and have no inline scripts or styles.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The pages of a system, except where a route of the system has the same path.
pub(crate) fn system_pages(
    system: &System,
    mount: &Arc<str>,
    document: impl Fn() -> Json + Send + Sync + 'static,
    routes: &[Arc<Route>],
    sign_in: &Arc<SignIn>,
) -> Router {
    let page = Arc::new(page(&system.name));
    let document = Arc::new(Document { json: document, rendered: OnceLock::new() });
    let docs = format!("{mount}{}", server_path::DOCS);
    let same = docs.clone();
    let pages = [
        ("/", get(move || redirect(docs.clone()))),
        // Without the trailing slash, except for a system at the root.
        ("", get(move || redirect(same.clone()))),
        (server_path::OPENAPI, get(move |request: Request| Document::send(Arc::clone(&document), request))),
        (server_path::DOCS, get(move |request: Request| send(Arc::clone(&page), request))),
        ("/docs/page.css", get(|request: Request| send(Asset::style(), request))),
        ("/docs/page.js", get(|request: Request| send(Asset::script(), request))),
        ("/docs/swagger-ui.css", get(|request: Request| send_if_found(swagger::style(), request))),
        ("/docs/sign-in", sign_in::routes(sign_in, system)),
        ("/docs/swagger-ui.js", get(|request: Request| send_if_found(swagger::script(), request))),
    ];
    let is_taken = |path: &str| routes.iter().any(|route| positional(&route.path) == path);
    // Where a route has the path of the page, the files of the page are not needed either.
    let is_hidden = |path: &str| is_taken(path) || path.starts_with("/docs/") && is_taken("/docs");
    let free = pages.into_iter().filter(|(path, _)| !(is_hidden(path) || mount.is_empty() && path.is_empty()));
    free.fold(Router::new(), |all, (path, page)| all.route(&format!("{mount}{path}"), page))
}

/// The document of a system, rendered at the first request: rendering takes a while, and a server should start at once.
struct Document<F> {
    json: F,
    rendered: OnceLock<Arc<Asset>>,
}

impl<F: Fn() -> Json + Send + Sync + 'static> Document<F> {
    fn render(&self) -> Arc<Asset> {
        Arc::new(Asset::new("application/json", (self.json)().to_string()))
    }

    async fn send(self: Arc<Self>, request: Request) -> Response {
        let rendered = match self.rendered.get() {
            Some(rendered) => Some(Arc::clone(rendered)),
            None => {
                let document = Arc::clone(&self);
                let render = move || document.rendered.get_or_init(|| document.render()).clone();
                tokio::task::spawn_blocking(render).await.ok()
            }
        };
        match rendered {
            Some(rendered) => send(rendered, request).await,
            None => fallback::not_found(request).await,
        }
    }
}

/// A system on the index page.
#[derive(Debug)]
pub(crate) struct SystemLink {
    /// The path that it is mounted at.
    pub(crate) path: String,
    name: String,
    description: Option<String>,
}

impl SystemLink {
    pub(crate) fn new(path: &str, system: &System) -> Self {
        let (name, description) = (system.name.clone(), system.design.description.clone());
        SystemLink { path: path.to_owned(), name, description }
    }
}

/// The page that lists the systems of a server.
pub(crate) fn index_page(systems: &[SystemLink]) -> Router {
    let mut rows = String::new();
    for SystemLink { path, name, description } in systems {
        let (path, name) = (escape(path), escape(name));
        let description = escape(description.as_deref().unwrap_or_default());
        // Writing to a string does not fail.
        let _ = write!(
            rows,
            "<li><a href=\"{path}/docs\">{name}</a> <a class=\"raw\" href=\"{path}/openapi.json\">openapi.json</a>\
             <p>{description}</p></li>"
        );
    }
    let style = systems.first().map(|system| format!("{}/docs/page.css", escape(&system.path))).unwrap_or_default();
    let page = include_str!("index.html").replace("{style}", &style).replace("{systems}", &rows);
    let page = Arc::new(Asset::new("text/html; charset=utf-8", page));
    Router::new().route("/", get(move |request: Request| send(Arc::clone(&page), request)))
}

fn page(name: &str) -> Asset {
    Asset::new("text/html; charset=utf-8", include_str!("page.html").replace("{name}", &escape(name)))
}

async fn redirect(location: String) -> Response {
    (StatusCode::FOUND, [(header::LOCATION, location)]).into_response()
}

async fn send_if_found(asset: Option<&'static Arc<Asset>>, request: Request) -> Response {
    match asset {
        Some(asset) => send(Arc::clone(asset), request).await,
        None => fallback::not_found(request).await,
    }
}

/// An asset, or 304 if the caller has it.
async fn send(asset: Arc<Asset>, request: Request) -> Response {
    let known = request.headers().get(header::IF_NONE_MATCH).and_then(|known| known.to_str().ok());
    let mut response = if known.is_some_and(|known| answer::etag_matches(known, &asset.tag, true)) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let mut response = asset.content.clone().into_response();
        response.extensions_mut().insert(UncountedAnswer);
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.media_type));
        if let Some(encoding) = asset.encoding {
            response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
        }
        response
    };
    let headers = response.headers_mut();
    let fixed: [(HeaderName, &'static str); 5] = [
        // Cached, but revalidated: another version of the server may have another file.
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Ok(tag) = HeaderValue::from_str(&asset.tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}

/// Escapes a text for a page, also in an attribute.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
