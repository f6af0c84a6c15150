//! What the routes of a design do: one module per act. Each is a list of checks, then the call through the walls.

mod create;
mod delete;
mod list;
mod read;
mod update;

pub(crate) use list::page;
use nagaya_design::{Entity, Field, Problem as Flaw};
use nagaya_tenancy::{Error, ErrorKind, Record};

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

/// Refuses the body of a derived route with fields that callers do not give. What the system does before the route may add
/// them.
pub(crate) fn only_given(call: &Call) -> Result<(), Problem> {
    let fields = call.route.subject(call.design()).map_or(&[][..], |(entity, _)| &entity.fields);
    let given = fields.iter().filter(|field| call.body.contains_key(&field.name));
    let flaw = |field: &Field| Some(Flaw { path: field.name.clone(), message: field.not_given()? });
    let flaws: Vec<_> = given.filter_map(flaw).collect();
    if flaws.is_empty() { Ok(()) } else { Err(Error::from(ErrorKind::Invalid(flaws)).into()) }
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
