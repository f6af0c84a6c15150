//! Creating, changing, describing and dropping tables.
//!
//! A [`TablesPlan`] has the steps from the existing tables to the wanted ones ([`DesiredTable`]), and the conflicts that no step can
//! resolve. It is applied step by step, waiting for each, and can be stopped and continued at any point. The port's `ensure`
//! is a plan without the settings that only DynamoDB has.

mod apply;
mod desired;
mod ensure;
mod existing;
mod plan;
mod send;
mod status;
mod step;
mod wait;

pub(crate) use self::ensure::ensure;
pub use self::{
    apply::{ApplyError, ApplyEvent},
    desired::{DesiredTable, TableKey},
    plan::{TablePlan, TablesPlan},
    status::{IndexState, TableState},
    step::Step,
};
