//! What is wrong with a body that a design finds nothing wrong with.

use nagaya_design::Problem as Flaw;
use nagaya_server::Problem;
use nagaya_tenancy::{Error, ErrorKind};

/// What is wrong with a part of a body.
pub(crate) fn flaw(path: impl Into<String>, message: impl Into<String>) -> Flaw {
    Flaw { path: path.into(), message: message.into() }
}

/// Refuses a body that has flaws, in the way of the derived routes.
pub(crate) fn refuse(flaws: Vec<Flaw>) -> Result<(), Problem> {
    if flaws.is_empty() { Ok(()) } else { Err(Error::from(ErrorKind::Invalid(flaws)).into()) }
}
