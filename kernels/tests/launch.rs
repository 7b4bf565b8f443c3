//! A launch with a wrong argument does not compile.

#[test]
fn wrong_launches_do_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/launch/right.rs");
    cases.compile_fail("tests/launch/wrong_*.rs");
}
