//! Tasks for contributors.
fn main() {}
