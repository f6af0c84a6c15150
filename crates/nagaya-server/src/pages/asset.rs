//! A static file with its tag.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;

/// A static file.
pub(super) struct Asset {
    pub(super) media_type: &'static str,
    pub(super) encoding: Option<&'static str>,
    pub(super) tag: String,
    pub(super) content: Bytes,
}

impl Asset {
    pub(super) fn new(media_type: &'static str, content: impl Into<Bytes>) -> Self {
        let content = content.into();
        let tag = format!("\"{}\"", &blake3::hash(&content).to_hex()[..32]);
        Asset { media_type, encoding: None, tag, content }
    }

    /// The style sheet of the pages.
    pub(super) fn style() -> Arc<Asset> {
        static STYLE: LazyLock<Arc<Asset>> =
            LazyLock::new(|| Arc::new(Asset::new("text/css; charset=utf-8", include_str!("page.css"))));
        Arc::clone(&STYLE)
    }

    /// The script that starts Swagger UI.
    pub(super) fn script() -> Arc<Asset> {
        static SCRIPT: LazyLock<Arc<Asset>> =
            LazyLock::new(|| Arc::new(Asset::new("text/javascript; charset=utf-8", include_str!("page.js"))));
        Arc::clone(&SCRIPT)
    }
}
