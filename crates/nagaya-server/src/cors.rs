//! CORS: pages of other origins may call only if the origin is listed.

use std::{sync::Arc, time::Duration};

use axum::http::{HeaderName, HeaderValue, header};
use tower_http::cors::{AllowOrigin, CorsLayer};

use crate::{call::REASON_HEADER, limits, observe};

/// For how many milliseconds the newest event has not been in the list that is answered.
pub const PROJECTION_LAG: HeaderName = HeaderName::from_static("nagaya-projection-lag");
/// How long a browser may cache a preflight answer.
const MAX_AGE: Duration = Duration::from_secs(600);

/// The origins whose pages may call. Without any, answers have no CORS headers.
#[derive(Debug, Clone, Default)]
pub struct Cors {
    origins: Vec<HeaderValue>,
    credentials: bool,
}

/// A text that is not an origin, or an origin that must not be allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the origin `{origin}` cannot be allowed: {why}")]
pub struct BadOrigin {
    origin: String,
    why: &'static str,
}

impl Cors {
    /// Allows exactly these origins, each as a browser sends it: `https://app.example.com`.
    pub fn new(origins: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, BadOrigin> {
        let origins = origins.into_iter().map(|origin| allowed(origin.as_ref())).collect::<Result<_, _>>()?;
        Ok(Cors { origins, credentials: false })
    }

    /// Whether pages may send cookies. Tokens in headers do not need it.
    #[must_use]
    pub fn allow_credentials(mut self, credentials: bool) -> Self {
        self.credentials = credentials;
        self
    }

    /// The layer that adds the headers, except for the methods, which each path has of its own; `None` without origins.
    pub(crate) fn layer(&self) -> Option<CorsLayer> {
        if self.origins.is_empty() {
            return None;
        }
        // In an `Arc`, because the layer is cloned for each request.
        let origins: Arc<[HeaderValue]> = self.origins.clone().into();
        let allowed = AllowOrigin::predicate(move |origin, _| origins.contains(origin));
        let request_headers = [
            header::AUTHORIZATION,
            header::CONTENT_TYPE,
            header::IF_MATCH,
            header::IF_NONE_MATCH,
            HeaderName::from_static("idempotency-key"),
            HeaderName::from_static(REASON_HEADER),
            observe::REQUEST_ID,
            observe::CORRELATION_ID,
            observe::CAUSATION_ID,
            HeaderName::from_static("last-event-id"),
        ];
        let response_headers = [
            header::ETAG,
            header::LOCATION,
            header::RETRY_AFTER,
            observe::REQUEST_ID,
            limits::RATE_LIMIT,
            limits::RATE_LIMIT_POLICY,
            PROJECTION_LAG,
        ];
        let layer = CorsLayer::new()
            .allow_origin(allowed)
            .allow_headers(request_headers)
            .expose_headers(response_headers)
            .allow_credentials(self.credentials)
            .max_age(MAX_AGE);
        Some(layer)
    }
}

/// An origin as a browser sends it. Anything else would never match.
fn allowed(origin: &str) -> Result<HeaderValue, BadOrigin> {
    let refuse = |why| Err(BadOrigin { origin: origin.to_owned(), why });
    if origin.contains('*') {
        return refuse("every page on the internet could call; name each origin");
    }
    if origin == "null" {
        return refuse("pages from files and sandboxes of anybody share it");
    }
    let Some((scheme, host)) = origin.split_once("://") else {
        return refuse("write it as `https://app.example.com`");
    };
    let is_scheme = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || b"+-.".contains(&letter);
    let is_host = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || b"-._:[]".contains(&letter);
    if host.contains(['/', '?', '#', '@']) {
        return refuse("an origin has no path, and nothing else after the host and the port");
    }
    if origin.bytes().any(|letter| letter.is_ascii_uppercase()) {
        return refuse("browsers send it in lower case");
    }
    if scheme.is_empty() || host.is_empty() || !scheme.bytes().all(is_scheme) || !host.bytes().all(is_host) {
        return refuse("write it as `https://app.example.com`");
    }
    if (scheme == "https" && host.ends_with(":443")) || (scheme == "http" && host.ends_with(":80")) {
        return refuse("browsers leave out the port that the scheme has anyway");
    }
    HeaderValue::from_str(origin).or_else(|_| refuse("write it as `https://app.example.com`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves the start's part of T18.
    #[test]
    fn what_no_browser_sends_is_refused_with_the_reason() {
        let check = |origin: &str, why: &str| {
            let refused = Cors::new([origin]).expect_err(origin).to_string();
            assert!(refused.contains(origin) && refused.contains(why), "{refused}");
        };
        check("*", "every page");
        check("https://*.example.com", "every page");
        check("null", "anybody");
        check("app.example.com", "write it as");
        check("https://app.example.com/", "no path");
        check("https://ann@app.example.com", "nothing else");
        check("https://App.example.com", "lower case");
        check("https://app.example.com:443", "port");
        check("http://localhost:80", "port");
        check("https://", "write it as");
        check("https://exämple.com", "write it as");
        check("", "write it as");
    }

    #[test]
    fn what_browsers_send_is_taken() {
        for origin in [
            "https://app.example.com",
            "http://localhost:5173",
            "http://[::1]:80443",
            "capacitor://localhost",
            "chrome-extension://abc",
            "app2://localhost",
        ] {
            assert!(Cors::new([origin]).is_ok(), "{origin}");
        }
    }

    #[test]
    fn without_origins_there_is_no_cors() {
        assert!(Cors::default().layer().is_none());
        assert!(Cors::new([""; 0]).expect("no origins").layer().is_none());
    }
}
