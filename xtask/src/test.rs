//! `cargo xtask test`: everything that has to hold before a change goes in.

use crate::run::{cargo, ensure, step};

/// Sets up what is missing and runs all checks; the tests come last, so that their summary closes the output.
pub(crate) fn run() -> anyhow::Result<()> {
    step("format", cargo(["fmt", "--all", "--check"]))?;
    step("lints", cargo(["clippy", "--workspace", "--all-targets", "--quiet", "--", "--deny", "warnings"]))?;
    ensure("deny", "cargo-deny")?;
    step("licences", cargo(["deny", "--workspace", "check", "licenses", "bans", "sources"]))?;
    step("documentation tests", cargo(["test", "--workspace", "--doc", "--quiet"]))?;
    ensure("nextest", "cargo-nextest")?;
    // Snapshots are compared, never written.
    let mut tests = cargo(["nextest", "run", "--workspace", "--no-fail-fast"]);
    tests.env("INSTA_UPDATE", "no");
    step("tests", tests)
}
