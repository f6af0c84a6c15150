//! Tables: planned, made, filled, looked at and dropped.
//!
//! A [`Plan`] tells the steps from the tables as they are to the tables as they should be ([`Wanted`]), and what no step can
//! change. Doing it takes one step after the other and waits for each; it can be stopped and begun again at any point.
//! The port's `ensure` is a plan without the settings that only DynamoDB has.

mod actual;
mod apply;
mod call;
mod ensure;
mod look;
mod plan;
mod step;
mod wait;
mod wanted;

pub(crate) use self::ensure::ensure;
pub use self::{
    apply::{Event, Stopped},
    look::{IndexLook, TableLook},
    plan::{Plan, TablePlan},
    step::Step,
    wanted::Wanted,
};
