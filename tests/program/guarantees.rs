//! The tests that the statements of guarantee and of security, and the features of hidden Markov models, name exist.

use super::features::{has_test, read};

/// The spans of code that name a test of a file: `path.rs::test`, or `path.py::test`.
fn tests(page: &str) -> impl Iterator<Item = (&str, &str)> {
    let spans = page.split('`').skip(1).step_by(2);
    let pairs = spans.filter_map(|span| span.split_once("::"));
    pairs.filter(|(file, _)| file.ends_with(".rs") || file.ends_with(".py"))
}

/// Whether a file of Rust or Python has a test of this name.
fn exists(file: &str, test: &str) -> bool {
    let source = read(file);
    match file.strip_suffix(".py") {
        Some(_) => test.starts_with("test_") && source.contains(&format!("\ndef {test}(")),
        None => has_test(&source, test),
    }
}

#[test]
fn guarantees_have_tests() {
    for (page, least) in [("book/reference/guarantees.md", 120), ("SECURITY.md", 15), ("book/reference/hmm.md", 100)] {
        let text = read(page);
        let tests: Vec<_> = tests(&text).collect();
        assert!(tests.len() > least, "{page}: {} tests", tests.len());
        for (file, test) in tests {
            assert!(exists(file, test), "{page}: there is no test {test} in {file}");
        }
    }
    assert!(tests("a `b` of `c/d.rs::e`, `h.py::i` and `f::g`").eq([("c/d.rs", "e"), ("h.py", "i")]));
}

/// A feature that the command, the package or the library has is shown by a test.
#[test]
fn features_of_hidden_markov_models_have_tests() {
    let page = read("book/reference/hmm.md");
    let lines = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---"));
    let mut features = 0;
    for line in lines.filter(|line| !line.starts_with("| feature |")) {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [name, command, python, library, test, _, _, _] = cells[..] else { panic!("not eight columns: {line}") };
        let absent = [command, python, library].iter().all(|cell| *cell == "no");
        assert!(absent || tests(test).next().is_some(), "{name} has no test");
        features += 1;
    }
    assert!(features > 60, "{features} features");
}
