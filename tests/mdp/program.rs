//! The `warpkov` binary, run as users and scripts run it: help, exit codes, new crates, devices and benchmarks.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use warpkov::runtime::gpu::Gpu;

use crate::common::{
    code, fails, folder, folder_with_grid, folder_with_inputs, run, stderr, stdout, succeeds, warpkov,
};

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
