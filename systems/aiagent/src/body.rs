//! Errors in a request body that the design alone does not find.

use nagaya_design::Problem as Flaw;
use nagaya_server::Problem;
use nagaya_tenancy::{Error, ErrorKind};

/// An error in a part of a body.
pub(crate) fn flaw(path: impl Into<String>, message: impl Into<String>) -> Flaw {
    Flaw { path: path.into(), message: message.into() }
}

/// Refuses a body with errors, like the derived routes do.
pub(crate) fn refuse(flaws: Vec<Flaw>) -> Result<(), Problem> {
    if flaws.is_empty() { Ok(()) } else { Err(Error::from(ErrorKind::Invalid(flaws)).into()) }
}
