//! Every exercise is its solution with holes, has hints and a page, and fails until it is solved; every solution passes.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::LazyLock;

/// The folder of the course, which is also that of its package.
const COURSE: &str = env!("CARGO_MANIFEST_DIR");

/// Names of the exercises in order, such as `00_vector_add`.
fn exercises() -> Vec<String> {
    let folder = fs::read_dir(Path::new(COURSE).join("exercises")).expect("a folder of exercises");
    let mut names: Vec<String> =
        folder.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name in UTF-8")).collect();
    names.sort();
    assert!(!names.is_empty());
    names
}

/// Whether an exercise is a small step between chapters, such as `00_1_add_ten`.
fn is_step(name: &str) -> bool {
    name[3..].starts_with(|first: char| first.is_ascii_digit())
}

fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Runs a program of the course, from its folder.
fn run(name: &str, arguments: &[&str]) -> Output {
    // target/PROFILE/deps/course-HASH
    let program = env::current_exe().expect("a path").ancestors().nth(2).expect("a folder").join(name);
    let mut command = Command::new(&program);
    command.current_dir(COURSE).args(arguments);
    command.output().unwrap_or_else(|error| panic!("{}: {error}", program.display()))
}

/// The chapter of an exercise.
fn page(name: &str) -> String {
    read(Path::new(COURSE).join(format!("../book/course/{}.md", name.replace('_', "-"))))
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text in UTF-8")
}

/// The reports of all solutions.
static SOLUTIONS: LazyLock<BTreeMap<String, Output>> = LazyLock::new(|| {
    let report = |name: String| {
        let output = run(&format!("{name}_solution"), &["--json"]);
        (name, output)
    };
    exercises().into_iter().map(report).collect()
});

/// The number of parts, from the report of a solution.
fn parts(name: &str) -> usize {
    text(&SOLUTIONS[name]).matches("\"part\":").count()
}

/// A file without what is between its anchors.
fn outside_of_anchors(text: &str) -> Vec<&str> {
    let mut inside = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        let mark = line.trim_start();
        let end = mark.starts_with("// ANCHOR_END:");
        inside &= !end;
        if !inside {
            lines.push(line);
        }
        inside |= mark.starts_with("// ANCHOR:");
    }
    assert!(!inside, "an anchor has no end");
    lines
}

#[test]
fn exercises_are_their_solutions_with_holes() {
    for name in exercises() {
        let mut holes = 0;
        for file in ["main.rs", "kernels.rs"] {
            let of = |kind: &str| read(Path::new(COURSE).join(kind).join(&name).join(file));
            let (exercise, solution) = (of("exercises"), of("solutions"));
            assert_eq!(outside_of_anchors(&exercise), outside_of_anchors(&solution), "{name}/{file}");
            holes += usize::from(exercise != solution);
            assert_eq!(exercise != solution, exercise.contains("TODO"), "{name}/{file}: a hole says what is to do");
            assert!(!solution.contains("TODO"), "{name}/{file}");
        }
        assert!(holes > 0, "{name} has nothing to do");
    }
}

/// Chapters 0 to 4 need no `unsafe`: neither the kernels, nor the launches, nor the checks.
#[test]
fn the_first_five_chapters_are_safe() {
    let course = Path::new(COURSE);
    let mut files: Vec<_> = exercises()
        .iter()
        .filter(|name| name.as_str() < "05")
        .flat_map(|name| {
            let of = |kind: &str, file: &str| course.join(kind).join(name).join(file);
            let check = if is_step(name) { "steps/mod.rs".into() } else { format!("{}.rs", &name[3..]) };
            [
                of("exercises", "kernels.rs"),
                of("exercises", "main.rs"),
                of("exercises", "hints.md"),
                of("solutions", "kernels.rs"),
                of("solutions", "main.rs"),
                course.join("harness/src").join(check),
            ]
        })
        .collect();
    files.extend(
        ["check", "exercise", "lab", "lib", "program", "steps/indices", "steps/exchange"]
            .map(|file| course.join(format!("harness/src/{file}.rs"))),
    );
    for file in files {
        let text = read(&file);
        assert!(!text.contains("unsafe"), "{} has unsafe code", file.display());
        assert!(!text.contains("#[kernel]"), "{} has a kernel whose launch is unsafe", file.display());
    }
}

#[test]
fn solutions_pass_and_exercises_fail_in_every_part() {
    for name in exercises() {
        let solution = &SOLUTIONS[&name];
        assert_eq!(solution.status.code(), Some(0), "{name}: {}", text(solution));
        for part in 1..=parts(&name) {
            let exercise = run(&name, &["--part", &part.to_string()]);
            assert_eq!(exercise.status.code(), Some(1), "{name}, part {part}: {}", text(&exercise));
            assert!(text(&exercise).contains("FAILED"), "{name}, part {part}: {}", text(&exercise));
        }
    }
}

/// What a page shows of what the checks print, and of the pictures of solutions, are files of the book.
#[test]
fn the_book_shows_what_the_checks_print() {
    let update = env::var_os("WARPKOV_UPDATE_BOOK").is_some();
    let generated = Path::new(COURSE).join("../book/course/generated");
    // What no page shows is not made.
    let check = |name: &str, file: &str, content: &dyn Fn() -> String| {
        if !page(name).contains(&format!("generated/{name}/{file}")) {
            return;
        }
        let content = content();
        let path = generated.join(name).join(file);
        if update {
            fs::create_dir_all(generated.join(name)).expect("a new folder");
            fs::write(&path, &content).expect("a new file");
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert!(found == content, "{} is out of date: WARPKOV_UPDATE_BOOK=1 writes it", path.display());
    };
    let picture = Path::new(env!("CARGO_TARGET_TMPDIR")).join("picture.svg");
    let file = picture.to_str().expect("a path in UTF-8");
    for name in exercises() {
        for part in 1..=parts(&name) {
            let number = part.to_string();
            let solution = format!("{name}_solution");
            let trace = || {
                let trace = run(&solution, &["trace", "--part", &number, file]);
                assert_eq!(trace.status.code(), Some(0), "{name}: {}", text(&trace));
                text(&trace)
            };
            let picture = || {
                trace();
                read(file)
            };
            check(&name, &format!("exercise-{part}.txt"), &|| text(&run(&name, &["--part", &number])));
            check(&name, &format!("solution-{part}.txt"), &|| text(&run(&solution, &["--part", &number])));
            check(&name, &format!("counts-{part}.txt"), &trace);
            check(&name, &format!("accesses-{part}.svg"), &picture);
        }
        // The page of a step may show none.
        for entry in fs::read_dir(generated.join(&name)).into_iter().flatten() {
            let file = entry.expect("an entry").file_name().into_string().expect("a name in UTF-8");
            assert!(page(&name).contains(&format!("generated/{name}/{file}")), "no page shows {name}/{file}");
        }
    }
}

#[test]
fn every_exercise_has_hints_and_a_page() {
    for name in exercises() {
        let hints = read(Path::new(COURSE).join("exercises").join(&name).join("hints.md"));
        assert!(hints.starts_with("1. ") && hints.contains("\n3. "), "{name}: at least three hints, numbered");
        let page = page(&name);
        if is_step(&name) {
            let number = name[1..4].replace('_', ".");
            assert!(page.starts_with(&format!("# {number} ")), "{name}: the title has the number");
            assert!(page.contains(&format!("figures/{}", name.replace('_', "-"))), "{name}: the page has a picture");
            continue;
        }
        // Not those of a listing.
        let text = page.split("\n```").step_by(2).flat_map(str::lines);
        let headings: Vec<&str> = text.filter(|line| line.starts_with("## ")).collect();
        let mut shape =
            vec!["## Question", "## Picture", "## Exercise", "## Hints", "## Check", "## Measurement", "## Solution"];
        // What the exercise does not need comes last.
        if page.contains("\n## Background\n") {
            shape.push("## Background");
        }
        assert_eq!(headings, shape, "{name}");
        assert!(page.contains(&format!("learn/exercises/{name}/hints.md")), "{name}: the page includes the hints");
        assert!(page.contains(&format!("generated/{name}/")), "{name}: the page shows what the checks print");
        assert!(page.contains(&format!("learn/solutions/{name}/")), "{name}: the page includes the solution");
    }
}
