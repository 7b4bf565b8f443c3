//! The `warpkov` binary, run as users and scripts run it: help, exit codes, reports, pipes and files.
//!
//! One file, because cargo links every file in `tests/` into a program of its own.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use warpkov::runtime::gpu::Gpu;

/// The 2 × 2 slip grid of Aydin, *Policy Iteration on the GPU* (2025), Listing A.1.
const LISTING_A1: &str = r#"{
  "S": 4, "A": 4, "gamma": 0.9, "format": "CSR",
  "P": {
    "indptr": [0,2,5,8,10,12,15,17,20,23,25,28,30,33,35,37,40],
    "indices": [0,1,0,1,2,0,1,2,0,2,0,1,0,1,3,1,3,0,1,3,0,2,3,2,3,0,2,3,0,2,1,2,3,2,3,1,3,1,2,3],
    "data": [0.95,0.05,0.05,0.05,0.90,0.05,0.90,0.05,0.95,0.05,0.05,0.95,0.05,0.05,0.90,0.95,0.05,0.90,0.05,0.05,
             0.90,0.05,0.05,0.95,0.05,0.05,0.05,0.90,0.05,0.95,0.90,0.05,0.05,0.05,0.95,0.05,0.95,0.05,0.90,0.05]
  },
  "R": {
    "indptr": [0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16],
    "indices": [3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3],
    "data": [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]
  }
}"#;

fn warpkov(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpkov"));
    command.current_dir(folder).args(arguments);
    command
}

/// Runs the binary to completion. Panics if the process cannot be started.
fn run(folder: &Path, arguments: &[&str]) -> Output {
    warpkov(folder, arguments).output().unwrap()
}

/// Runs the binary with `input` on standard input.
fn run_with(folder: &Path, arguments: &[&str], input: &[u8]) -> Output {
    let mut child =
        warpkov(folder, arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    thread::scope(|scope| {
        // Fails if the process exits early, without reading its input.
        scope.spawn(move || {
            let _ = stdin.write_all(input);
        });
        child.wait_with_output().unwrap()
    })
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

#[track_caller]
fn succeeds(folder: &Path, arguments: &[&str]) -> Output {
    let output = run(folder, arguments);
    assert_eq!(code(&output), Some(0), "{arguments:?}: {}", stderr(&output));
    output
}

/// Asserts exit code `expected`, an empty stdout, and each of `words` on stderr.
#[track_caller]
fn fails(folder: &Path, arguments: &[&str], expected: i32, words: &[&str]) {
    let output = run(folder, arguments);
    assert_eq!(code(&output), Some(expected), "{arguments:?}: {}", stderr(&output));
    assert_eq!(stdout(&output), "", "{arguments:?}");
    for word in words {
        assert!(stderr(&output).contains(word), "{arguments:?}: no '{word}' in: {}", stderr(&output));
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// A folder with `grid.json`: 8 × 8 cells with walls and obstacles.
fn folder_with_grid() -> tempfile::TempDir {
    let folder = folder();
    let grid = ["mdp", "generate", "grid", "--width", "8", "--height", "8", "--walls", "0.1", "--obstacles", "0.1"];
    succeeds(folder.path(), &[&grid[..], &["--out", "grid.json"]].concat());
    folder
}

#[test]
fn every_command_has_help_with_examples() {
    let folder = folder();
    let commands: [&[&str]; 15] = [
        &[],
        &["mdp"],
        &["mdp", "solve"],
        &["mdp", "generate"],
        &["mdp", "generate", "grid"],
        &["mdp", "convert"],
        &["mdp", "info"],
        &["mdp", "compare"],
        &["new"],
        &["learn"],
        &["learn", "check"],
        &["learn", "submit"],
        &["devices"],
        &["completions"],
        &["man"],
    ];
    for command in commands {
        let help = succeeds(folder.path(), &[command, &["--help"]].concat());
        assert!(stdout(&help).contains("Examples:"), "{command:?}");
    }
}

/// Ranks without MPI, as torchrun or options place them: without GPUs, both say what is missing, and neither waits for its time limit.
#[test]
fn ranks_without_mpi_need_gpus() {
    if Gpu::count().is_ok() {
        return;
    }
    let folder = folder_with_grid();
    let port = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (by_variables, by_options) = (port(), port());
    for rank in ["0", "1"] {
        let output = warpkov(folder.path(), &["mdp", "solve", "grid.json"])
            .envs([("RANK", rank), ("WORLD_SIZE", "2")])
            .output()
            .unwrap();
        assert_eq!(code(&output), Some(3));
        assert!(stderr(&output).contains("expected MASTER_ADDR and MASTER_PORT"), "{}", stderr(&output));
    }
    let begun = Instant::now();
    let started = |rank: &str| {
        let solve = ["mdp", "solve", "grid.json", "--timeout", "100"];
        let mut variables = warpkov(folder.path(), &solve);
        variables.envs([("RANK", rank), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "127.0.0.1")]);
        variables.env("MASTER_PORT", (by_variables - 1).to_string());
        let master = format!("127.0.0.1:{by_options}");
        let options =
            warpkov(folder.path(), &[&solve[..], &["--ranks", "2", "--rank", rank, "--master", &master]].concat());
        [variables, options].map(|mut command| command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
    };
    for process in [started("0"), started("1")].into_iter().flatten() {
        let output = process.wait_with_output().unwrap();
        assert_eq!(code(&output), Some(3), "{}", stderr(&output));
        let message = stderr(&output);
        assert!(message.contains("there is no N") && message.contains("by its mpirun"), "{message}");
    }
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[test]
fn wrong_usage_has_exit_code_2() {
    let folder = folder_with_grid();
    let usage = |arguments: &[&str], word| fails(folder.path(), arguments, 2, &["error:", word]);
    usage(&["mdp", "solve"], "<FILE>");
    usage(&["mdp", "solve", "absent.json"], "absent.json");
    usage(&["mdp", "solve", "grid.json", "--theta", "0"], "above 0");
    usage(&["mdp", "solve", "grid.json", "--theta", "nan"], "above 0");
    usage(&["mdp", "solve", "grid.json", "--gamma", "1"], "option criterion");
    usage(&["mdp", "solve", "grid.json", "--gamma", "1.1"], "in [0, 1]");
    usage(&["mdp", "solve", "grid.json", "--tie", "-1"], "0 or above");
    usage(&["mdp", "solve", "grid.json", "--max-sweeps", "0"], "max-sweeps");
    usage(&["mdp", "solve", "grid.json", "--device", "gpu"], "cuda:all or emulated");
    usage(&["mdp", "solve", "grid.json", "--method", "magic"], "projected");
    usage(&["mdp", "solve", "grid.json", "--out", "solution.doc"], ".json or .csv or .npy or .txt");
    usage(&["mdp", "solve", "grid.json", "--out", "absent/solution.txt"], "absent/solution.txt");
    usage(&["mdp", "solve", "grid.json", "--plot", "grid.jpeg"], ".svg or .png");
    usage(&["mdp", "solve", "grid.json", "--plot", "ranks:grid.jpeg"], ".svg or .png");
    usage(&["mdp", "solve", "grid.json", "--plot", "ranks:grid.svg"], "expected several");
    usage(&["mdp", "solve", "grid.json", "--ranks", "2"], "--rank");
    for number in ["0", "1001", "many", "-1"] {
        usage(&["mdp", "solve", "grid.json", "--local-sweeps", number], "expected auto, or a number from 1 to 1000");
    }
    usage(&["mdp", "solve", "grid.json", "--local-sweeps", "2", "--method", "krylov"], "is for method values");
    usage(&["mdp", "solve", "grid.json", "--local-sweeps", "2", "--criterion", "average"], "discounted criterion only");
    if cfg!(not(feature = "metis")) {
        usage(&["mdp", "solve", "grid.json", "--divide", "metis"], "cargo build --release --features metis");
    }
    usage(&["mdp", "solve", "grid.json", "--rank", "0", "--master", "a:1"], "--ranks");
    usage(&["devices", "--ranks", "2", "--rank", "2", "--master", "a:1"], "expected at most 1");
    usage(&["mdp", "info", "grid.json", "--ranks", "2", "--rank", "0", "--master", "a:1"], "--ranks");
    usage(&["mdp", "convert", "grid.json", "grid.doc"], ".json or .csv or .safetensors");
    usage(&["devices", "--all"], "--all");

    let grid = ["mdp", "generate", "grid", "--out", "other.json"];
    let grid = |arguments: &[&str], word| usage(&[&grid, arguments].concat(), word);
    grid(&["--width", "8"], "--height");
    grid(&["--width", "0", "--height", "8"], "a grid of 0 × 8 cells");
    grid(&["--width", "70000", "--height", "70000"], "expected 1 to 4294967295 cells");
    grid(&["--width", "8", "--height", "8", "--slip", "1.5"], "in [0, 1]");
    grid(
        &["--width", "8", "--height", "8", "--walls", "0.6", "--obstacles", "0.5"],
        "38 walls and 32 obstacles do not fit in the 63 cells",
    );
    assert!(!folder.path().join("other.json").exists());
}

/// The files below `folder` with their contents, without the outputs of a build.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        match fs::read_to_string(entry.path()) {
            _ if ["target", "Cargo.lock"].contains(&&*name) => {}
            Ok(text) => drop(found.insert(name, text)),
            Err(_) => {
                found.extend(files(&entry.path()).into_iter().map(|(inner, text)| (format!("{name}/{inner}"), text)))
            }
        }
    }
    found
}

#[test]
fn a_new_crate_is_the_example() {
    let (folder, root) = (folder(), Path::new(env!("CARGO_MANIFEST_DIR")));
    let output = succeeds(folder.path(), &["new", "mine", "--path", root.to_str().unwrap()]);
    assert!(stdout(&output).contains("cd mine && cargo run"));
    succeeds(folder.path(), &["new", "my-model", "--model", "--path", root.to_str().unwrap()]);
    for (name, example) in [("mine", "own-kernel"), ("my-model", "own-model")] {
        let mut made = files(&folder.path().join(name));
        let mut other = files(&root.join("examples").join(example));
        let (manifest, of_example) = (made.remove("Cargo.toml").unwrap(), other.remove("Cargo.toml").unwrap());
        assert_eq!(made, other);
        let sources = root.canonicalize().unwrap();
        let renamed = of_example.replace(example, name).replace("../..", sources.to_str().unwrap());
        assert_eq!(manifest, renamed);
    }

    succeeds(folder.path(), &["new", "from_registry"]);
    let manifest = fs::read_to_string(folder.path().join("from_registry/Cargo.toml")).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    for name in ["device", "cuda", "build"] {
        assert!(manifest.contains(&format!("\nwarpkov-{name} = \"{version}\"\n")), "{manifest}");
    }
    succeeds(folder.path(), &["new", "of-version", "--version", "1.2.3-beta.1"]);
    assert!(fs::read_to_string(folder.path().join("of-version/Cargo.toml")).unwrap().contains("\"1.2.3-beta.1\""));
}

#[test]
fn a_new_crate_overwrites_nothing_and_needs_a_valid_name() {
    let folder = folder();
    fs::create_dir(folder.path().join("empty")).unwrap();
    fs::write(folder.path().join("file"), "mine").unwrap();
    let refused =
        |arguments: &[&str], word| fails(folder.path(), &[&["new"], arguments].concat(), 2, &["error:", word]);
    for name in ["empty", "file"] {
        refused(&[name], "is there already");
    }
    for name in ["1st", "_", "", "-a", "a/b", "../a", ".", "a b", "a.b", "ä", &"a".repeat(65)] {
        let name = ["--", name];
        refused(&name, "is no name for a crate");
    }
    for name in ["fn", "Self", "std", "test", "warpkov", "warpkov-device", "WARPKOV_build", "proc-macro"] {
        refused(&[name], "is no name for a crate");
    }
    for version in ["", "*", "1.2.3.4", "0.1\"", "^1", "git"] {
        refused(&["mine", "--version", version], "expected a version");
    }
    refused(&["mine", "--path", "empty"], "toolchain/device");
    refused(&["mine", "--path", ".", "--version", "1"], "cannot be used with");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    assert_eq!(fs::read_to_string(folder.path().join("file")).unwrap(), "mine");
}

#[test]
fn a_missing_device_has_exit_code_3() {
    let folder = folder_with_grid();
    fails(folder.path(), &["mdp", "solve", "grid.json", "--device", "cuda:4096"], 3, &["error: there is no"]);
}

#[test]
fn a_run_that_meets_a_limit_reports_with_exit_code_1() {
    let folder = folder_with_grid();
    let output = run(folder.path(), &["mdp", "solve", "grid.json", "--method", "parallel", "--max-policies", "1"]);
    assert_eq!(code(&output), Some(1));
    assert!(stdout(&output).contains("Not converged"));
    let output = run(folder.path(), &["mdp", "solve", "grid.json", "--max-sweeps", "1", "--json", "--device", "cpu"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(code(&output) == Some(0), report["converged"] == true);
}

#[test]
fn listing_a1_is_solved_from_stdin() {
    let folder = folder();
    let arguments = ["mdp", "solve", "-", "--theta", "1e-12", "--device", "cpu"];
    let output = run_with(folder.path(), &arguments, LISTING_A1.as_bytes());
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.starts_with("Optimal policy: "));
    assert!(text.contains("S=4, A=4, gamma=0.9\nRows (S*A)=16, nnz=40\nValues converged after "), "{text}");
    assert!(text.contains("Certified: |V − V*| ≤ "));

    let output = run_with(folder.path(), &[&arguments[..], &["--json"]].concat(), LISTING_A1.as_bytes());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["status"], &report["states"], &report["nnz"]), (&"solved".into(), &4.into(), &40.into()));
    // By symmetry V(1) = V(2), so three linear equations remain.
    let values: Vec<f64> = serde_json::from_value(report["values"].clone()).unwrap();
    for (value, expected) in values.iter().zip([8.377333841, 9.357138969, 9.357138969, 9.455663818]) {
        assert!((value - expected).abs() < 1e-8, "{values:?}");
    }
    assert!(report["certificate"]["bound"].as_f64().unwrap() < 1e-10);
    let phases = report["phases"].as_object().unwrap();
    assert_eq!(phases.len(), 7);
    for phase in ["read", "prepare", "start", "upload", "solve", "certify", "write"] {
        assert!(phases[phase].as_f64().is_some_and(|seconds| (0.0..60.0).contains(&seconds)), "{phase}");
    }
    assert!(phases["read"].as_f64() > Some(0.0) && phases["solve"] == report["compute_seconds"]);
}

/// Each family: its required options, its number of states, and invalid options with the expected message.
#[test]
fn every_family_is_generated_and_reports_invalid_options() {
    let folder = folder();
    let families: [(&[&str], u64, &[&str], &str); 13] = [
        (&["grid", "--width", "4", "--height", "3"], 12, &["--walls", "2"], "in [0, 1)"),
        (&["wetfloor", "--domain", "gw-64x64x4"], 4096, &["--redirected", "2"], "in [0, 1]"),
        (&["sutton-grid"], 25, &["--gamma", "1"], "in [0, 1)"),
        (&["garnet", "--states", "30"], 30, &["--branching", "31"], "branching is 31, expected 1 to 30"),
        (&["queueing", "--capacity", "5"], 36, &["--fast-rate", "0.5"], "fast_rate is 0.5"),
        (&["forest"], 3, &["--ages", "1"], "--ages <S>': expected 2 to"),
        (&["gambler"], 101, &["--heads", "1.5"], "in [0, 1]"),
        (&["car-rental", "--max-cars", "3"], 16, &["--rentals", "3"], "expected 2 values"),
        (&["inventory", "--capacity", "9", "--demand-mean", "3"], 10, &["--demand", "0.5,0.5"], "--demand"),
        (&["consensus"], 272, &["--processes", "11"], "--processes <N>': expected 1 to 10"),
        (&["firewire"], 4093, &["--delay", "0"], "--delay <TIME>': expected 1 to 360"),
        (&["csma"], 1038, &["--stations", "5"], "--stations <N>': expected 1 to 4"),
        (&["zeroconf"], 670, &["--hosts", "65024"], "--hosts <N>': expected 1 to 65023"),
    ];
    for (family, states, wrong, word) in families {
        let command = [&["mdp", "generate"], family].concat();
        assert!(stdout(&succeeds(folder.path(), &[&command[..3], &["--help"]].concat())).contains("Examples:"));
        let out = ["--out", "model.safetensors"];
        fails(folder.path(), &[&command[..], wrong, &out].concat(), 2, &["error:", word]);
        succeeds(folder.path(), &[&command[..], &out].concat());
        let info = succeeds(folder.path(), &["mdp", "info", "model.safetensors", "--json"]);
        let info: serde_json::Value = serde_json::from_slice(&info.stdout).unwrap();
        assert_eq!(info["states"], states, "{family:?}");
    }
    let wetfloor = ["mdp", "generate", "wetfloor", "--out", "model.json"];
    for (arguments, word) in [
        (&["--domain", "GW-65x65x1"][..], "GW-64x64"),
        (&["--width", "8"], "--height"),
        (&[], "--domain"),
        (&["--domain", "GW-64x64x1", "--successors", "2"], "cannot be used with"),
        (&["--width", "8", "--height", "8", "--successors", "3"], "successors is 3, expected 1, 2 or 4"),
    ] {
        fails(folder.path(), &[&wetfloor, arguments].concat(), 2, &["error:", word]);
    }
}

/// `--generate` solves the model that `mdp generate` writes, and refuses what that refuses.
#[test]
fn solve_generates_its_model() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    for family in ["grid --width 9 --height 7 --walls 0.2", "garnet --states 90 --ragged", "consensus"] {
        let generate: Vec<&str> = ["mdp", "generate"].into_iter().chain(family.split(' ')).collect();
        let output = run(dir, &[&generate[..], &["--out", "model.safetensors"]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let options = ["--gamma", "0.9", "--device", "cpu", "--out"];
        let solved = [&["mdp", "solve", "model.safetensors"][..], &options, &["file.npy"]].concat();
        let made = [&["mdp", "solve", "--generate", family][..], &options, &["made.npy"]].concat();
        for arguments in [solved, made] {
            let output = run(dir, &arguments);
            assert_eq!(code(&output), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        }
        for array in ["npy", "policy.npy"] {
            let [file, made] = ["file", "made"].map(|name| fs::read(dir.join(format!("{name}.{array}"))).unwrap());
            assert!(file == made, "{family}");
        }
    }
    for (arguments, expected) in [
        (&["--generate", "grid --width 3"][..], "--height <CELLS>"),
        (&["--generate", "grid --widht 3"], "unexpected argument '--widht' found"),
        (&["--generate", "girder"], "unrecognized subcommand 'girder'"),
        (&["--generate", "forest --out f.json"], "--out is an option of generate"),
        (&["--generate", "forest --fire 2"], "--fire <P>"),
        (&["--generate", "forest --help"], "expected a family and its options"),
        (&["--generate", ""], "expected a family and its options"),
        (&["--generate", "forest", "model.safetensors"], "cannot be used with"),
        (&[], "<FILE"),
    ] {
        let output = run(dir, &[&["mdp", "solve"][..], arguments].concat());
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(code(&output) == Some(2) && message.contains(expected), "{arguments:?}: {message}");
    }
}

#[test]
fn generate_pipes_into_solve() {
    let folder = folder();
    let grid = ["mdp", "generate", "grid", "--width", "16", "--height", "16", "--out", "-"];
    let mut generate = warpkov(folder.path(), &grid).stdout(Stdio::piped()).spawn().unwrap();
    let model = generate.stdout.take().unwrap();
    let solve =
        warpkov(folder.path(), &["mdp", "solve", "-", "--json", "--device", "cpu"]).stdin(model).output().unwrap();
    assert!(generate.wait().unwrap().success());
    assert_eq!(code(&solve), Some(0), "{}", stderr(&solve));
    let report: Value = serde_json::from_slice(&solve.stdout).unwrap();
    assert_eq!(report["policy"].as_array().map(Vec::len), Some(256));
}

#[test]
fn divided_methods_agree_with_the_sequential_one() {
    let folder = folder();
    let model = folder.path().join("gw.json");
    let model = model.to_str().unwrap();
    succeeds(folder.path(), &["mdp", "generate", "wetfloor", "--width", "9", "--height", "7", "--out", model]);
    let values = |arguments: &[&str]| {
        let solve = ["mdp", "solve", model, "--theta", "1e-9", "--json", "--quiet"];
        let output = succeeds(folder.path(), &[&solve, arguments].concat());
        let solution: Value = serde_json::from_str(stdout(&output)).unwrap();
        let values = solution["values"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap());
        values.collect::<Vec<_>>()
    };
    let expected = values(&["--method", "sequential"]);
    let divided = ["--device", "emulated", "--method", "block-divided"];
    let enhanced = "block-divided:block=4x2,sweeps-per-launch=3,buffering,states-per-thread=2,update-constant=1";
    for arguments in [
        &["--device", "emulated", "--method", "result-divided"][..],
        &["--device", "emulated", "--method", "modified"],
        &["--device", "cpu", "--method", "modified"],
        &["--device", "emulated", "--method", "block-divided:block=4x2"],
        &["--device", "emulated", "--method", enhanced],
    ] {
        for (value, expected) in values(arguments).iter().zip(&expected) {
            assert!((value - expected).abs() < 2e-8, "{arguments:?}: {value}, {expected}");
        }
    }
    // As many sweeps as the thesis' algorithm.
    let domain = ["--generate", "wetfloor --domain GW-64x64x1", "--theta", "1e-4"];
    let sweeps_of = |options: &[&'static str]| {
        let of_domain = [&["mdp", "solve", "--json", "--quiet"][..], &domain, options].concat();
        let solution: Value = serde_json::from_str(stdout(&succeeds(folder.path(), &of_domain))).unwrap();
        solution["sweeps"].as_u64()
    };
    assert_eq!(sweeps_of(&divided), Some(144));
    // Threads of actions change nothing; blocks that are not tiles of the grid need more sweeps.
    for (method, sweeps) in
        [("block-divided:by-action", 144), ("block-divided:grouping=grown", 168), ("block-divided:grouping=rcm", 232)]
    {
        assert_eq!(
            sweeps_of(&["--device", "emulated", "--method", method, "--precision", "f32"]),
            Some(sweeps),
            "{method}"
        );
    }
    // Launches of 8 sweeps and nothing in between, whatever the limit.
    for sweeps in [5_u64, 8, 20] {
        let limit = sweeps.to_string();
        let limited = [&["mdp", "solve", model, "--json", "--quiet", "--max-sweeps", &limit][..], &divided].concat();
        let output = warpkov(folder.path(), &limited).output().unwrap();
        let solution: Value = serde_json::from_str(stdout(&output)).unwrap();
        assert_eq!(solution["sweeps"], sweeps);
    }
    for (method, expected) in [
        ("block-divided:block=64x32", "blocks of 64 × 32 threads, expected 1 to 1024"),
        ("block-divided:block=0x8", "block: expected two counts, as in block=16x8"),
        ("block-divided:block=16", "block: expected two counts"),
        ("block-divided:", "expected an option after :"),
        ("block-divided:buffering=yes", "buffering takes no value"),
        ("block-divided:states-per-thread=6", "expected a count from 1 to 5"),
        ("block-divided:update-constant=-1", "expected a finite number above 0"),
        ("values:buffering", "method values has no options"),
        ("projected:buffering", "expected projected:spmv=own or projected:spmv=cusparse"),
        ("projected:spmv=mkl", "spmv: expected one of own, cusparse"),
        ("block-divided:by-action=4", "by-action takes no value"),
        ("block-divided:by-action,states-per-thread=2", "by-action has one state per thread, found 2"),
        ("block-divided:grouping=hexagons", "grouping: expected one of tiles, rcm, grown, metis"),
        ("projected:spmv=cusparse", "method projected:spmv=cusparse needs a GPU"),
        ("blok-divided:buffering", "a similar value exists: 'block-divided'"),
    ] {
        fails(folder.path(), &["mdp", "solve", model, "--device", "emulated", "--method", method], 2, &[expected]);
    }
    fails(folder.path(), &["mdp", "solve", model, "--device", "cpu", "--method", "block-divided"], 2, &["emulated"]);
    let table = ["bench", "mdp", "--suite", "table-6.1"];
    fails(folder.path(), &[&table[..], &["--case", "G1"]].concat(), 2, &["G1", "GW-64x64x1"]);
    // A method that the suite does not measure, or not on this device, is no empty table.
    for method in ["modified", "plain", "gauss-seidel"] {
        fails(folder.path(), &[&table[..], &["--method", method]].concat(), 2, &[method, "measures", "block-divided"]);
    }
    fails(folder.path(), &[&table[..], &["--connected"]].concat(), 2, &["--connected belongs to --suite slip-grids"]);
    let on_cpu = [&table[..], &["--method", "block-divided", "--device", "cpu"]].concat();
    fails(folder.path(), &on_cpu, 2, &["block-divided", "needs a GPU"]);
    let sizes = ["bench", "mdp", "--suite", "block-sizes", "--device", "cpu"];
    fails(folder.path(), &sizes, 2, &["needs a GPU, or --device emulated"]);
    for suite in ["block-sizes", "huge-grid", "scaling", "ranks"] {
        let other = ["bench", "mdp", "--suite", suite, "--method", "values"];
        fails(folder.path(), &other, 2, &["--method belongs to --suite slip-grids or table-6.1"]);
    }
}

/// What a solve writes can be compared, in all formats; plans, too.
#[test]
fn compare_reads_what_solve_writes() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let model = format!("{}/data/replacement.json", env!("CARGO_MANIFEST_DIR"));
    for (options, out, extensions) in [
        (&[][..], "--out", &["json", "csv", "npy", "txt"][..]),
        (&["--horizon", "4"], "--all-steps", &["json", "csv", "npy"]),
    ] {
        for extension in extensions {
            let file = path(&format!("solution.{extension}"));
            let solve = [&["mdp", "solve", &model, "--quiet", out, &file][..], options].concat();
            let printed = succeeds(folder.path(), &solve);
            assert!(stdout(&printed).starts_with("Certified: ") && stdout(&printed).lines().count() == 1);
            let compared = succeeds(folder.path(), &["mdp", "compare", &path("solution.json"), &file, "--json"]);
            let compared: Value = serde_json::from_str(stdout(&compared)).unwrap();
            let count = if options.is_empty() { 6 } else { 24 };
            assert_eq!(
                (&compared["states"][1], &compared["differences"]["same_action"]),
                (&count.into(), &count.into())
            );
        }
    }
    let other = succeeds(folder.path(), &["mdp", "solve", &model, "--discount", "0.5", "--out", "other.csv"]);
    assert!(stdout(&other).contains("gamma=0.5"));
    let differ = warpkov(folder.path(), &["mdp", "compare", "other.csv", &path("solution.csv")]).output().unwrap();
    assert_eq!(differ.status.code(), Some(1));
}

/// A goal is named as a start is. A table may come from another program. Ends count in sums of rows.
#[test]
fn names_and_columns_are_those_of_people() {
    let folder = folder();
    let table = "s;a;next_state;prob;r\nhome;go;work;0,5\n";
    fs::write(folder.path().join("comma.csv"), table).unwrap();
    fails(folder.path(), &["mdp", "info", "comma.csv"], 2, &["comma.csv:2", "4 fields, expected 5"]);
    for (name, separator) in [("model.csv", ";"), ("model.tsv", "\t")] {
        let rows = ["s;a;next_state;Prob;r", "home;go;work;0.5;-1", "home;go;home;.5;-1", "work;;;;"];
        fs::write(folder.path().join(name), rows.join("\n").replace(';', separator)).unwrap();
        let reach = ["mdp", "solve", name, "--format", "csv", "--criterion", "total", "--goal", "work", "--json"];
        let solved: Value = serde_json::from_str(stdout(&succeeds(folder.path(), &reach))).unwrap();
        assert!((solved["values"][0].as_f64().unwrap() + 2.0).abs() < 1e-5, "{solved}");
    }
    fails(folder.path(), &["mdp", "solve", "model.csv", "--criterion", "reach", "--goal", "nowhere"], 2, &["nowhere"]);
    let ends = r#"{"S":2,"A":1,"gamma":0.9,"P":{"indptr":[0,1,2],"indices":[1,0],"data":[0.25,1]},"ends":[0.75,0]}"#;
    fs::write(folder.path().join("ends.json"), ends).unwrap();
    let info = succeeds(folder.path(), &["mdp", "info", "ends.json"]);
    assert!(stdout(&info).contains("1 within 0.0e0"), "{}", stdout(&info));
}

#[test]
fn a_grid_is_generated_on_the_device_that_solves_it() {
    let folder = folder();
    let huge = ["bench", "mdp", "--suite", "huge-grid", "--device", "emulated", "--gamma", "0.8"];
    for more in [&["--side", "9"][..], &["--side", "7", "--walls", "0.2", "--precision", "f64", "--no-skip"]] {
        let output = succeeds(folder.path(), &[&huge, more, &["--json"]].concat());
        let found: Value = serde_json::from_str(stdout(&output)).unwrap();
        let bound = found["certificate"]["bound"].as_f64().unwrap();
        assert!(bound > 0.0 && bound <= 1e-5, "{bound}");
        assert!(found["sweeps"].as_u64().unwrap() > 20, "{found}");
    }
    let output = succeeds(folder.path(), &[&huge[..], &["--side", "2"]].concat());
    assert!(stdout(&output).contains("states       4\n"), "{}", stdout(&output));
    fails(folder.path(), &[&huge[..], &["--precision", "f32"]].concat(), 2, &["huge-grid ends in f64"]);
    fails(folder.path(), &[&huge[..], &["--largest", "9"]].concat(), 2, &["--largest belongs to --suite scaling"]);
    for suite in ["huge-grid", "scaling"] {
        let bench = ["bench", "mdp", "--suite", suite, "--device"];
        fails(folder.path(), &[&bench[..], &["cpu"]].concat(), 2, &["expected auto, cuda:N or emulated"]);
        fails(folder.path(), &[&bench[..], &["cuda:4096"]].concat(), 3, &["there is no"]);
    }
    let backups = ["bench", "pomdp", "--suite", "backups", "--size", "4", "--states", "8", "--runs", "1", "--json"];
    for (device, name, rows) in [("emulated", "the emulator", 10), ("cpu", "CPU core", 1)] {
        let output = succeeds(folder.path(), &[&backups[..], &["--device", device]].concat());
        let rates: Value = serde_json::from_str(stdout(&output)).unwrap();
        assert_eq!(rates.as_array().unwrap().len(), rows);
        assert!(rates.as_array().unwrap().iter().all(|rate| rate["device"].as_str().unwrap().contains(name)));
    }
    fails(folder.path(), &["bench", "mdp", "--side", "9"], 2, &["--side belongs to --suite huge-grid"]);
}

#[test]
fn sweeps_are_timed_and_plotted() {
    let folder = folder();
    let scaling = ["bench", "mdp", "--suite", "scaling", "--device", "emulated", "--largest", "300", "--runs", "1"];
    let more = ["--json", "--plot", "scaling.svg", "--plot", "scaling.png"];
    let output = succeeds(folder.path(), &[&scaling[..], &more].concat());
    let found: Value = serde_json::from_str(stdout(&output)).unwrap();
    let points = found["points"].as_array().unwrap();
    let storages: Vec<_> = points.iter().map(|point| (&point["family"], &point["storage"])).collect();
    assert_eq!(storages[0], (&Value::from("grid"), &Value::from("slices")));
    assert_eq!(storages[3].0, "power-law");
    for point in points {
        assert!((60..600).contains(&point["nnz"].as_u64().unwrap()), "{point}");
        assert!(point["sweep_us"].is_f64() && point["sweep_bytes"].as_u64().unwrap() > 0, "{point}");
    }
    assert!(found["copy_gbps"].as_f64().unwrap() > 0.0 && found["launch_us"].as_f64().unwrap() > 0.0);
    assert!(fs::read_to_string(folder.path().join("scaling.svg")).unwrap().contains("power-law, "));
    assert!(fs::read(folder.path().join("scaling.png")).unwrap().starts_with(b"\x89PNG"));
    let output = succeeds(folder.path(), &[&scaling[..], &["--case", "garnet"]].concat());
    assert_eq!(stdout(&output).lines().filter(|line| line.starts_with("garnet")).count(), 1);
    fails(folder.path(), &[&scaling[..], &["--plot", "scaling.pdf"]].concat(), 2, &[".svg or .png"]);
    fails(folder.path(), &[&scaling[..], &["--case", "G1"]].concat(), 2, &["grid, garnet or power-law"]);
}

#[test]
fn a_broken_pipe_is_not_a_failure() {
    let folder = folder();
    let grid = ["mdp", "generate", "grid", "--width", "128", "--height", "128", "--out", "-"];
    let mut generate = warpkov(folder.path(), &grid).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    generate.stdout.take().unwrap().read_exact(&mut [0; 16]).unwrap();
    let output = generate.wait_with_output().unwrap();
    assert_eq!((code(&output), stderr(&output)), (Some(0), ""));
}

#[test]
fn solutions_are_compared_by_the_rule_of_the_source() {
    let folder = folder_with_grid();
    let solve = |out, more: &[&str]| {
        let arguments = ["mdp", "solve", "grid.json", "--theta", "1e-9", "--device", "cpu", "--out", out];
        succeeds(folder.path(), &[&arguments, more].concat())
    };
    let shown = solve("a.json", &[]);
    assert!(stdout(&shown).contains("… (64 states; all in a.json)"), "{}", stdout(&shown));
    solve("b.txt", &[]);
    solve("c.json", &["--gamma", "0.8"]);
    assert_eq!(fs::read_to_string(folder.path().join("b.txt")).unwrap().lines().count(), 2);

    let tied = succeeds(folder.path(), &["mdp", "compare", "a.json", "b.txt", "--model", "grid.json", "--json"]);
    let tied: Value = serde_json::from_slice(&tied.stdout).unwrap();
    assert_eq!((&tied["agree"], &tied["differences"]["ties"]), (&true.into(), &json!([])));
    let compare = |rest: &[&'static str]| [&["mdp", "compare", "a.json", "b.txt"][..], rest].concat();
    fails(folder.path(), &compare(&["--gamma", "0.5"]), 2, &["--model"]);
    succeeds(folder.path(), &["mdp", "generate", "grid", "--width", "3", "--height", "3", "--out", "small.json"]);
    fails(folder.path(), &compare(&["--model", "small.json"]), 2, &["64 states, and the model 9"]);

    let same = succeeds(folder.path(), &["mdp", "compare", "a.json", "b.txt"]);
    assert!(stdout(&same).ends_with("The solutions agree.\n"));
    let output = run(folder.path(), &["mdp", "compare", "a.json", "c.json"]);
    assert_eq!(code(&output), Some(1));
    assert!(stdout(&output).ends_with("The solutions differ.\n"));
    let output = run(folder.path(), &["mdp", "compare", "a.json", "c.json", "--json", "--value-tolerance", "100"]);
    let comparison: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (code(&output) == Some(0), &comparison["differences"]["within"]),
        (comparison["agree"] == true, &64.into())
    );

    fs::write(folder.path().join("short.txt"), "Optimal policy: 0\nOptimal value: 1\n").unwrap();
    assert_eq!(code(&run(folder.path(), &["mdp", "compare", "a.json", "short.txt"])), Some(1));
    fs::write(folder.path().join("bad.txt"), "Optimal policy: 0 x\nOptimal value: 1 2\n").unwrap();
    fails(folder.path(), &["mdp", "compare", "a.json", "bad.txt"], 2, &["bad.txt: line 1, entry 2: 'x'"]);
}

#[test]
fn a_pipe_receives_a_complete_solution() {
    let folder = folder_with_grid();
    let output = succeeds(folder.path(), &["mdp", "solve", "grid.json", "--device", "cpu"]);
    fs::write(folder.path().join("captured.txt"), &output.stdout).unwrap();
    succeeds(folder.path(), &["mdp", "solve", "grid.json", "--device", "cpu", "--out", "whole.json"]);
    succeeds(folder.path(), &["mdp", "compare", "captured.txt", "whole.json"]);
}

#[test]
fn solutions_are_written_as_tables_and_arrays() {
    let folder = tempfile::tempdir().unwrap();
    let lake = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/frozen-lake-4x4.json");
    let solve = ["mdp", "solve", lake.to_str().unwrap(), "--gamma", "0.99", "--device", "cpu", "--epsilon", "1e-12"];
    for out in ["a.json", "a.csv", "a.npy"] {
        succeeds(folder.path(), &[&solve[..], &["--out", out]].concat());
    }
    let table = std::fs::read_to_string(folder.path().join("a.csv")).unwrap();
    let (header, rows) = table.split_once('\n').unwrap();
    assert_eq!((header, rows.lines().count()), ("state,value,action", 16));
    let value: f64 = rows.split(',').nth(1).unwrap().parse().unwrap();
    // The table of Gymnasium 1.4, solved by exact policy iteration.
    assert!((value - 0.542025932000).abs() < 1e-11, "{value}");
    let sizes = ["a.npy", "a.policy.npy"].map(|name| std::fs::metadata(folder.path().join(name)).unwrap().len());
    assert_eq!(sizes, [128 + 16 * 8, 128 + 16 * 4]);

    let printed = succeeds(folder.path(), &[&solve[..], &["--out", "-"]].concat());
    assert_eq!(stdout(&printed), table);
    let printed = succeeds(folder.path(), &[&solve[..], &["--out", "-", "--to", "npy"]].concat());
    assert_eq!(printed.stdout, std::fs::read(folder.path().join("a.npy")).unwrap());
    for values in ["a.json", "a.csv", "a.npy"] {
        let warm = succeeds(folder.path(), &[&solve[..], &["--values", values, "--json"]].concat());
        let report: serde_json::Value = serde_json::from_str(stdout(&warm)).unwrap();
        assert!(report["sweeps"].as_u64().unwrap() < 5, "{values}: {}", report["sweeps"]);
    }
    fails(folder.path(), &[&solve[..], &["--out", "-", "--json"]].concat(), 2, &["both write to the standard output"]);
}

#[test]
fn plots_are_valid_files() {
    let folder = folder_with_grid();
    fs::write(folder.path().join("a1.json"), LISTING_A1).unwrap();
    for model in ["grid", "a1"] {
        let (input, svg, png) = (format!("{model}.json"), format!("{model}.svg"), format!("{model}.png"));
        succeeds(folder.path(), &["mdp", "solve", &input, "--method", "parallel", "--plot", &svg, "--plot", &png]);
        let svg = fs::read_to_string(folder.path().join(svg)).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert!(svg.contains("γ = 0.9") && svg.contains("States whose action changed"));
        assert_eq!(svg.contains("data:image/png;base64,"), model == "grid");
        let png = fs::read(folder.path().join(png)).unwrap();
        let image = image::load_from_memory(&png).unwrap();
        assert_eq!((image.width(), image.height()), (1600, 960));
        // The picture is neither blank nor text only.
        let colors: std::collections::HashSet<_> = image.to_rgb8().pixels().copied().collect();
        assert!(colors.len() > 50, "{} colours", colors.len());
    }
}

#[test]
fn info_describes_a_model() {
    let folder = folder_with_grid();
    let text = succeeds(folder.path(), &["mdp", "info", "grid.json"]);
    assert!(stdout(&text).contains("Grid             8 × 8, goal in"), "{}", stdout(&text));
    let json = run_with(folder.path(), &["mdp", "info", "-", "--json"], LISTING_A1.as_bytes());
    let info: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(
        (&info["states"], &info["transitions"]["nnz"], &info["rewards"]["nnz"]),
        (&4.into(), &40.into(), &16.into())
    );
    assert_eq!((&info["transitions"]["longest_row"], &info["rewards"]["range"]), (&3.into(), &vec![1.0, 1.0].into()));
    assert!(info["transitions"]["row_sum_error"].as_f64().unwrap() < 1e-12);
}

#[test]
fn devices_lists_gpus_cores_and_device_code() {
    let listing = succeeds(folder().path(), &["devices", "--json"]);
    let listing: Value = serde_json::from_slice(&listing.stdout).unwrap();
    assert!(listing["cpu_cores"].as_u64().unwrap() >= 1);
    // Either GPUs or the reason why there are none.
    assert_eq!(listing["gpus"].as_array().unwrap().is_empty(), listing["no_gpu"].is_string(), "{listing}");
    // Either device code with its compiler or the reason why there is none.
    let code = &listing["device_code"];
    let baselines = code["baselines"].as_array().unwrap();
    assert_eq!(baselines.is_empty(), code["missing"].is_string(), "{listing}");
    assert_eq!(baselines.is_empty(), code["compiler"].is_null(), "{listing}");

    // Either a library or the reason why there is none.
    for library in ["nccl", "mpi"] {
        let found = &listing[library];
        assert!(found["found"].is_string() != found["missing"].is_string(), "{listing}");
    }

    let text = succeeds(folder().path(), &["devices"]);
    assert!(stdout(&text).contains("\nNCCL: ") && stdout(&text).contains("\nMPI: "), "{}", stdout(&text));
    assert!(stdout(&text).contains("cpu  ") && stdout(&text).contains("Device code: "), "{}", stdout(&text));
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// Damaged, truncated and unknown files are rejected.
#[test]
fn odd_files_are_refused() {
    let folder = folder_with_grid();
    let path = |name: &str| folder.path().join(name);
    succeeds(folder.path(), &["mdp", "convert", "grid.json", "grid.umb"]);
    let whole = fs::read(path("grid.umb")).unwrap();
    // The checksum follows the data, so the whole model has been read when it fails.
    let mut changed = whole.clone();
    changed[whole.len() - 6] ^= 1;
    fs::write(path("changed.umb"), changed).unwrap();
    fs::write(path("cut.umb"), &whole[..whole.len() - 1]).unwrap();
    fs::write(path("more.umb"), [&whole[..], b"more"].concat()).unwrap();
    for name in ["changed.umb", "cut.umb", "more.umb"] {
        fails(folder.path(), &["mdp", "info", name], 2, &[name, "gzip"]);
    }
    let text = fs::read_to_string(path("grid.json")).unwrap();
    for (name, bytes) in [("le.json", u16::to_le_bytes as fn(u16) -> [u8; 2]), ("be.json", u16::to_be_bytes)] {
        let units = std::iter::once('\u{feff}').chain(text.chars()).map(|c| bytes(c as u16));
        fs::write(path(name), units.flatten().collect::<Vec<_>>()).unwrap();
        fails(folder.path(), &["mdp", "info", name], 2, &[name, "is in UTF-16, expected UTF-8"]);
    }
    let labelled = r#"{"S":2,"A":1,"gamma":0.9,"P":{"indptr":[0,1,2],"indices":[1,1],"data":[1,1]},
        "R":{"indptr":[0,0,0],"indices":[],"data":[]},"labels":{"":[0],"\u001b[2Ja b":[1]}}"#;
    fs::write(path("labelled.json"), labelled).unwrap();
    for name in ["l.umb", "l.drn"] {
        fails(folder.path(), &["mdp", "convert", "labelled.json", name], 2, &[name, "no place for the label \"\""]);
        assert!(!path(name).exists());
    }
    let reach = ["mdp", "solve", "labelled.json", "--criterion", "reach", "--goal", "x"];
    fails(folder.path(), &reach, 2, &["the model has '', '\\u{1b}[2Ja b'"]);
}

/// Models, policies, beliefs, sequences and solutions from compressed files, and from pipes in place of files.
#[test]
fn texts_are_read_compressed_and_through_pipes() {
    let folder = folder_with_grid();
    let pack = |name: &str| {
        let text = fs::read(folder.path().join(name)).unwrap();
        fs::write(folder.path().join(format!("{name}.gz")), gzip(&text)).unwrap();
        fs::remove_file(folder.path().join(name)).unwrap();
    };
    let done = |arguments: &str| {
        let arguments: Vec<_> = arguments.split(' ').collect();
        stdout(&succeeds(folder.path(), &arguments)).to_owned()
    };
    for out in ["a.json", "a.csv", "a.txt", "a.npy"] {
        done(&format!("mdp solve grid.json --device cpu --epsilon 1e-12 --out {out}"));
        pack(out);
    }
    done("mdp compare a.json.gz a.txt.gz");
    pack("grid.json");
    let tally = |arguments: &str| serde_json::from_str::<Value>(&done(arguments)).unwrap()["sweeps"].as_u64().unwrap();
    for values in ["a.json.gz", "a.csv.gz", "a.txt.gz", "a.npy.gz"] {
        let sweeps = tally(&format!("mdp solve grid.json.gz --device cpu --json --values {values}"));
        // The text format has six digits.
        assert!(sweeps < if values == "a.txt.gz" { 20 } else { 5 }, "{values}: {sweeps}");
    }

    done("pomdp generate tiger --out tiger.pomdp");
    done("pomdp solve tiger.pomdp --time 5 --quiet --out tiger.alpha");
    fs::write(folder.path().join("two.beliefs"), "0.5 0.5\n").unwrap();
    let evaluated = done("pomdp act tiger.pomdp --policy tiger.alpha");
    ["tiger.pomdp", "tiger.alpha", "two.beliefs"].iter().for_each(|name| pack(name));
    assert_eq!(done("pomdp act tiger.pomdp.gz --policy tiger.alpha.gz"), evaluated);
    done("pomdp trace tiger.pomdp.gz --alphas tiger.alpha.gz --beliefs two.beliefs.gz --element g_ao[0][0][0][0]");

    done("hmm generate random --states 2 --symbols 3 --out model.json");
    done("hmm sample model.json --sequences 3 --length 5 --out data.txt");
    let decoded = done("hmm decode model.json data.txt --device cpu");
    ["model.json", "data.txt"].iter().for_each(|name| pack(name));
    assert_eq!(done("hmm decode model.json.gz data.txt.gz --device cpu"), decoded);

    // A named pipe.
    let bytes = |name: &str| fs::read(folder.path().join(name)).unwrap();
    for (arguments, input) in [
        (&["mdp", "info", "/dev/stdin"][..], &bytes("grid.json.gz")[..]),
        (&["mdp", "solve", "grid.json.gz", "--values", "/dev/stdin"], &bytes("a.txt.gz")),
        (&["mdp", "compare", "a.json.gz", "/dev/stdin"], &bytes("a.json.gz")),
        (&["pomdp", "info", "/dev/stdin"], &bytes("tiger.pomdp.gz")),
        (&["pomdp", "act", "tiger.pomdp.gz", "--policy", "/dev/stdin"], &bytes("tiger.alpha.gz")),
        (&["hmm", "info", "/dev/stdin"], &bytes("model.json.gz")),
        (&["hmm", "score", "model.json.gz", "/dev/stdin", "--device", "cpu"], &bytes("data.txt.gz")),
    ] {
        let output = run_with(folder.path(), arguments, input);
        assert_eq!(code(&output), Some(0), "{arguments:?}: {}", stderr(&output));
    }
}

/// Every command that writes files: (arguments, output option, extension). The inputs are those of
/// [`folder_with_inputs`], or absent.
const WRITERS: [(&str, &str, &str); 27] = [
    ("mdp solve grid.json", "--out", "json"),
    ("mdp solve grid.json", "--out", "csv"),
    ("mdp solve grid.json", "--out", "npy"),
    ("mdp solve grid.json", "--plot", "svg"),
    ("mdp solve grid.json --horizon 3 --gamma 1", "--all-steps", "npy"),
    ("mdp convert grid.json", "", "drn"),
    ("mdp convert grid.json", "", "tra"),
    ("mdp convert grid.json", "", "safetensors"),
    ("mdp convert grid.json", "", "P.bin"),
    ("mdp generate forest", "--out", "json"),
    ("bench mdp --suite scaling --device emulated --largest 100 --runs 1", "--plot", "svg"),
    ("bench mdp --case G1 --method values --device cpu --runs 1", "--plot", "svg"),
    ("bench mdp --suite table-6.1 --case GW-64x64x1 --method sequential --runs 1", "--plot", "svg"),
    ("bench pomdp --suite backups --device cpu --size 4 --runs 1", "--plot", "svg"),
    ("bench hmm --suite figures --case 4x3x5 --device cpu --runs 2", "--plot", "svg"),
    ("pomdp solve tiger.pomdp --quiet", "--out", "alpha"),
    ("pomdp solve tiger.pomdp --quiet", "--plot", "svg"),
    ("pomdp convert tiger.pomdp", "", "json"),
    ("pomdp generate tiger", "--out", "json"),
    ("pomdp bound tiger.pomdp --policy tiger.alpha", "--plot", "svg"),
    ("hmm score model.json data.txt --device cpu", "--out", "csv"),
    ("hmm decode model.json data.txt --device cpu", "--out", "txt"),
    ("hmm posterior model.json data.txt --device cpu", "--out", "npy"),
    ("hmm train model.json data.txt --device cpu --quiet", "--out", "json"),
    ("hmm sample model.json --length 3", "--out", "txt"),
    ("hmm info model.json", "--plot", "svg"),
    ("hmm convert model.json", "", "npz"),
];

fn with_output<'a>(command: &'a str, option: &'a str, out: &'a str) -> Vec<&'a str> {
    command.split(' ').chain([option, out]).filter(|argument| !argument.is_empty()).collect()
}

/// An output that cannot be written is an error before any input is read.
#[test]
fn outputs_are_checked_before_the_work() {
    let folder = folder();
    fs::create_dir(folder.path().join("sub")).unwrap();
    for (command, option, extension) in WRITERS {
        let name = format!("x.{extension}");
        fs::create_dir(folder.path().join(&name)).unwrap();
        // The inputs are absent, but the error is about the output.
        fails(folder.path(), &with_output(command, option, &name), 2, &["cannot write", &name, "directory"]);
        fs::remove_dir(folder.path().join(&name)).unwrap();
        let absent = format!("absent/{name}");
        fails(folder.path(), &with_output(command, option, &absent), 2, &[&absent, "there is no folder absent"]);
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(&name, folder.path().join(&name)).unwrap();
            fails(folder.path(), &with_output(command, option, &name), 2, &["cannot write", &name, "form a loop"]);
            fs::remove_file(folder.path().join(&name)).unwrap();
        }
    }
    // Additional files next to the named one.
    fs::create_dir(folder.path().join("a.policy.npy")).unwrap();
    fails(folder.path(), &["mdp", "solve", "absent.json", "--out", "a.npy"], 2, &["a.policy.npy", "directory"]);
    fs::create_dir(folder.path().join("a.lab")).unwrap();
    fails(folder.path(), &["mdp", "convert", "absent.json", "a.tra"], 2, &["a.lab", "directory"]);
    fs::create_dir(folder.path().join("g.bin")).unwrap();
    fails(folder.path(), &["mdp", "convert", "absent.json", "P.bin"], 2, &["g.bin", "directory"]);
    let two = ["mdp", "solve", "absent.json", "--plot", "a.svg", "--plot", "sub/../a.svg"];
    fails(folder.path(), &two, 2, &["a.svg and", "are one file"]);
}

/// A folder with the inputs of [`WRITERS`].
fn folder_with_inputs() -> tempfile::TempDir {
    let folder = folder_with_grid();
    for command in [
        "pomdp generate tiger --out tiger.pomdp",
        "pomdp solve tiger.pomdp --quiet --out tiger.alpha",
        "hmm generate random --states 2 --symbols 3 --out model.json",
        "hmm sample model.json --sequences 3 --length 5 --out data.txt",
    ] {
        succeeds(folder.path(), &command.split(' ').collect::<Vec<_>>());
    }
    folder
}

#[cfg(unix)]
#[test]
fn inputs_are_not_written() {
    let folder = folder_with_inputs();
    let at = |name: &str| folder.path().join(name);
    fs::hard_link(at("grid.json"), at("hard.json")).unwrap();
    std::os::unix::fs::symlink("grid.json", at("soft.json")).unwrap();
    let before = fs::read(at("grid.json")).unwrap();
    let refused = |arguments: &str, word: &str| {
        let arguments: Vec<_> = arguments.split(' ').collect();
        fails(folder.path(), &arguments, 2, &["error: ", word, "expected another file to write to"]);
    };
    for out in ["grid.json", "./grid.json", "hard.json", "soft.json"] {
        refused(&format!("mdp solve grid.json --out {out}"), out);
        refused(&format!("mdp convert grid.json {out}"), out);
        refused(&format!("mdp solve hard.json --out {out}"), out);
    }
    let stdin = fs::File::open(at("grid.json")).unwrap();
    let output = warpkov(folder.path(), &["mdp", "solve", "-", "--out", "soft.json"]).stdin(stdin).output().unwrap();
    assert_eq!((code(&output), stderr(&output).contains("the standard input")), (Some(2), true), "{}", stderr(&output));
    let out = fs::File::options().append(true).open(at("grid.json")).unwrap();
    let output = warpkov(folder.path(), &["mdp", "solve", "absent.json", "--out", "hard.json"]).stdout(out).output();
    assert!(stderr(&output.unwrap()).contains("hard.json is the standard output as well"));
    assert_eq!(fs::read(at("grid.json")).unwrap(), before);

    succeeds(folder.path(), &["mdp", "solve", "grid.json", "--out", "v.json", "--device", "cpu"]);
    succeeds(folder.path(), &["mdp", "convert", "grid.json", "m.tra"]);
    fs::write(at("m.lab"), "0=\"init\"\n0: 0\n").unwrap();
    refused("mdp solve grid.json --values v.json --out v.json", "v.json");
    // A companion file of the input, and one of the output.
    refused("mdp solve m.tra --out m.lab --to json", "m.lab");
    refused("mdp convert m.tra m.other --to storm", "m.lab");
    refused("pomdp convert tiger.pomdp tiger.pomdp", "tiger.pomdp");
    refused("pomdp convert tiger.alpha tiger.alpha", "tiger.alpha");
    refused("hmm train model.json data.txt --out model.json", "model.json");
    refused("hmm decode model.json data.txt --out data.txt", "data.txt");
    refused("hmm sample model.json --length 3 --out model.json --to lines", "model.json");
}

/// Output to devices, pipes and links writes to their targets. A full device is an error.
#[cfg(target_os = "linux")]
#[test]
fn devices_pipes_and_links_stay_what_they_are() {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
    let folder = folder_with_inputs();
    let at = |name: &str| folder.path().join(name);
    for (command, option, extension) in WRITERS {
        if extension == "tra" || extension == "P.bin" {
            continue;
        }
        let name = format!("full.{extension}");
        symlink("/dev/full", at(&name)).unwrap();
        let output = run(folder.path(), &with_output(command, option, &name));
        assert_eq!(code(&output), Some(2), "{command} {extension}: {}", stderr(&output));
        let words = [name.as_str(), "No space left on device"];
        assert!(words.iter().all(|word| stderr(&output).contains(word)), "{command}: {}", stderr(&output));
        assert!(fs::metadata("/dev/full").unwrap().file_type().is_char_device());
        assert!(at(&name).is_symlink() && !at("full.policy.npy").exists());
        fs::remove_file(at(&name)).unwrap();
    }
    let solve = ["mdp", "solve", "grid.json", "--device", "cpu", "--out"];
    let solve = |out: &[&str]| [&solve[..], out].concat().iter().map(|&a| a.to_owned()).collect::<Vec<_>>();
    let solved = |out: &[&str]| {
        let arguments = solve(out);
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        succeeds(folder.path(), &arguments)
    };
    solved(&["whole.csv"]);
    let expected = fs::read(at("whole.csv")).unwrap();
    for format in ["csv", "npy", "json", "text"] {
        solved(&["/dev/null", "--to", format]);
    }
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    assert!(!Path::new("/dev/null.policy.npy").exists());
    assert!(stdout(&solved(&["/dev/stdout", "--to", "csv"])).starts_with(std::str::from_utf8(&expected).unwrap()));
    for format in ["prism", "petsc"] {
        let convert = ["mdp", "convert", "grid.json", "/dev/null", "--to", format];
        assert_eq!(code(&run(folder.path(), &convert)), Some(2), "{format}");
    }

    assert!(Command::new("mkfifo").arg(at("pipe.csv")).status().unwrap().success());
    let pipe = at("pipe.csv");
    let reader = thread::spawn(move || fs::read(pipe).unwrap());
    solved(&["pipe.csv"]);
    assert_eq!(reader.join().unwrap(), expected);
    assert!(fs::symlink_metadata(at("pipe.csv")).unwrap().file_type().is_fifo());

    fs::create_dir(at("there")).unwrap();
    symlink("there/target.csv", at("link.csv")).unwrap();
    for _ in 0..2 {
        solved(&["link.csv"]);
        assert!(at("link.csv").is_symlink() && fs::read(at("there/target.csv")).unwrap() == expected);
    }
    fs::write(at("private.csv"), "old").unwrap();
    fs::set_permissions(at("private.csv"), fs::Permissions::from_mode(0o600)).unwrap();
    solved(&["private.csv"]);
    assert_eq!(fs::metadata(at("private.csv")).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read(at("private.csv")).unwrap(), expected);
}

/// Runs as a user without write permission everywhere.
#[cfg(target_os = "linux")]
#[test]
fn files_without_write_permission_are_refused() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    use std::os::unix::process::CommandExt;
    let root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let mode = |name: &str, mode: u32| fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
    fs::create_dir(at("closed")).unwrap();
    fs::write(at("read-only.json"), "old").unwrap();
    fs::write(at("shared.json"), "old").unwrap();
    if root {
        chown(at("shared.json"), Some(0), Some(65_534)).unwrap();
    }
    mode("", 0o777);
    mode("closed", 0o555);
    mode("read-only.json", 0o444);
    mode("shared.json", 0o664);
    let generate = |out: &str| {
        let mut command = warpkov(folder.path(), &["mdp", "generate", "forest", "--out", out]);
        if root {
            command.uid(65_534).gid(65_534);
        }
        command.output()
    };
    let Ok(output) = generate("new.json") else {
        // The other user cannot reach the folder of the binary.
        assert!(root);
        return;
    };
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    for out in ["closed/new.json", "read-only.json"] {
        let output = generate(out).unwrap();
        assert_eq!(code(&output), Some(2), "{out}: {}", stderr(&output));
        assert!(stderr(&output).contains(out) && stderr(&output).contains("denied"), "{}", stderr(&output));
    }
    assert_eq!(fs::read(at("read-only.json")).unwrap(), b"old");
    // A writable file of another user keeps its owner.
    let before = fs::metadata(at("shared.json")).unwrap();
    let output = generate("shared.json").unwrap();
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    let after = fs::metadata(at("shared.json")).unwrap();
    assert_eq!((after.uid(), after.gid(), after.mode()), (before.uid(), before.gid(), before.mode()));
    assert_eq!(fs::read(at("shared.json")).unwrap(), fs::read(at("new.json")).unwrap());
    mode("closed", 0o755);
}

/// Messages escape control characters from file names and file contents.
#[cfg(unix)]
#[test]
fn errors_contain_no_control_characters() {
    let folder = folder();
    let evil = "\x1b]0;gone\x07\u{9b}2J\u{202e}\r";
    let long = "x".repeat(1 << 20);
    for (name, text) in [
        ("a.drn", format!("@type: {evil}\n")),
        ("b.drn", format!("@type: MDP\n@{evil}\n")),
        ("c.tra", format!("1 1 1\n0 0 {evil} 1\n")),
        ("d.txt", format!("{evil}\n")),
        ("e.xml", format!("<MDP><States><State id=\"{evil}\"/></States></MDP>")),
        ("e2.xml", format!("<{evil}>")),
        ("f.json", format!("{{\"S\": 1, \"A\": \"{evil}\"}}").replace(['\x1b', '\x07', '\r'], "\\u001b")),
        ("g.json", format!("{{\"S\": {evil}")),
        ("g2.json", format!("{{\"S\": \"{long}\"")),
        ("h.pomdp", format!("discount: {evil}\n")),
        ("h2.pomdp", format!("discount: 0.9\nvalues: reward\nstates: {evil}x\nactions: 1\nfoo {evil}\n")),
        ("i.pomdpx", format!("<pomdpx><Discount>{evil}</Discount></pomdpx>")),
        ("j.json", format!("{{\"pi\": \"{long}{evil}\"}}").replace(['\x1b', '\x07', '\r'], "\\u001b")),
        ("k.hmm", format!("M= {evil}\n")),
        ("l\x1b[2J\n.json", "{".to_owned()),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
        for class in ["mdp", "pomdp", "hmm"] {
            let output = run(folder.path(), &[class, "info", name]);
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(code(&output), Some(2), "{class} {name}: {text}");
            let obeyed = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
            assert!(!text.contains(obeyed), "{class} {name}: {text:?}");
            assert!(text.len() < 8192, "{class} {name}: {} bytes", text.len());
            // A message is one line. For a position in a text, the source line and a caret follow.
            assert!(text.lines().count() <= 3 && text.starts_with("error: "), "{class} {name}: {text}");
        }
    }
    let output = run(folder.path(), &["mdp", "info", "a.drn", "\x1b[2J"]);
    assert_eq!((code(&output), stderr(&output).contains('\x1b')), (Some(2), false), "{}", stderr(&output));
}

/// A decompression bomb does not fill the memory of a line reader; it ends with the reader's error.
#[test]
fn decompressed_input_is_not_held_in_memory() {
    let folder = folder();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let block = vec![b'0'; 1 << 20];
    (0..64).for_each(|_| encoder.write_all(&block).unwrap());
    fs::write(folder.path().join("bomb.drn.gz"), encoder.finish().unwrap()).unwrap();
    fails(folder.path(), &["mdp", "info", "bomb.drn.gz"], 2, &["bomb.drn.gz:1: a line of more than 16777216 bytes"]);
}

#[test]
fn completions_name_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(stdout(&succeeds(folder().path(), &["completions", shell])).contains("compare"), "{shell}");
    }
}

/// Each command has a page, whose sections are those of its help.
#[test]
fn manual_pages_are_those_of_the_commands() {
    let folder = folder();
    let printed = succeeds(folder.path(), &["man", "pages/man1"]);
    let pages = folder.path().join("pages/man1");
    let count = fs::read_dir(&pages).unwrap().count();
    assert!(count > 50 && stdout(&printed).contains(&format!(" {count} ")), "{}", stdout(&printed));
    for name in ["warpkov", "warpkov-hmm", "warpkov-mdp-solve", "warpkov-man"] {
        let page = fs::read_to_string(pages.join(name).with_extension("1")).unwrap();
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES"] {
            assert_eq!(page.matches(&format!("\n.SH {section}\n")).count(), 1, "{name}: {section} in\n{page}");
        }
    }
    fails(folder.path(), &["man", "pages/man1/warpkov.1"], 2, &["warpkov.1"]);

    succeeds(folder.path(), &["man", "--format", "markdown", "pages/markdown"]);
    let pages = folder.path().join("pages/markdown");
    assert_eq!(fs::read_dir(&pages).unwrap().count(), count);
    let page = fs::read_to_string(pages.join("warpkov-mdp-solve.md")).unwrap();
    for section in ["Usage", "Arguments", "Options", "Examples"] {
        assert_eq!(page.matches(&format!("\n## {section}\n")).count(), 1, "{section} in\n{page}");
    }
    assert!(page.starts_with("# warpkov mdp solve\n") && page.contains("\n- `--method <METHOD>`\n"), "{page}");
}

/// Killed at any time, a command leaves its output absent, unchanged or complete, never half written.
#[test]
fn killed_while_writing_leaves_no_half_file() {
    let folder = folder();
    let target = folder.path().join("grid.json");
    let grid = ["mdp", "generate", "grid", "--width", "192", "--height", "192", "--out", "grid.json"];
    succeeds(folder.path(), &grid);
    let complete = fs::read(&target).unwrap();
    for old in [None, Some(&b"an older file"[..])] {
        for delay in [0, 5, 10, 20, 40, 60, 80, 120, 160] {
            match old {
                Some(old) => fs::write(&target, old).unwrap(),
                None => drop(fs::remove_file(&target)),
            }
            let mut child = warpkov(folder.path(), &grid).spawn().unwrap();
            thread::sleep(Duration::from_millis(delay));
            child.kill().unwrap();
            child.wait().unwrap();
            let found = fs::read(&target).ok();
            let intact = found.as_deref() == old || found.as_ref() == Some(&complete);
            assert!(intact, "after {delay} ms: {:?} bytes", found.map(|found| found.len()));
        }
    }
}

/// The first Ctrl-C ends the solve after its round, with a report and the exit code of an interrupted process.
#[cfg(unix)]
#[test]
fn an_interrupted_solve_reports_its_current_solution() {
    let folder = folder();
    let size = ["--width", "160", "--height", "160"];
    succeeds(folder.path(), &[&["mdp", "generate", "grid"][..], &size, &["--out", "grid.json"]].concat());
    // With this small θ a round takes many sweeps, so the interrupt arrives during the run.
    let arguments = ["mdp", "solve", "grid.json", "--theta", "1e-300", "--max-sweeps", "1000", "--gamma", "0.9999"];
    let arguments =
        [&arguments[..], &["--device", "cpu", "--method", "serial", "--out", "solution.json", "--json"]].concat();
    let child = warpkov(folder.path(), &arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    thread::sleep(Duration::from_millis(1500));
    let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupt.success(), "the solve was over before the interrupt");
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), Some(130), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["status"], "interrupted");
    assert!(folder.path().join("solution.json").exists());
}

#[test]
fn malformed_models_have_exit_code_2() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/malformed");
    let expected = fs::read(folder.join("expected.json")).unwrap();
    let expected: std::collections::BTreeMap<String, String> = serde_json::from_slice(&expected).unwrap();
    for (file, message) in expected {
        let output = run(&folder, &["mdp", "solve", &file]);
        assert_eq!((code(&output), stdout(&output)), (Some(2), ""), "{file}");
        assert_eq!(stderr(&output), format!("error: {message}\n"));
    }
}

/// The source's correctness test, Table 5.3: all methods agree by its rule on G1 (64 × 64), the GPU methods on the
/// emulator, and the CPU methods agree on G2 (256 × 256).
#[test]
fn methods_agree_on_the_grids_of_the_source() {
    let folder = folder();
    for (side, methods) in [("64", &["parallel", "projected"][..]), ("256", &["parallel"])] {
        let grid = ["--width", side, "--height", side, "--out", "grid.safetensors"];
        succeeds(folder.path(), &[&["mdp", "generate", "grid"][..], &grid].concat());
        let solve = |method, out| {
            let device = if method == "projected" { "emulated" } else { "cpu" };
            let how = ["--method", method, "--device", device, "--out", out];
            succeeds(folder.path(), &[&["mdp", "solve", "grid.safetensors"][..], &how].concat())
        };
        solve("serial", "serial.json");
        for &method in methods {
            solve(method, "other.json");
            succeeds(folder.path(), &["mdp", "compare", "serial.json", "other.json"]);
        }
    }
}

/// The counters of every model class, as a drawing.
#[test]
fn emulated_kernels_are_drawn() {
    let folder = folder_with_inputs();
    for (command, expected) in [
        ("mdp solve grid.json --quiet", 0),
        ("pomdp solve tiger.pomdp --beliefs 10 --iterations 1 --quiet --out drawn.alpha", 1),
        ("hmm score model.json data.txt", 0),
        ("hmm train model.json data.txt --iterations 2 --out trained.json --quiet", 1),
    ] {
        let mut arguments: Vec<_> = command.split(' ').collect();
        arguments.extend(["--device", "emulated", "--trace", "kernels.svg"]);
        let output = run(folder.path(), &arguments);
        assert_eq!(code(&output), Some(expected), "{command}: {}", stderr(&output));
        let drawing = fs::read_to_string(folder.path().join("kernels.svg")).unwrap();
        assert!(drawing.starts_with("<svg ") && drawing.ends_with("</svg>\n"), "{command}");
        assert!(drawing.contains(" divergent branches") && drawing.contains("sectors per request"), "{command}");
        fs::remove_file(folder.path().join("kernels.svg")).unwrap();
    }
    let solve = |rest: &[&'static str]| [&["mdp", "solve", "grid.json"][..], rest].concat();
    fails(
        folder.path(),
        &solve(&["--device", "cpu", "--trace", "x.svg"]),
        2,
        &["--trace", "expected --device emulated"],
    );
    fails(folder.path(), &solve(&["--device", "emulated", "--trace", "x.png"]), 2, &["x.png", ".svg"]);
}

#[test]
fn the_use_of_gpus_is_written() {
    let folder = folder_with_inputs();
    let path = folder.path().join("use.json");
    for command in ["mdp solve grid.json --quiet", "hmm score model.json data.txt"] {
        let arguments: Vec<_> = command.split(' ').chain(["--device", "cpu", "--usage", "use.json"]).collect();
        succeeds(folder.path(), &arguments);
        let usage: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        // No GPU: no kernel, no memory, no energy.
        assert_eq!((&usage["kernels"], &usage["peak_bytes"], &usage["joules"]), (&json!([]), &json!(0), &Value::Null));
        assert_eq!(usage["program"], env!("CARGO_PKG_VERSION"));
        fs::remove_file(&path).unwrap();
    }
    fails(folder.path(), &["mdp", "solve", "grid.json", "--usage", "use.txt"], 2, &["use.txt", ".json"]);

    // In the JSON of the command, too.
    for command in ["mdp solve grid.json", "hmm score model.json data.txt", "pomdp solve tiger.pomdp"] {
        let arguments: Vec<_> =
            command.split(' ').chain(["--device", "cpu", "--json", "--usage", "use.json"]).collect();
        let report: Value = serde_json::from_slice(&succeeds(folder.path(), &arguments).stdout).unwrap();
        assert_eq!(report["usage"]["program"], env!("CARGO_PKG_VERSION"), "{command}");
        assert_eq!(report["usage"]["joules_per_1e9_backups"], Value::Null);
        let without: Value =
            serde_json::from_slice(&succeeds(folder.path(), &arguments[..arguments.len() - 2]).stdout).unwrap();
        assert!(
            without["usage"].is_null() && without.as_object().unwrap().len() + 1 == report.as_object().unwrap().len()
        );
    }
}

/// Kernels, price and energy in benchmarks.
#[test]
fn benchmarks_meter_what_they_run() {
    let folder = folder();
    let table = "bench mdp --suite table-6.1 --case GW-64x64x1 --method sequential --runs 1 --device cpu";
    let bench = |command: &str, rest: &[&str]| {
        let arguments: Vec<_> = command.split(' ').chain(rest.iter().copied()).collect();
        succeeds(folder.path(), &arguments)
    };
    let shown = bench(table, &["--kernels", "--price", "3.6"]);
    let text = stdout(&shown);
    assert!(text.contains("price/10⁹") && text.contains("no kernel ran on a GPU"), "{text}");
    assert!(text.contains(&format!(", by warpkov {}.", env!("CARGO_PKG_VERSION"))), "{text}");
    let rows: Value = serde_json::from_slice(&bench(table, &["--kernels", "--json"]).stdout).unwrap();
    let row = &rows["table"][0];
    assert_eq!((&row["used"]["kernels"], &row["used"]["program"]), (&json!([]), &env!("CARGO_PKG_VERSION").into()));
    assert_eq!(row["backups"].as_u64(), row["sweeps"].as_u64().map(|sweeps| sweeps * 4096));
    for command in [
        "bench hmm --case 4x3x5 --device emulated --runs 1 --operation forward",
        "bench pomdp --suite backups --device cpu --size 4 --runs 1",
        "bench pomdp --case tiger --device cpu --runs 1",
    ] {
        let rows: Value = serde_json::from_slice(&bench(command, &["--kernels", "--json"]).stdout).unwrap();
        assert_eq!(rows[0]["used"]["kernels"], json!([]), "{command}");
        let rows: Value = serde_json::from_slice(&bench(command, &["--json"]).stdout).unwrap();
        assert!(rows[0]["used"].is_null(), "{command}");
    }
    for (command, message) in [
        ("bench mdp --case G1 --device cpu --energy", "--energy needs a GPU"),
        ("bench mdp --suite scaling --energy", "--energy belongs to --suite slip-grids or table-6.1"),
        ("bench mdp --suite block-sizes --kernels", "--kernels belongs to"),
        ("bench mdp --suite scaling --price 1", "--price belongs to"),
        ("bench mdp --price 0", "--price"),
    ] {
        fails(folder.path(), &command.split(' ').collect::<Vec<_>>(), 2, &[message]);
    }
}

#[test]
fn models_larger_than_the_device_are_streamed_through_it() {
    let folder = folder();
    let grid = ["--width", "40", "--height", "40", "--out", "grid.safetensors"];
    succeeds(folder.path(), &[&["mdp", "generate", "grid"][..], &grid].concat());
    let solve = |storage, memory, rest: &[&'static str]| {
        let how = ["--device", "emulated", "--precision", "f64", "--epsilon", "1e-3"];
        let what = ["--storage", storage, "--device-memory", memory];
        [&["mdp", "solve", "grid.safetensors"][..], &how, &what, rest].concat()
    };
    // Two copies of V take 25,600 bytes.
    succeeds(folder.path(), &solve("slices", "1GiB", &["--out", "whole.json"]));
    for (storage, memory, bytes) in [("slices", "128KiB", 131_072), ("narrow", "64KiB", 65_536)] {
        let output = succeeds(folder.path(), &solve(storage, memory, &["--json", "--out", "parts.json"]));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let notes = report["notes"].to_string();
        assert!(notes.contains(&format!(" of {bytes} bytes free: streamed through in ")), "{notes}");
        assert_eq!(report["converged"], true);
        succeeds(folder.path(), &["mdp", "compare", "whole.json", "parts.json"]);
    }
    fails(
        folder.path(),
        &solve("slices", "25000", &[]),
        3,
        &["error: the model needs", "25000 bytes", "a smaller problem"],
    );
    fails(folder.path(), &solve("rows", "128KiB", &[]), 3, &["error: the model needs", "no option storage"]);
    // Policies are improved on the host; in f64, P^π takes at most 1600 · 5 · 12 bytes.
    let by = |method, memory, rest: &[&'static str]| {
        let how = ["--device", "emulated", "--precision", "f64", "--theta", "1e-9", "--device-memory", memory];
        [&["mdp", "solve", "grid.safetensors", "--method", method][..], &how, rest].concat()
    };
    for method in ["projected", "modified", "krylov"] {
        let output = succeeds(folder.path(), &by(method, "320KiB", &["--json", "--out", "host.json"]));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let notes = report["notes"].to_string();
        assert!(notes.contains("policies are improved on") && report["converged"] == true, "{notes}");
        succeeds(folder.path(), &by(method, "1GiB", &["--quiet", "--out", "device.json"]));
        succeeds(folder.path(), &["mdp", "compare", "device.json", "host.json"]);
        fails(folder.path(), &by(method, "64KiB", &[]), 3, &["error: the model needs", "method values, which streams"]);
    }
    for method in ["plain", "result-divided", "block-divided"] {
        fails(folder.path(), &by(method, "320KiB", &[]), 3, &["method values, which streams the model"]);
    }
    fails(folder.path(), &solve("slices", "1e3GB", &[]), 2, &["KiB"]);
}

#[test]
fn overflowing_values_are_not_a_solution() {
    let folder = folder();
    let model = LISTING_A1.replace(&["1"; 16].join(","), &["1e300"; 16].join(","));
    let solve = |precision| {
        let arguments = ["mdp", "solve", "-", "--method", "parallel", "--theta", "1e-5", "--precision", precision];
        run_with(folder.path(), &arguments, model.as_bytes())
    };
    assert_eq!(code(&solve("f64")), Some(0));
    let output = solve("f32");
    assert_eq!(code(&output), Some(1));
    assert!(stdout(&output).contains("the values overflow f32"), "{}", stdout(&output));
}
