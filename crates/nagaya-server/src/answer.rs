//! The answer of a handler, and how it is written.

use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::Response,
};
use nagaya_tenancy::{Page, Record};
use serde::Serialize;
use serde_json::Value as Json;

/// The answer of a handler.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// Headers besides those of the content.
    pub headers: HeaderMap,
    /// The content of the body.
    pub content: Content,
}

/// The content of the body of an answer.
#[derive(Debug)]
pub enum Content {
    /// Nothing.
    None,
    /// `{"data": …}` with an item.
    Record(Box<Record>),
    /// `{"data": […], "nextCursor": …}`.
    Page(Page),
    /// `{"data": […], "nextCursor": …}` with anything.
    List(Vec<Json>, Option<String>),
    /// `{"data": …}` with anything.
    Data(Json),
    /// A stream of a media type such as `text/event-stream`, which lasts until the client disconnects.
    Stream(&'static str, Body),
}

#[derive(Serialize)]
struct DataEnvelope<'a, T: ?Sized> {
    data: &'a T,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PageEnvelope<'a, T> {
    data: &'a [T],
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: &'a Option<String>,
}

#[derive(Serialize)]
struct Count {
    count: u64,
}

impl Answer {
    /// An answer with this content.
    pub fn new(status: StatusCode, content: Content) -> Self {
        Answer { status, headers: HeaderMap::with_capacity(HEADER_CAPACITY), content }
    }

    /// 200 with any data.
    pub fn data(data: Json) -> Self {
        Answer::new(StatusCode::OK, Content::Data(data))
    }

    /// 200 with a page.
    pub fn page(page: Page) -> Self {
        Answer::new(StatusCode::OK, Content::Page(page))
    }

    /// 204.
    pub fn no_content() -> Self {
        Answer::new(StatusCode::NO_CONTENT, Content::None)
    }

    /// 201 with a new item, its tag and its location.
    pub fn created(record: Record, location: &str) -> Self {
        let mut answer = Answer::record(record);
        answer.status = StatusCode::CREATED;
        answer.set_header(header::LOCATION, location);
        answer
    }

    /// 200 with an item and its tag.
    pub fn record(record: Record) -> Self {
        let mut answer = Answer::new(StatusCode::OK, Content::None);
        answer.etag(&record);
        answer.content = Content::Record(Box::new(record));
        answer
    }

    /// Adds the tag of an item.
    pub fn etag(&mut self, record: &Record) {
        self.set_header(header::ETAG, &tag(record));
    }

    /// Sets a header, if its value can be one.
    pub fn set_header(&mut self, name: HeaderName, value: &str) {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
    }

    /// The items in its body.
    pub(crate) fn records_mut(&mut self) -> &mut [Record] {
        match &mut self.content {
            Content::Record(record) => std::slice::from_mut(record),
            Content::Page(page) => &mut page.records,
            Content::None | Content::List(..) | Content::Data(_) | Content::Stream(..) => &mut [],
        }
    }

    /// Replaces the tag of an item that was adapted to its caller after it was tagged.
    pub(crate) fn tag_adapted(&mut self) {
        if self.headers.contains_key(header::ETAG)
            && let Content::Record(record) = &self.content
            && record.is_adapted()
        {
            let tag = tag(record);
            self.set_header(header::ETAG, &tag);
        }
    }

    /// 304 with its tag if `known`, the value of `If-None-Match`, names the tag; else the same answer.
    pub(crate) fn unless_known(self, known: Option<&str>) -> Self {
        let tag = self.headers.get(header::ETAG).and_then(|tag| tag.to_str().ok());
        match known.zip(tag) {
            Some((known, tag)) if etag_matches(known, tag, true) => {
                let mut answer = Answer::new(StatusCode::NOT_MODIFIED, Content::None);
                answer.set_header(header::ETAG, tag);
                answer
            }
            _ => self,
        }
    }

    pub(crate) fn into_response(mut self) -> Response {
        if let Content::Stream(media_type, body) = self.content {
            let mut response = Response::new(body);
            *response.status_mut() = self.status;
            self.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
            self.headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
            *response.headers_mut() = self.headers;
            return response;
        }
        let body = match &self.content {
            Content::None | Content::Stream(..) => None,
            Content::Record(record) => Some(json(ITEM, &DataEnvelope { data: &**record })),
            Content::Page(Page { count: Some(count), .. }) => {
                Some(json(ITEM, &DataEnvelope { data: &Count { count: *count } }))
            }
            Content::Page(page) => Some(json(
                ITEM * (1 + page.records.len()),
                &PageEnvelope { data: &page.records, next_cursor: &page.next },
            )),
            Content::List(data, next_cursor) => {
                Some(json(ITEM * (1 + data.len()), &PageEnvelope { data, next_cursor }))
            }
            Content::Data(data) => Some(json(ITEM, &DataEnvelope { data })),
        };
        let mut response = Response::new(body.map_or_else(Body::empty, Body::from));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        if !matches!(self.content, Content::None) {
            let json = HeaderValue::from_static("application/json");
            response.headers_mut().entry(header::CONTENT_TYPE).or_insert(json);
        }
        // Caches must not give one caller's answer to another.
        response.headers_mut().entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("private, no-cache"));
        response
    }
}

/// Headers of most answers, with those that the server and the connection add.
const HEADER_CAPACITY: usize = 12;

/// Bytes that most items need.
const ITEM: usize = 512;

/// A value as JSON; `capacity` is about its length.
fn json(capacity: usize, value: &impl Serialize) -> Vec<u8> {
    let mut json = Vec::with_capacity(capacity);
    // These types always serialize.
    let _ = serde_json::to_writer(&mut json, value);
    json
}

/// The tag of an item: its version and a hash of its content. A deleted item that is created again starts with version 1
/// again; the hash tells the two apart.
pub fn tag(record: &Record) -> String {
    match record.version() {
        Some(version) => format!("\"v{version}-{:016x}\"", record.digest()),
        None => {
            let content = serde_json::to_vec(record).unwrap_or_default();
            format!("\"{}\"", &blake3::hash(&content).to_hex()[..32])
        }
    }
}

/// Whether a header such as `If-None-Match` names a tag. For reading (`weak`), weak tags match; for writing, a version alone
/// (`"v3"`) matches.
pub fn etag_matches(header: &str, tag: &str, weak: bool) -> bool {
    let version = tag.split_once('-').map(|(version, _)| format!("{version}\""));
    header.split(',').map(str::trim).any(|each| {
        let each = if weak { each.strip_prefix("W/").unwrap_or(each) } else { each };
        each == "*" || each == tag || (!weak && version.as_deref() == Some(each))
    })
}
