//! What the benchmarks share: the machine, child processes that end with a run, PostgreSQL, and the tables of the report.

pub mod machine;
pub mod postgresql;
pub mod process;
pub mod rounds;
pub mod tools;
