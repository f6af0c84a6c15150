//! The store port.

mod condition;
mod item;
mod number;
mod update;
mod value;

pub use condition::{Comparison, Condition, Operand};
pub use item::{Item, Path, Step};
pub use number::{NotANumber, Number};
pub use update::{Assign, BadUpdate, Change, Update};
pub use value::{Kind, Value};
