//! The endpoints that publish the keys of the local issuer.

use std::sync::Arc;

use axum::{
    Router,
    http::{HeaderName, header},
    routing::get,
};
use nagaya_design::server_path;
use serde_json::Value as Json;

use super::LocalIssuer;

/// The discovery document of the local issuer, and its keys.
pub fn router(issuer: Arc<LocalIssuer>) -> Router {
    let keys = Arc::clone(&issuer);
    Router::new().route(server_path::DISCOVERY, get(async move || answer(&issuer.discovery()))).route(
        server_path::KEYS,
        get(async move || {
            // A key that another process has created is published at once.
            let known = Arc::clone(&keys);
            if let Ok(Err(error)) = tokio::task::spawn_blocking(move || known.reload()).await {
                tracing::warn!(%error, "cannot read the keys of the local issuer");
            }
            answer(&keys.jwks())
        }),
    )
}

fn answer(body: &Json) -> ([(HeaderName, &'static str); 2], String) {
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "public, max-age=300")];
    (headers, body.to_string())
}
