//! Swagger UI, from the archive in the crate that vendors it.
//!
//! A ZIP entry and a GZIP file contain the same compressed stream with different headers, so the files are sent without
//! compressing them again.

use std::sync::{Arc, LazyLock};

use rawzip::{CompressionMethod, ZipArchive};
use utoipa_swagger_ui_vendored::SWAGGER_UI_VENDORED;

use super::asset::Asset;

/// Its style sheet.
pub(super) fn style() -> Option<&'static Arc<Asset>> {
    static STYLE: LazyLock<Option<Arc<Asset>>> =
        LazyLock::new(|| asset("/dist/swagger-ui.css", "text/css; charset=utf-8").map(Arc::new));
    STYLE.as_ref()
}

/// Its script.
pub(super) fn script() -> Option<&'static Arc<Asset>> {
    static SCRIPT: LazyLock<Option<Arc<Asset>>> =
        LazyLock::new(|| asset("/dist/swagger-ui-bundle.js", "text/javascript; charset=utf-8").map(Arc::new));
    SCRIPT.as_ref()
}

fn asset(name: &str, media_type: &'static str) -> Option<Asset> {
    let archive = ZipArchive::from_slice(SWAGGER_UI_VENDORED).ok()?;
    let mut entries = archive.entries();
    while let Ok(Some(entry)) = entries.next_entry() {
        // The folder around everything is named after the version.
        if !entry.file_path().as_ref().ends_with(name.as_bytes())
            || entry.compression_method() != CompressionMethod::DEFLATE
        {
            continue;
        }
        let (checksum, size) = (entry.crc32(), entry.uncompressed_size_hint());
        let compressed = archive.get_entry(entry.wayfinder()).ok()?.data();
        let content = [HEADER, compressed, &checksum.to_le_bytes(), &u32::try_from(size).ok()?.to_le_bytes()].concat();
        let tag = format!("\"{checksum:08x}\"");
        return Some(Asset { media_type, encoding: Some("gzip"), tag, content: content.into() });
    }
    None
}

/// The start of a GZIP file (RFC 1952): deflated, without name and time, made by an unknown system.
const HEADER: &[u8] = &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
