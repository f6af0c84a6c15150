//! Pages: the document of a system and a page to read and try it, and the way to it.
//!
//! The page is Swagger UI, out of the archive that is inside the binary. What it is made of is packed there in the way
//! in which HTTP packs it, so it is sent as it lies there.

mod asset;
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
use serde_json::Value as Json;

use self::asset::Asset;
use crate::{System, route::Route, served::positional};

/// Nothing comes from elsewhere, nothing goes elsewhere, and no script or style stands in a page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The pages of a system, but for those whose place one of its routes has.
pub(crate) fn of_system(
    name: &str,
    mount: &Arc<str>,
    document: impl Fn() -> Json + Send + Sync + 'static,
    routes: &[Arc<Route>],
) -> Router {
    let page = Arc::new(page(name));
    let document = Arc::new(Document { make: document, made: OnceLock::new() });
    let place = format!("{mount}/docs");
    let other = place.clone();
    let pages = [
        ("/", get(move || to(place.clone()))),
        // The same without the last stroke, which a system at the root does not have.
        ("", get(move || to(other.clone()))),
        ("/openapi.json", get(move |request: Request| Document::send(Arc::clone(&document), request))),
        ("/docs", get(move |request: Request| send(Arc::clone(&page), request))),
        ("/docs/page.css", get(|request: Request| send(Asset::style(), request))),
        ("/docs/page.js", get(|request: Request| send(Asset::script(), request))),
        ("/docs/swagger-ui.css", get(|request: Request| packed(swagger::style(), request))),
        ("/docs/swagger-ui.js", get(|request: Request| packed(swagger::script(), request))),
    ];
    let taken = |path: &str| routes.iter().any(|route| positional(&route.path) == path);
    let free = pages.into_iter().filter(|(path, _)| !(taken(path) || mount.is_empty() && path.is_empty()));
    free.fold(Router::new(), |all, (path, page)| all.route(&format!("{mount}{path}"), page))
}

/// The document of a system: made when somebody first asks for it, because it takes a while and a server is to start at
/// once.
struct Document<F> {
    make: F,
    made: OnceLock<Arc<Asset>>,
}

impl<F: Fn() -> Json + Send + Sync + 'static> Document<F> {
    fn make(&self) -> Arc<Asset> {
        Arc::new(Asset::new("application/json", (self.make)().to_string()))
    }

    async fn send(self: Arc<Self>, request: Request) -> Response {
        let made = match self.made.get() {
            Some(made) => Some(Arc::clone(made)),
            None => {
                let document = Arc::clone(&self);
                let made = move || document.made.get_or_init(|| document.make()).clone();
                tokio::task::spawn_blocking(made).await.ok()
            }
        };
        match made {
            Some(made) => send(made, request).await,
            None => crate::served::nothing(request).await,
        }
    }
}

/// A system in the list of those that a server has.
#[derive(Debug)]
pub(crate) struct Listed {
    /// What its paths start with.
    pub(crate) path: String,
    name: String,
    description: Option<String>,
}

impl Listed {
    pub(crate) fn new(path: &str, system: &System) -> Self {
        let (name, description) = (system.name.clone(), system.design.description.clone());
        Listed { path: path.to_owned(), name, description }
    }
}

/// The page that lists the systems of a server.
pub(crate) fn of_server(systems: &[Listed]) -> Router {
    let mut rows = String::new();
    for Listed { path, name, description } in systems {
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

async fn to(place: String) -> Response {
    (StatusCode::FOUND, [(header::LOCATION, place)]).into_response()
}

async fn packed(asset: Option<&'static Arc<Asset>>, request: Request) -> Response {
    match asset {
        Some(asset) => send(Arc::clone(asset), request).await,
        None => crate::served::nothing(request).await,
    }
}

/// An asset, unless the caller has it.
async fn send(asset: Arc<Asset>, request: Request) -> Response {
    let known = request.headers().get(header::IF_NONE_MATCH).and_then(|known| known.to_str().ok());
    let mut response = if known.is_some_and(|known| crate::answer::names(known, &asset.tag, true)) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let mut response = asset.content.clone().into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.kind));
        if let Some(packing) = asset.packing {
            response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static(packing));
        }
        response
    };
    let headers = response.headers_mut();
    let fixed: [(HeaderName, &'static str); 5] = [
        // Kept, but asked for each time: another version of the server may have another one.
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

/// A text that can stand in a page, also in an attribute.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
