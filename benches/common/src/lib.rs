//! Shared code of the benchmarks: the machine, child processes that end with a run, PostgreSQL, and report tables.

pub mod machine;
pub mod postgresql;
pub mod process;
pub mod rounds;
pub mod tools;
