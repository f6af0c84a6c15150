//! The walls: what a design becomes in a store, for one tenant at a time.

mod tables;

pub use self::tables::table_specs;
