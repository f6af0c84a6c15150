//! Applications: a user without a tenant applies for one, and operators review it.

mod review;
mod submit;

pub(crate) use self::{
    review::{ApplicationApproval, Rejection, approve, reject},
    submit::{NewApplication, submit},
};

const APPLICATION_ENTITY: &str = "tenant_application";
