//! Misuse of the handles and of `#[derive(Entity)]` does not compile.

#[test]
fn misuse_does_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass-*.rs");
    cases.compile_fail("tests/ui/fail-*.rs");
}
