//! The tests that the statements of guarantee and of security name exist.

use super::features::{has_test, read};

/// The spans of code that name a test of a file: `path.rs::test`.
fn tests(page: &str) -> impl Iterator<Item = (&str, &str)> {
    let spans = page.split('`').skip(1).step_by(2);
    spans.filter_map(|span| span.split_once("::")).filter(|(file, _)| file.ends_with(".rs"))
}

#[test]
fn guarantees_have_tests() {
    for (page, least) in [("book/reference/guarantees.md", 120), ("SECURITY.md", 15)] {
        let text = read(page);
        let tests: Vec<_> = tests(&text).collect();
        assert!(tests.len() > least, "{page}: {} tests", tests.len());
        for (file, test) in tests {
            assert!(has_test(&read(file), test), "{page}: there is no test {test} in {file}");
        }
    }
    assert!(tests("a `b` of `c/d.rs::e` and `f::g`").eq([("c/d.rs", "e")]));
}
