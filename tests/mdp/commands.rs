//! `warpkov mdp`, run as users and scripts run it: generating, solving, comparing and describing.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::{
    LISTING_A1, code, fails, folder, folder_with_grid, run, run_with, stderr, stdout, succeeds, warpkov,
};

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
