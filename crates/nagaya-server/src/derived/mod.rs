//! The operations of derived routes, one module each: a list of checks, then the call to the tenancy layer.

mod create;
mod delete;
mod list;
mod operator_log;
mod read;
mod update;

pub use self::operator_log::log_entry_json;
use crate::{Answer, Call, Problem, route::Operation};

/// Runs the operation of a derived route.
pub(crate) async fn run(call: &mut Call) -> Result<Answer, Problem> {
    match call.route.operation {
        Operation::Create(id) => create::create(call, id).await,
        Operation::Read(id) => read::read(call, id).await,
        Operation::Update(id) => update::update(call, id).await,
        Operation::Delete(id) => delete::delete(call, id).await,
        Operation::List(id) => list::list(call, id).await,
        Operation::OperatorLog => operator_log::read(call).await,
        Operation::Custom(_) => Err(Problem::not_found()),
    }
}
