//! Misuse of the handles and of `#[derive(Entity)]` does not compile.
//!
//! Here and not beside the handles: `trybuild` builds all that the tests of a crate depend on once more.

#[test]
fn misuse_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/ui/fail-*.rs");
}
