//! `cargo xtask test`: all checks that a change has to pass.

use crate::{
    docs,
    run::{cargo, ensure, step},
    schemathesis,
    servers::{Server, Servers},
};

/// Installs missing tools and runs all checks; the tests run last, so that their summary ends the output.
pub(crate) fn run() -> anyhow::Result<()> {
    step("format", cargo(["fmt", "--all", "--check"]))?;
    docs::run()?;
    let lints = ["clippy", "--workspace", "--all-targets", "--all-features", "--quiet", "--", "--deny", "warnings"];
    step("lints", cargo(lints))?;
    let benches = ["clippy", "--manifest-path", "benches/Cargo.toml", "--target-dir", "target/bench", "--locked"];
    let mut benches = cargo(benches);
    benches.args(["--workspace", "--all-targets", "--quiet", "--", "--deny", "warnings"]);
    step("lints of the benchmarks", benches)?;
    ensure("deny", "cargo-deny")?;
    step("licences", cargo(["deny", "--workspace", "--all-features", "check", "licenses", "bans", "sources"]))?;
    step("documentation tests", cargo(["test", "--workspace", "--all-features", "--doc", "--quiet"]))?;
    schemathesis::all()?;
    ensure("nextest", "cargo-nextest")?;
    let servers = Servers::start(&Server::ALL)?;
    let mut tests = cargo(["nextest", "run", "--workspace", "--all-features", "--no-fail-fast"]);
    // Snapshots are compared, never written.
    tests.env("INSTA_UPDATE", "no").envs(servers.variables());
    step("tests", tests)
}
