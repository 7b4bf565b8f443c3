//! The commands of the README and of the book succeed, and the book's commands print the text that the book shows.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

#[path = "manifest/mod.rs"]
mod manifest;

const README: &str = include_str!("../README.md");
const POMDP: &str = include_str!("../book/pomdp.md");
const HMM: &str = include_str!("../book/hmm.md");
const MODELS: &str = include_str!("../book/models.md");
const CLUSTER: &str = include_str!("../book/cluster.md");

/// Each block of shell commands, with the blocks of text between it and the next one.
fn blocks(page: &str) -> Vec<(Vec<&str>, Vec<&str>)> {
    let mut found: Vec<(Vec<&str>, Vec<&str>)> = Vec::new();
    for (kind, block) in page.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n')) {
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
const FILES: [&str; 7] = [
    "data/two-state.json",
    "data/two-state.alpha",
    "data/two-state.beliefs",
    "data/ice-cream.txt",
    "data/ice-cream-3-days.txt",
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
        let blocks = page.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'));
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
    let blocks = page.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'));
    blocks.filter(|(found, _)| *found == kind).map(|(_, block)| block).collect()
}

/// The manifests of the page have no field that Kubernetes or the MPI operator does not know, and all that they need.
#[test]
fn manifests_have_the_fields_of_their_schemas() {
    let mut kinds = Vec::new();
    for document in of_kind(CLUSTER, "yaml").into_iter().flat_map(|block| block.split("\n---\n")) {
        kinds.push(manifest::check(document).unwrap_or_else(|error| panic!("{error}\n{document}")));
        // Each field is checked: its name with a letter more is unknown.
        for (at, line) in document.lines().enumerate() {
            let Some((name, _)) = line.split_once(": ").or(line.strip_suffix(':').map(|name| (name, ""))) else {
                continue;
            };
            let free = ["nvidia.com/gpu", "job-name", "Launcher", "Worker"];
            let wrong = line.replacen(name, &format!("{name}x"), 1);
            let lines: Vec<_> =
                document.lines().enumerate().map(|(i, line)| if i == at { &*wrong } else { line }).collect();
            let checked = manifest::check(&lines.join("\n"));
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
        assert!(job.contains(right) && manifest::check(&job.replace(right, wrong)).is_err(), "{wrong}");
    }
}

/// What the page runs on a cluster, the command line understands: it complains of absent files, not of its arguments.
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
        // What stands in quotes is one word.
        let parts = numbered.split('\'').enumerate();
        let words = parts.flat_map(|(at, part)| match at % 2 {
            0 => part.split_whitespace().collect(),
            _ => vec![part],
        });
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_warpkov"));
        command.current_dir(folder.path()).args(words);
        if !numbered.contains("--timeout") {
            command.args(["--timeout", "0.1"]);
        }
        let output = command.stdin(Stdio::null()).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!message.contains("Usage:") && !message.contains("unexpected"), "{numbered}: {message}");
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
    let makefile = include_str!("../Makefile");
    let lines = blocks(README).into_iter().flat_map(|(commands, _)| commands);
    let targets: Vec<_> = lines.filter_map(|line| line.strip_prefix("make ")).collect();
    assert!(targets.contains(&"demo") && targets.contains(&"test"), "{targets:?}");
    for target in targets {
        assert!(makefile.lines().any(|line| line.starts_with(&format!("{target}:"))), "make {target}");
    }
}

/// The code of the page is that of the example, which CI compiles and tests, and its commands succeed.
#[test]
fn models_as_code_are_those_of_the_example() {
    const PAGE: &str = include_str!("../book/models-as-code.md");
    const FILES: [&str; 2] =
        [include_str!("../examples/own-model/src/models.rs"), include_str!("../examples/own-model/src/main.rs")];

    let code = of_kind(PAGE, "rust");
    assert_eq!(code.len(), 2);
    assert!(code.iter().all(|block| FILES.iter().any(|file| file.contains(block.trim_end()))), "{code:?}");
    let folder = folder();
    for line in of_kind(PAGE, "sh").iter().flat_map(|block| block.lines()) {
        run(&folder, line.strip_prefix("warpkov ").unwrap());
    }
    let values = fs::read_to_string(folder.path().join("values.csv")).unwrap();
    assert_eq!(values.lines().count(), 1 + 4 + 9);
}
