//! The process at its limits: the first Ctrl-C ends every method soon, with what it has found; a lack of memory ends it with a message.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Far more than a stop takes, far less than the runs below.
const SOON: Duration = Duration::from_secs(10);

fn warpkov(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpkov"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Whether the process has a handler for SIGINT.
fn listens(child: &Child) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(caught.trim(), 16).unwrap() & 2 != 0
}

/// Starts a command, interrupts it when it has been at work for a while, and returns what it printed.
fn interrupted(arguments: &[&str]) -> Output {
    let mut child = warpkov(arguments).spawn().unwrap();
    let begun = Instant::now();
    while !listens(&child) {
        assert!(child.try_wait().unwrap().is_none(), "{arguments:?} ended early");
        assert!(begun.elapsed() < 6 * SOON, "{arguments:?} never listens");
        sleep(Duration::from_millis(10));
    }
    sleep(Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none(), "{arguments:?} is too short to be interrupted");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let asked = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if asked.elapsed() > SOON {
            child.kill().unwrap();
            panic!("{arguments:?} goes on");
        }
        sleep(Duration::from_millis(10));
    }
    child.wait_with_output().unwrap()
}

/// A grid whose sweeps converge too slowly for any test.
fn slow_grid(folder: &Path, side: &str) -> String {
    let path = folder.join("grid.safetensors").display().to_string();
    let arguments =
        ["mdp", "generate", "grid", "--width", side, "--height", side, "--gamma", "0.9999999", "--out", &path];
    assert!(warpkov(&arguments).output().unwrap().status.success());
    path
}

fn ends_soon(side: &str, options: &[&[&str]]) {
    let folder = tempfile::tempdir().unwrap();
    let model = slow_grid(folder.path(), side);
    // A pipe that nobody reads before the end would not hold the values.
    let solution = folder.path().join("solution.npy").display().to_string();
    for options in options {
        let arguments =
            [&["mdp", "solve", &model, "--theta", "1e-300", "--json", "--out", &solution], *options].concat();
        let output = interrupted(&arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(130), "{options:?}: {errors}");
        assert!(errors.contains("Ctrl-C again"), "{options:?}: {errors}");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["status"], "interrupted", "{options:?}");
    }
}

#[test]
fn methods_on_the_cpu_stop() {
    let methods = ["serial", "parallel", "values", "gauss-seidel", "modified", "sequential"];
    let options = methods.map(|method| ["--device", "cpu", "--precision", "f64", "--method", method]);
    ends_soon("96", &options.each_ref().map(|options| &options[..]));
}

#[test]
fn methods_on_devices_stop() {
    let methods = ["plain", "projected", "values", "modified", "result-divided", "block-divided"];
    let options = methods.map(|method| ["--device", "emulated", "--precision", "f64", "--method", method]);
    ends_soon("24", &options.each_ref().map(|options| &options[..]));
}

/// An E step is left off in the midst: the model is that of the last M step.
#[test]
fn training_stops() {
    let folder = tempfile::tempdir().unwrap();
    let target = |name: &str| folder.path().join(name).display().to_string();
    let [chain, symbols, trained] = ["chain.json", "symbols.txt", "trained.json"].map(target);
    for arguments in [
        &["hmm", "generate", "random", "--states", "64", "--symbols", "16", "--out", &chain][..],
        &["hmm", "sample", &chain, "--sequences", "1", "--length", "400000", "--out", &symbols],
    ] {
        assert!(warpkov(arguments).output().unwrap().status.success());
    }
    let arguments = ["hmm", "train", &chain, &symbols, "--device", "cpu", "--tolerance", "0", "--restarts", "8"];
    let output = interrupted(&[&arguments[..], &["--iterations", "100000", "--out", &trained]].concat());
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Runs under a limit of `kilobytes` of address space.
fn limited(kilobytes: u32, arguments: &[&str]) -> Output {
    let script = format!("ulimit -v {kilobytes}; exec \"$@\"");
    let arguments = [&["-c", &script, "sh", env!("CARGO_BIN_EXE_warpkov")], arguments].concat();
    Command::new("sh").args(arguments).env("RAYON_NUM_THREADS", "2").output().unwrap()
}

#[test]
fn a_lack_of_memory_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let target = |name: &str| folder.path().join(name).display().to_string();
    let garnet = target("garnet.safetensors");
    let out_of_memory = |arguments: &[&str]| {
        let output = limited(400_000, arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{arguments:?}: {errors}");
        let said = errors.starts_with("error: ") && errors.to_lowercase().contains("memory");
        assert!(said && errors.lines().count() == 1, "{arguments:?}: {errors}");
    };
    out_of_memory(&["mdp", "generate", "garnet", "--states", "3000000", "--out", &garnet]);
    assert!(!Path::new(&garnet).exists());
    let dna = target("long.fasta");
    fs::write(&dna, [&b">long\n"[..], &b"ACGT".repeat(40_000_000), b"\n"].concat()).unwrap();
    let chain = target("chain.json");
    let generate = ["hmm", "generate", "random", "--states", "64", "--symbols", "4", "--out", &chain];
    assert!(warpkov(&generate).output().unwrap().status.success());
    out_of_memory(&["hmm", "posterior", &chain, &dna, "--device", "cpu", "--out", &target("posterior.npy")]);
}
