//! The tables of features in the book name tests and items that exist.

use std::fs;
use std::path::Path;

const PAGE: &str = include_str!("../../book/reference/features.md");

/// A line of a table.
struct Feature {
    name: &'static str,
    here: &'static str,
    test: &'static str,
}

fn features() -> Vec<Feature> {
    let lines = PAGE.lines().filter(|line| line.starts_with('|') && !line.starts_with("| ---"));
    let cells = lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>());
    let features = cells.map(|cells| match cells[..] {
        [name, here, _, _, _, test] => Feature { name, here, test },
        _ => panic!("not six columns: {cells:?}"),
    });
    features.filter(|feature| feature.name != "feature").collect()
}

/// A file of the repository.
pub fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Whether a file has a test of this name. In a file that adds cases to a suite, it is one of them, with or without types, or their function.
pub fn has_test(source: &str, name: &str) -> bool {
    let functions = source.split("#[test]");
    let blocks = source.split("instances! { suite,").skip(1).filter_map(|rest| rest.split('}').next());
    let listed = blocks.flat_map(str::lines).filter_map(|line| line.trim_start().strip_prefix('"'));
    let mut cases = source.split("suite.add(\"").skip(1).chain(listed).peekable();
    let is_case =
        |rest: &str| rest.strip_prefix(name).is_some_and(|rest| rest.starts_with('"') || rest.starts_with("::"));
    let function = format!("fn {name}(");
    if cases.peek().is_some() {
        return cases.any(is_case) || source.contains(&function);
    }
    functions.skip(1).any(|rest| rest.find("fn ").is_some_and(|at| rest[at..].starts_with(&function)))
}

/// Whether the documentation in a file has an example that runs.
fn has_example(source: &str) -> bool {
    let lines = source.lines().map(str::trim_start);
    let comments = lines.filter_map(|line| line.strip_prefix("///").or(line.strip_prefix("//!")));
    let fences = comments.map(str::trim).filter(|line| line.starts_with("```"));
    // Every other fence ends a block.
    fences.step_by(2).any(|fence| fence == "```")
}

fn has_word(source: &str, word: &str) -> bool {
    source.split(|c: char| !c.is_alphanumeric() && c != '_').any(|found| found == word)
}

/// The expressions of a cell that are links, each with the path to which it leads from the page.
fn links(cell: &str) -> impl Iterator<Item = (&str, &str)> {
    cell.split("[`").skip(1).filter_map(|link| {
        let (expression, rest) = link.split_once("`](")?;
        Some((expression, rest.split_once(')')?.0))
    })
}

/// The names of the first path in an expression: `warp` and `all` of `warp::all(mask, p)`.
fn names(expression: &str) -> impl Iterator<Item = &str> {
    let path = expression.trim_start_matches(|c: char| !c.is_alphabetic());
    let end = path.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').unwrap_or(path.len());
    path[..end].split("::").filter(|name| !name.is_empty())
}

#[test]
fn features_have_tests() {
    let features = features();
    assert!(features.len() > 90, "{} features", features.len());
    for Feature { name, here, test } in features {
        let tests: Vec<_> = test.split('`').skip(1).step_by(2).collect();
        assert!(!tests.is_empty() || here.starts_with("no: "), "{name} has no test");
        for test in tests {
            let found = match test.split_once("::") {
                Some((file, test)) => has_test(&read(file), test),
                None => test.strip_suffix(" (doc)").is_some_and(|file| has_example(&read(file))),
            };
            assert!(found, "{name}: there is no test {test}");
        }
    }
    let source = "#[test]\n#[cfg(unix)]\nfn added() {\n    let added = |x: u32| fn_of(x);\n}\n\nfn helper() {}\n";
    assert!(has_test(source, "added") && !has_test(source, "helper") && !has_test(source, "add"));
    let source = "suite.add(\"sums::f32\", sums::<f32>);\nsuite.add(NEW, new);\nfn new(device: &Device) {}\n";
    assert!(has_test(source, "sums") && has_test(source, "new") && !has_test(source, "sum"));
    let source = "instances! { suite,\n    \"rows\": sums,\n}\nlet text = [\"columns\"];\n";
    assert!(has_test(source, "rows") && !has_test(source, "columns"));
    assert!(has_example("/// ```text\n/// ```\n/// ```\n/// ```\n") && !has_example("/// ```text\n/// ```\n"));
}

/// A module is named by its file, all else by its source.
#[test]
fn features_link_to_their_items() {
    let mut items = 0;
    for Feature { name, here, .. } in features() {
        for (expression, path) in links(here) {
            let path = format!("book/reference/{path}");
            let source = read(&path);
            let module = Path::new(&path).file_stem();
            for word in names(expression) {
                let found = has_word(&source, word) || module.is_some_and(|module| module == word);
                assert!(found, "{name}: {expression}: {word} is not in {path}");
                items += 1;
            }
        }
    }
    assert!(items > 150, "{items} items");
    assert!(names("#[kernel(safe)]").eq(["kernel"]) && names("warp::all(mask, p)").eq(["warp", "all"]));
    assert!(names("Out<'n, T>").eq(["Out"]));
}
