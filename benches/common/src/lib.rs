//! Shared code of the benchmarks: the command line, the machine, child processes that end with a run, the release binary,
//! PostgreSQL, concurrent callers, and report tables.

pub mod callers;
pub mod cli;
mod histogram;
pub mod machine;
pub mod postgresql;
pub mod process;
pub mod release;
pub mod rounds;
pub mod tools;
