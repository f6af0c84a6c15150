//! What can be a compile error is one.

#[test]
fn what_the_walls_rule_out_does_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass-*.rs");
    cases.compile_fail("tests/ui/fail-*.rs");
}
