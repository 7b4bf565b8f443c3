//! The commands of the README and of the book succeed, and the book's commands print the text that the book shows.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;
use warpkov::mdp::{ModelOptions, solve_model};
use warpkov::runtime::choose::DeviceChoice;

#[path = "../../examples/own-model/src/models.rs"]
mod own_model;

const README: &str = include_str!("../../README.md");
const POMDP: &str = include_str!("../../book/pomdp.md");
const HMM: &str = include_str!("../../book/hmm.md");
const MODELS: &str = include_str!("../../book/models.md");
const CLUSTER: &str = include_str!("../../book/cluster.md");

/// The blocks of a page: what follows the fence, and the text.
pub fn fenced(page: &str) -> impl Iterator<Item = (&str, &str)> {
    page.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'))
}

/// Each block of shell commands, with the blocks of text between it and the next one.
fn blocks(page: &str) -> Vec<(Vec<&str>, Vec<&str>)> {
    let mut found: Vec<(Vec<&str>, Vec<&str>)> = Vec::new();
    for (kind, block) in fenced(page) {
        match (kind, found.last_mut()) {
            ("sh", _) => found.push((block.lines().filter(|line| !line.is_empty()).collect(), Vec::new())),
            ("text", Some((_, texts))) => texts.push(block),
            _ => {}
        }
    }
    found
}

/// Runs `warpkov` in a folder and returns its output.
fn run(folder: &TempDir, arguments: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpkov"));
    let output = command.current_dir(folder).args(arguments.split(' ')).stdin(Stdio::null()).output().unwrap();
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "warpkov {arguments}: {messages}");
    String::from_utf8(output.stdout).unwrap()
}

/// Whether `text` matches `pattern`, in which … matches any text.
fn is_like(text: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('…').map(|part| part.strip_prefix('\n').unwrap_or(part));
    let mut rest = text;
    let first = parts.next().is_some_and(|first| rest.strip_prefix(first).map(|found| rest = found).is_some());
    first && parts.all(|part| rest.find(part).map(|at| rest = &rest[at + part.len()..]).is_some())
}

/// Pages of formats in `book/formats`.
const FORMATS: [&str; 13] = [
    "json",
    "csv",
    "npz",
    "safetensors",
    "prism",
    "drn",
    "umb",
    "petsc",
    "gymnasium",
    "xml-text",
    "pomdp",
    "hmm",
    "sequences",
];

/// Files of the repository that commands of the book read.
const FILES: [&str; 11] = [
    "data/listing-a1.json",
    "data/table-3.1.json",
    "data/two-state.json",
    "data/two-state.alpha",
    "data/two-state.beliefs",
    "data/ice-cream.txt",
    "data/ice-cream-3-days.txt",
    "data/ice-cream-stream.txt",
    "data/spells.json",
    "data/replacement.json",
    "data/replacement-by-action.json",
];

/// A folder with these files, in which the commands of a page run.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("data")).unwrap();
    for name in FILES {
        fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join(name), folder.path().join(name)).unwrap();
    }
    folder
}

#[test]
fn every_warpkov_command_succeeds() {
    let folder = folder();
    let lines = blocks(README).into_iter().flat_map(|(commands, _)| commands);
    let ours: Vec<_> = lines.filter_map(|line| line.strip_prefix("warpkov ")).collect();
    assert!(ours.len() >= 5, "{ours:?}");
    for arguments in ours {
        run(&folder, arguments);
    }
}

#[test]
fn the_book_prints_what_it_says() {
    for (page, least) in [(POMDP, 7), (HMM, 7), (MODELS, 7), (CLUSTER, 1)] {
        let folder = folder();
        let mut compared = 0;
        for (commands, texts) in blocks(page) {
            let printed: String =
                commands.iter().map(|line| run(&folder, line.strip_prefix("warpkov ").unwrap_or(line))).collect();
            for text in texts {
                assert!(is_like(&printed, text), "{commands:?} printed\n{printed}\nand not\n{text}");
                compared += 1;
            }
        }
        assert!(compared >= least, "{compared}");
    }
    assert!(is_like("a 1 b", "a … b") && !is_like("a 1 b", "…c") && !is_like("x a", "a…"));
}

/// The pages of the formats of models are in one folder: a block whose kind is followed by a file name is that file, and all commands see
/// all files.
#[test]
fn examples_of_formats_are_solved() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("book/formats");
    let pages: Vec<String> =
        FORMATS.iter().map(|name| fs::read_to_string(root.join(name).with_extension("md")).unwrap()).collect();
    let folder = tempfile::tempdir().unwrap();
    for page in &pages {
        let blocks = fenced(page);
        for (name, content) in blocks.filter_map(|(kind, content)| Some((kind.split_once(' ')?.1, content))) {
            fs::write(folder.path().join(name), content).unwrap();
        }
    }
    for (page, name) in pages.iter().zip(FORMATS) {
        let mut compared = 0;
        for (commands, texts) in blocks(page) {
            let printed: String =
                commands.iter().map(|line| run(&folder, line.strip_prefix("warpkov ").unwrap_or(line))).collect();
            for text in texts {
                assert!(is_like(&printed, text), "{name}: {commands:?} printed\n{printed}\nand not\n{text}");
                compared += 1;
            }
        }
        assert!(compared >= 1, "{name}");
    }
}

/// The blocks of a kind.
fn of_kind<'p>(page: &'p str, kind: &str) -> Vec<&'p str> {
    fenced(page).filter(|(found, _)| *found == kind).map(|(_, block)| block).collect()
}

/// The manifests of the page have no field that Kubernetes or the MPI operator does not know, and all that they need.
#[test]
fn manifests_have_the_fields_of_their_schemas() {
    let mut kinds = Vec::new();
    for document in of_kind(CLUSTER, "yaml").into_iter().flat_map(|block| block.split("\n---\n")) {
        kinds.push(crate::manifest::check(document).unwrap_or_else(|error| panic!("{error}\n{document}")));
        // Each field is checked: its name with a letter more is unknown.
        for (at, line) in document.lines().enumerate() {
            let Some((name, _)) = line.split_once(": ").or(line.strip_suffix(':').map(|name| (name, ""))) else {
                continue;
            };
            let free = ["nvidia.com/gpu", "job-name", "Launcher", "Worker"];
            let wrong = line.replacen(name, &format!("{name}x"), 1);
            let lines: Vec<_> =
                document.lines().enumerate().map(|(i, line)| if i == at { &*wrong } else { line }).collect();
            let checked = crate::manifest::check(&lines.join("\n"));
            assert!(checked.is_err() || free.contains(&name.trim()), "{wrong} passes in\n{document}");
        }
    }
    assert_eq!(kinds, ["MPIJob", "Service", "Job"]);
    let job = of_kind(CLUSTER, "yaml")[0];
    for (right, wrong) in [
        ("slotsPerWorker: 4", "slotsPerWorker: four"),
        ("mpiImplementation: OpenMPI", "mpiImplementation: openmpi"),
        ("cleanPodPolicy: Running", "cleanPodPolicy: Some"),
        ("v2beta1", "v1"),
        ("    Worker:", "    Workers:"),
        ("            image:", "            imagex:"),
        ("restartPolicy: Never", "restartPolicy: Sometimes"),
    ] {
        assert!(job.contains(right) && crate::manifest::check(&job.replace(right, wrong)).is_err(), "{wrong}");
    }
}

/// The words of a command; what stands in quotes is one word.
fn words(line: &str) -> Vec<&str> {
    let parts = line.split('\'').enumerate();
    let words = parts.flat_map(|(at, part)| match at % 2 {
        0 => part.split_whitespace().collect(),
        _ => vec![part],
    });
    words.collect()
}

/// Asserts that the command line understands these arguments in an empty folder: it may complain of absent files and devices.
fn is_understood(arguments: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpkov"));
    command.current_dir(folder.path()).args(arguments);
    if !arguments.contains(&"--timeout") {
        command.args(["--timeout", "0.1"]);
    }
    let output = command.stdin(Stdio::null()).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(!message.contains("Usage:") && !message.contains("unexpected"), "{arguments:?}: {message}");
}

/// The commands of blocks and tables succeed, in their order.
#[test]
fn commands_for_the_sources_succeed() {
    const PAGE: &str = include_str!("../../book/reference/sources.md");

    let (folder, mut commands) = (folder(), 0);
    // A line of a block is a command; a line of a table has some between backquotes.
    let parts = |line: &'static str| line.split('`').skip(usize::from(!line.starts_with("warpkov "))).step_by(2);
    for line in PAGE.lines().flat_map(parts).filter_map(|part| part.strip_prefix("warpkov ")) {
        let arguments = words(line);
        // A name, not a command line.
        if line == "pomdp act" {
            continue;
        }
        commands += 1;
        let mut command = Command::new(env!("CARGO_BIN_EXE_warpkov"));
        let output = command.current_dir(folder.path()).args(&arguments).stdin(Stdio::null()).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "warpkov {line}: {message}");
    }
    assert!(commands >= 50, "{commands}");
}

/// The tests that the page names exist.
#[test]
fn tests_for_the_sources_exist() {
    const PAGE: &str = include_str!("../../book/reference/sources.md");

    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources: String =
        ["tests", "host", "toolchain", "learn"].iter().flat_map(|folder| rust_files(&root.join(folder))).collect();
    let names = PAGE.split("test: `").skip(1).filter_map(|rest| rest.split('`').next());
    let mut found = 0;
    for name in names {
        let is_there = [format!("fn {name}("), format!("\"{name}\""), format!("\"{name}::")];
        assert!(is_there.iter().any(|form| sources.contains(form)), "no test is called {name}");
        found += 1;
    }
    assert!(found >= 15, "{found}");
}

/// The texts of the Rust files in a folder and those below it.
fn rust_files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let texts = entries.filter(|path| !path.ends_with("target")).flat_map(|path| match path.extension() {
        _ if path.is_dir() => rust_files(&path),
        Some(extension) if extension == "rs" => vec![fs::read_to_string(&path).unwrap()],
        _ => Vec::new(),
    });
    texts.collect()
}

/// What the page runs on a cluster, the command line understands.
#[test]
fn commands_for_clusters_are_understood() {
    let lines = of_kind(CLUSTER, "bash").join("\n").replace("\\\n", " ");
    let args = of_kind(CLUSTER, "yaml").join("\n");
    let listed = args.lines().filter_map(|line| line.trim().split_once(": [")?.1.strip_suffix(']'));
    let listed = listed.map(|list| list.replace(['"', ','], ""));
    let mut found = 0;
    for line in lines.lines().map(str::to_owned).chain(listed) {
        let line = line.split(" #").next().unwrap_or_default().trim_end_matches('\'').replace(['"'], "");
        let Some(at) = line.find("mdp solve").or(line.find("hmm train")) else { continue };
        let numbered = line[at..].replace("$SLURM_NTASKS", "2").replace("$SLURM_PROCID", "0").replace("$MASTER", "::1");
        // A model that needs no file is solved: a small one.
        let numbered = numbered.replace("20000", "20");
        is_understood(&words(&numbered));
        found += 1;
    }
    assert!(found >= 9, "{found} commands");
    for script in of_kind(CLUSTER, "bash") {
        let mut shell = Command::new("bash").arg("-n").stdin(Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut shell.stdin.take().unwrap(), script.as_bytes()).unwrap();
        assert!(shell.wait().unwrap().success(), "{script}");
    }
}

#[test]
fn every_make_target_exists() {
    let makefile = include_str!("../../Makefile");
    let lines = blocks(README).into_iter().flat_map(|(commands, _)| commands);
    let targets: Vec<_> = lines.filter_map(|line| line.strip_prefix("make ")).collect();
    assert!(targets.contains(&"demo") && targets.contains(&"test"), "{targets:?}");
    for target in targets {
        assert!(makefile.lines().any(|line| line.starts_with(&format!("{target}:"))), "make {target}");
    }
}

/// README shows what `make demo` draws: all but the line with the time and the device.
#[test]
fn the_picture_is_that_of_the_demo() {
    let script = include_str!("../../scripts/demo.sh").replace("\\\n", " ").replace("target/demo/", "");
    let folder = folder();
    let commands: Vec<_> = script.lines().filter_map(|line| line.strip_prefix("\"$WARPKOV\" ")).collect();
    assert_eq!(commands.len(), 2);
    for line in commands {
        run(&folder, &words(line).join(" "));
    }
    let [shown, drawn] = [concat!(env!("CARGO_MANIFEST_DIR"), "/book/demo.png").into(), folder.path().join("grid.png")]
        .map(|file: std::path::PathBuf| image::open(file).unwrap().into_rgb8());
    assert_eq!(shown.dimensions(), drawn.dimensions());
    let other =
        shown.enumerate_pixels().filter(|&(x, y, pixel)| y > 100 && x < 800 && pixel != drawn.get_pixel(x, y)).count();
    // The last bits of values may be other ones on a GPU.
    assert!(other < 100, "{other} pixels differ");
    assert!(README.contains("(book/demo.png)"));
}

/// The code of the page is that of the example, which CI compiles and tests, and its commands succeed.
#[test]
fn models_as_code_are_those_of_the_example() {
    const PAGE: &str = include_str!("../../book/models-as-code.md");
    const FILES: [&str; 4] = [
        include_str!("../../examples/own-model/src/models.rs"),
        include_str!("../../examples/own-model/src/main.rs"),
        include_str!("../../examples/models/src/models/von_mises.rs"),
        include_str!("../../examples/models/src/movement.rs"),
    ];

    let code = of_kind(PAGE, "rust");
    assert_eq!(code.len(), 4);
    assert!(code.iter().all(|block| FILES.iter().any(|file| file.contains(block.trim_end()))), "{code:?}");
    let folder = folder();
    for line in of_kind(PAGE, "sh").iter().flat_map(|block| block.lines()) {
        run(&folder, line.strip_prefix("warpkov ").unwrap());
    }
    let values = fs::read_to_string(folder.path().join("values.csv")).unwrap();
    assert_eq!(values.lines().count(), 1 + 4 + 9);
}

/// A block of a page of the manual: its kind, the name of its file if it has one, and its text.
struct Block<'p> {
    kind: &'p str,
    name: Option<&'p str>,
    text: &'p str,
}

fn manual_blocks(page: &str) -> Vec<Block<'_>> {
    let blocks = fenced(page);
    let named = blocks.map(|(kind, text)| match kind.split_once(' ') {
        Some((kind, name)) => Block { kind, name: Some(name), text },
        None => Block { kind, name: None, text },
    });
    named.collect()
}

/// Path and text of every page of the manual.
fn manual() -> Vec<(PathBuf, String)> {
    let book = Path::new(env!("CARGO_MANIFEST_DIR")).join("book");
    let parts = ["tutorials", "how-to", "explanation"].map(|part| fs::read_dir(book.join(part)).unwrap());
    let files = parts.into_iter().flatten().map(|entry| entry.unwrap().path());
    let pages = files.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let pages = pages.chain([book.join("errata.md")]);
    let mut pages: Vec<_> = pages.map(|path| (path.clone(), fs::read_to_string(&path).unwrap())).collect();
    pages.sort();
    pages
}

/// A page of the manual writes its files, runs its commands and prints its texts, in its order. A command ends with exit code 0, or
/// with that of the comment behind it, and then its messages are compared as well. Commands behind examples in Python may need
/// their files: `python/tests/test_book.py` runs such a page as a whole.
#[test]
fn the_manual_prints_what_it_says() {
    const CODE: &str = " # exit code ";

    let pages = manual();
    assert!(pages.len() >= 15, "{} pages", pages.len());
    for (path, page) in &pages {
        let (folder, path) = (folder(), path.display());
        let (mut printed, mut commands, mut compared) = (String::new(), 0, 0);
        for Block { kind, name, text } in manual_blocks(page) {
            match (kind, name) {
                (_, Some(name)) => fs::write(folder.path().join(name), text).unwrap(),
                ("sh", None) => {
                    printed.clear();
                    for line in text.lines().filter(|line| !line.is_empty()) {
                        let (line, code) = line.split_once(CODE).unwrap_or((line, "0"));
                        let words = words(line);
                        assert_eq!(words[0], "warpkov", "{path}: {line}");
                        let mut command = Command::new(env!("CARGO_BIN_EXE_warpkov"));
                        command.current_dir(&folder).args(&words[1..]).stdin(Stdio::null());
                        let output = command.output().unwrap();
                        let messages = String::from_utf8_lossy(&output.stderr);
                        assert_eq!(output.status.code(), code.parse().ok(), "{path}: {line}: {messages}");
                        printed += std::str::from_utf8(&output.stdout).unwrap();
                        if code != "0" {
                            printed += &messages;
                        }
                        commands += 1;
                    }
                }
                ("text", None) => {
                    assert!(is_like(&printed, text), "{path} prints\n{printed}\nand not\n{text}");
                    compared += 1;
                }
                ("python", None) => break,
                _ => {}
            }
        }
        assert!(commands == 0 || compared > 0, "{path} compares nothing");
    }
}

/// Other blocks of the manual: Rust stands in an example, which CI compiles; commands for clusters are understood; Python has
/// tests of its own; and formulas and diagrams are text.
#[test]
fn other_blocks_of_the_manual_are_known() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = [
        "own-model/src/models.rs",
        "own-model/src/main.rs",
        "own-kernel/src/kernels.rs",
        "models/src/models/von_mises.rs",
        "models/src/movement.rs",
    ];
    let sources = files.map(|file| fs::read_to_string(root.join("examples").join(file)).unwrap());
    for (path, page) in manual() {
        let path = path.display();
        for Block { kind, name, text } in manual_blocks(&page) {
            match kind {
                _ if name.is_some() => {}
                "sh" | "text" | "python" => {}
                "rust" => assert!(sources.iter().any(|source| source.contains(text)), "{path}: no example has\n{text}"),
                "bash" => {
                    let lines = text.replace("\\\n", " ");
                    for line in lines.lines().map(|line| line.split(" #").next().unwrap_or_default()) {
                        if let Some(at) = line.find("warpkov ").filter(|at| !line[*at..].starts_with("warpkov new")) {
                            is_understood(&words(&line[at..])[1..]);
                        }
                    }
                }
                _ => panic!("{path}: unknown kind of block '{kind}'"),
            }
        }
    }
}

/// Files that links of the manual lead to exist.
#[test]
fn links_of_the_manual_lead_to_files() {
    let mut found = 0;
    for (path, page) in manual() {
        let text: String = page.split("```").step_by(2).collect();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target) {
            let file = target.split('#').next().unwrap_or_default();
            if file.is_empty() || file.starts_with("https://") {
                continue;
            }
            assert!(path.parent().unwrap().join(file).exists(), "{}: {target}", path.display());
            found += 1;
        }
    }
    assert!(found > 20, "{found}");
}

/// Pictures of the tutorials are those that their commands draw, and the graph is that of the controller's file.
#[test]
fn pictures_of_the_tutorials_are_those_of_their_commands() {
    let tutorials = Path::new(env!("CARGO_MANIFEST_DIR")).join("book/tutorials");
    let shown = |name: &str| fs::read_to_string(tutorials.join(name)).unwrap();
    let written = |page: &str, name: &str| {
        let (folder, page) = (folder(), shown(page));
        for Block { kind, name, text } in manual_blocks(&page) {
            match (kind, name) {
                (_, Some(name)) => fs::write(folder.path().join(name), text).unwrap(),
                ("sh", None) => {
                    text.lines().for_each(|line| drop(run(&folder, line.strip_prefix("warpkov ").unwrap())))
                }
                _ => {}
            }
        }
        fs::read_to_string(folder.path().join(name)).unwrap()
    };
    assert!(shown("robot.svg") == written("robot.md", "robot.svg"), "book/tutorials/robot.svg is old");
    let drawn = shown("machine.svg");
    let between = |start: &str, end: &str| -> Vec<String> {
        drawn.split(start).skip(1).map(|rest| rest.split(end).next().unwrap().replace("&#45;&gt;", " -> ")).collect()
    };
    // Each element has its title, and then its label.
    let (titles, labels) = (between("<title>", "</title>"), between("14.00\">", "</text>"));
    let found: Vec<String> =
        titles.iter().filter(|title| !["policy", "start", "start -> 0"].contains(&&title[..])).cloned().collect();
    let graph: Vec<String> =
        found.iter().zip(&labels).map(|(title, label)| format!("  {title} [label=\"{label}\"];")).collect();
    let dot = written("inspection.md", "machine.dot");
    let expected: Vec<&str> = dot.lines().filter(|line| line.contains("[label")).collect();
    let sorted = |mut lines: Vec<String>| {
        lines.sort();
        lines
    };
    assert_eq!(sorted(graph), sorted(expected.into_iter().map(str::to_owned).collect()));
}

/// The Rust type of the tutorial is the model of its file.
#[test]
fn the_model_of_the_tutorial_is_the_same_in_rust() {
    let (_, page) = manual().into_iter().find(|(path, _)| path.ends_with("tutorials/machine-replacement.md")).unwrap();
    let file = manual_blocks(&page).into_iter().find(|block| block.name == Some("machine.json")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("machine.json"), file.text).unwrap();
    let table = run(&folder, "mdp solve machine.json --device cpu --out -");
    let values: Vec<f64> = table.lines().skip(1).map(|row| row.split(',').nth(1).unwrap().parse().unwrap()).collect();
    let machine = own_model::Machine { states: 5, profit: 10.0, price: 20.0, wear: 0.3, gamma: 0.95 };
    let options = ModelOptions { device: DeviceChoice::Cpu, ..ModelOptions::default() };
    let solved = solve_model(&machine, &options).unwrap();
    assert_eq!(solved.values.len(), 5);
    assert!(values.iter().zip(&solved.values).all(|(x, y)| (x - y).abs() <= 2e-6), "{values:?} {:?}", solved.values);
}
