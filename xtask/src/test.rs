//! `cargo xtask test`: all checks that a change has to pass.

use std::time::Instant;

use crate::{
    docs,
    run::{cargo, ensure, step},
    schemathesis,
    servers::{Server, Servers},
};

/// What every build of the tests selects: the same selection gives dependencies the same features, so that a later step
/// reuses what an earlier one has built.
const ALL: [&str; 2] = ["--workspace", "--all-features"];

/// Tests of the store's and the checker's crates, which need few dependencies: their results come first.
const FIRST: [&str; 7] = ["numbers", "examples", "laws", "paths", "ranges", "reference", "roles"];

/// Installs missing tools and runs all checks: first what fails quickly, then the tests, then lints and licences.
///
/// The lints come after the tests because they need the dependencies in another form and cannot reuse those of the tests.
pub(crate) fn run() -> anyhow::Result<()> {
    let start = Instant::now();
    step("format", cargo(["fmt", "--all", "--check"]))?;
    docs::run()?;
    let mut first = cargo(["test", "--quiet"]);
    first.args(ALL).args(FIRST.iter().flat_map(|name| ["--test", name]));
    step("first tests", without_updates(first))?;
    ensure("nextest", "cargo-nextest")?;
    let servers = Servers::start(&Server::ALL)?;
    // One more than there are cores: many tests wait, for servers, timers, and processes that they kill.
    let threads = std::thread::available_parallelism().map_or(2, |cores| cores.get() + 1);
    let mut tests = cargo(["nextest", "run", "--no-fail-fast", "--test-threads", &threads.to_string()]);
    tests.args(ALL).envs(servers.variables());
    step("tests", without_updates(tests))?;
    drop(servers);
    let mut examples = cargo(["test", "--doc", "--quiet"]);
    examples.args(ALL);
    step("documentation tests", examples)?;
    schemathesis::quick()?;
    let mut lints = cargo(["clippy", "--all-targets", "--quiet"]);
    lints.args(ALL).args(["--", "--deny", "warnings"]);
    step("lints", lints)?;
    // With the profiles of this workspace and in its folder, so that most dependencies are there already.
    let mut benches = cargo(["clippy", "--manifest-path", "benches/Cargo.toml", "--config", "Cargo.toml"]);
    benches.args(["--target-dir", "target", "--locked", "--workspace", "--all-targets", "--quiet"]);
    benches.args(["--", "--deny", "warnings"]);
    step("lints of the benchmarks", benches)?;
    ensure("deny", "cargo-deny")?;
    step("licences", cargo(["deny", "--workspace", "--all-features", "check", "licenses", "bans", "sources"]))?;
    eprintln!("== all checks: fine after {:.0?}", start.elapsed());
    Ok(())
}

/// Snapshots are compared, never written.
fn without_updates(mut tests: std::process::Command) -> std::process::Command {
    tests.env("INSTA_UPDATE", "no");
    tests
}
