//! What the routes of a design do: one module per act. Each is a list of checks, then the call through the walls.

mod create;
mod delete;
mod list;
mod read;
mod update;

pub(crate) use list::MAX_LIMIT;
use nagaya_design::Entity;
use nagaya_tenancy::{Expected, Record};

use crate::{
    Answer, Call, Problem,
    answer::{names, tag},
    call::{Handle, with},
    route::Act,
};

/// Does what a derived route does.
pub(crate) async fn act(call: &mut Call) -> Result<Answer, Problem> {
    match call.route.act {
        Act::Create(at) => create::create(call, at).await,
        Act::Read(at) => read::read(call, at).await,
        Act::Update(at) => update::update(call, at).await,
        Act::Delete(at) => delete::delete(call, at).await,
        Act::List(at) => list::list(call, at).await,
        Act::Own(_) => Err(Problem::not_found()),
    }
}

/// What `If-Match` expects of an item.
async fn expected(call: &Call, handle: &Handle, entity: &Entity) -> Result<Expected, Problem> {
    let Some(header) = call.header("if-match") else { return Ok(Expected::Any) };
    if header.trim() == "*" {
        return Ok(Expected::Any);
    }
    if entity.version.is_some()
        && let [tag] = header.split(',').map(str::trim).collect::<Vec<_>>().as_slice()
        && let Some(version) = version_in(tag)
    {
        return Ok(Expected::Version(version));
    }
    // Several tags, or one of what an item without a version holds: whichever the item has now is the expected one.
    let current = with!(handle, handle => handle.get(&entity.name, &call.id()).await)?;
    if names(header, &tag(&current), false) { Ok(Expected::from(&current)) } else { Err(stale()) }
}

/// The version in a tag like `"v3"`.
fn version_in(tag: &str) -> Option<i64> {
    tag.strip_prefix("\"v")?.strip_suffix('"')?.parse().ok()
}

fn stale() -> Problem {
    let status = axum::http::StatusCode::PRECONDITION_FAILED;
    Problem::new(status, "version_conflict", "The item has changed: read it again, and send its new `ETag`.")
}

/// The path of an item, its id in it.
fn location(call: &Call, entity: &Entity, record: &Record) -> String {
    let mut path = format!("{}{}{}", call.mount, call.design().http_prefix, entity.path);
    for part in record.id() {
        path.push('/');
        path.extend(percent_encoding::utf8_percent_encode(&part, SEGMENT));
    }
    path
}

/// What cannot stand as it is in a segment of a path.
const SEGMENT: &percent_encoding::AsciiSet =
    &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b':').remove(b'@');
