//! The operations of derived routes, one module each: a list of checks, then the call to the tenancy layer.

mod create;
mod delete;
mod list;
mod read;
mod update;

use nagaya_design::{Entity, Field, FieldError};
use nagaya_tenancy::Record;

use crate::{Answer, Call, Problem, route::Operation};

/// Runs the operation of a derived route.
pub(crate) async fn run(call: &mut Call) -> Result<Answer, Problem> {
    match call.route.operation {
        Operation::Create(id) => create::create(call, id).await,
        Operation::Read(id) => read::read(call, id).await,
        Operation::Update(id) => update::update(call, id).await,
        Operation::Delete(id) => delete::delete(call, id).await,
        Operation::List(id) => list::list(call, id).await,
        Operation::Custom(_) => Err(Problem::not_found()),
    }
}

/// Refuses the body of a derived route that has fields which only the layer sets. The extension may add them later.
pub(crate) fn reject_fields_of_the_layer(call: &Call) -> Result<(), Problem> {
    let fields = call.route.subject(call.design()).map_or(&[][..], |(entity, _)| &entity.fields);
    let given = fields.iter().filter(|field| call.body.contains_key(&field.name));
    let error = |field: &Field| Some(FieldError { path: field.name.clone(), message: field.why_not_writable()? });
    let errors: Vec<_> = given.filter_map(error).collect();
    Problem::check_fields(errors)
}

/// The path of an item.
fn location(call: &Call, entity: &Entity, record: &Record) -> String {
    let mut path = format!("{}{}{}", call.mount, call.design().http_prefix, entity.path);
    for part in record.id() {
        path.push('/');
        path.extend(percent_encoding::utf8_percent_encode(&part, SEGMENT));
    }
    path
}

/// Characters that are escaped in a segment of a path.
const SEGMENT: &percent_encoding::AsciiSet =
    &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b':').remove(b'@');
