//! Something that is sent as it is, with a tag by which a caller knows it again.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;

/// Something that is sent as it is.
pub(super) struct Asset {
    pub(super) kind: &'static str,
    pub(super) packing: Option<&'static str>,
    pub(super) tag: String,
    pub(super) content: Bytes,
}

impl Asset {
    pub(super) fn new(kind: &'static str, content: impl Into<Bytes>) -> Self {
        let content = content.into();
        let tag = format!("\"{}\"", &blake3::hash(&content).to_hex()[..32]);
        Asset { kind, packing: None, tag, content }
    }

    /// How pages look.
    pub(super) fn style() -> Arc<Asset> {
        static STYLE: LazyLock<Arc<Asset>> =
            LazyLock::new(|| Arc::new(Asset::new("text/css; charset=utf-8", include_str!("page.css"))));
        Arc::clone(&STYLE)
    }

    /// What starts Swagger UI.
    pub(super) fn script() -> Arc<Asset> {
        static SCRIPT: LazyLock<Arc<Asset>> =
            LazyLock::new(|| Arc::new(Asset::new("text/javascript; charset=utf-8", include_str!("page.js"))));
        Arc::clone(&SCRIPT)
    }
}
