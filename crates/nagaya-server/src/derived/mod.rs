//! What the routes of a design do: one module per act. Each is a list of checks, then the call through the walls.

mod create;
mod delete;
mod list;
mod read;
mod update;

pub(crate) use list::{MAX_LIMIT, page};
use nagaya_design::Entity;
use nagaya_tenancy::Record;

use crate::{Answer, Call, Problem, route::Act};

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
