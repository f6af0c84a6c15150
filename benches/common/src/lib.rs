//! What the benchmarks of servers share: the machine, processes that do not outlive a run, PostgreSQL, and how figures become
//! a page.

pub mod machine;
pub mod postgresql;
pub mod process;
pub mod rounds;
pub mod tools;
