//! The process at its limits: the first Ctrl-C ends every method quickly, with its results so far; a lack of memory or
//! disk space ends it with a message.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Much longer than a stop takes, and much shorter than the runs below.
const SOON: Duration = Duration::from_secs(10);

/// The program, for which SIGHUP ends the run, also where `nohup` runs these tests.
fn warpkov(arguments: &[&str]) -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP", env!("CARGO_BIN_EXE_warpkov")]);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

const SIGINT: u32 = 2;

/// A run has a handler of SIGTERM; the program has one of SIGINT from its start.
const SIGTERM: u32 = 15;

/// Whether a process has a handler of a signal.
fn handles(process: u32, signal: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(caught.trim(), 16).unwrap() >> (signal - 1) & 1 == 1
}

/// Starts a command, interrupts it after a while, and returns its output.
fn interrupted(arguments: &[&str]) -> Output {
    stopped("INT", 300, arguments)
}

/// Starts a command, sends it a signal some milliseconds after it listens, and returns its output.
fn stopped(signal: &str, after: u64, arguments: &[&str]) -> Output {
    let mut child = warpkov(arguments).spawn().unwrap();
    let begun = Instant::now();
    while !handles(child.id(), SIGTERM) {
        assert!(child.try_wait().unwrap().is_none(), "{arguments:?} ended early");
        assert!(begun.elapsed() < 6 * SOON, "{arguments:?} never listens");
        sleep(Duration::from_millis(10));
    }
    sleep(Duration::from_millis(after));
    assert!(child.try_wait().unwrap().is_none(), "{arguments:?} is too short to be interrupted");
    assert!(Command::new("kill").args([format!("-{signal}"), child.id().to_string()]).status().unwrap().success());
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

/// Writes a grid on which sweeps converge too slowly for any test to wait.
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
    // A pipe that nothing reads before the end cannot hold the values.
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

#[test]
fn many_models_stop() {
    let folder = tempfile::tempdir().unwrap();
    // The largest that one block solves; on the CPU, krylov is done before.
    let grid = slow_grid(folder.path(), "90");
    let solution = folder.path().join("solution.csv").display().to_string();
    let solve = ["mdp", "solve-many", &grid, &grid, "--device", "emulated", "--json", "--out", &solution];
    let output = interrupted(&solve);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{errors}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for model in report["models"].as_array().unwrap() {
        assert_eq!(model["status"], "interrupted");
        assert!(model["bound"].as_f64().unwrap() > 1e-6, "{}", model["bound"]);
    }
}

/// A launch on the emulator takes too long to wait for: it is abandoned.
#[test]
fn emulated_launches_stop() {
    let folder = tempfile::tempdir().unwrap();
    let target = |name: &str| folder.path().join(name).display().to_string();
    let [hallway, policy] = ["hallway2.pomdp", "hallway2.policy"].map(target);
    assert!(warpkov(&["pomdp", "generate", "hallway2", "--out", &hallway]).output().unwrap().status.success());
    let solve = ["pomdp", "solve", &hallway, "--device", "emulated", "--json", "--beliefs", "20000", "--out", &policy];
    for options in [&[][..], &["--backups", "full"], &["--expansion", "hsvi", "--trials", "400"]] {
        let output = interrupted(&[&solve, options].concat());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(130), "{options:?}: {errors}");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["stopped_by"], "interrupted", "{options:?}");
        let [lower, upper] = ["lower", "upper"].map(|bound| report[bound].as_f64().unwrap());
        assert!(lower <= upper, "{options:?}: {lower} {upper}");
        // The result is a policy that attains its reported value.
        let bound = warpkov(&["pomdp", "bound", &hallway, "--policy", &policy, "--json"]).output().unwrap();
        let bound: serde_json::Value = serde_json::from_slice(&bound.stdout).unwrap();
        assert!(bound["certified"].as_f64().unwrap() >= lower - 1e-9, "{options:?}: {bound} {lower}");
    }
    let limited = warpkov(&[&solve[..], &["--time", "1"]].concat()).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&limited.stdout).unwrap();
    assert_eq!((limited.status.code(), &report["stopped_by"]), (Some(1), &"time".into()));
    // A round of billions of trials ends, too.
    let many = ["pomdp", "solve", &hallway, "--device", "cpu", "--trials", "4294967295", "--time", "0.5", "--json"];
    let limited = warpkov(&many).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&limited.stdout).unwrap();
    assert_eq!((limited.status.code(), &report["stopped_by"]), (Some(1), &"time".into()));

    let grid = slow_grid(folder.path(), "700");
    let output = interrupted(&["mdp", "solve", &grid, "--device", "emulated", "--method", "plain", "--json"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{errors}");
    assert!(errors.contains("interrupted before there was a result"), "{errors}");
}

/// Paths of a random model, of one sequence sampled from it, and of the trained model.
fn to_be_trained(folder: &Path, states: &str, symbols: &str, length: &str) -> [String; 3] {
    let target = |name: &str| folder.join(name).display().to_string();
    let [chain, sequence, trained] = ["chain.json", "symbols.txt", "trained.json"].map(target);
    for arguments in [
        &["hmm", "generate", "random", "--states", states, "--symbols", symbols, "--out", &chain][..],
        &["hmm", "sample", &chain, "--sequences", "1", "--length", length, "--out", &sequence],
    ] {
        assert!(warpkov(arguments).output().unwrap().status.success());
    }
    [chain, sequence, trained]
}

/// An interrupted E step is discarded: the result is the model of the last M step.
#[test]
fn training_stops() {
    let folder = tempfile::tempdir().unwrap();
    let [chain, symbols, trained] = to_be_trained(folder.path(), "64", "16", "400000");
    let arguments = ["hmm", "train", &chain, &symbols, "--device", "cpu", "--tolerance", "0", "--restarts", "8"];
    let output = interrupted(&[&arguments[..], &["--iterations", "100000", "--out", &trained]].concat());
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Variational Bayes that is interrupted writes its posterior and the model of its means.
#[test]
fn variational_bayes_stops() {
    let folder = tempfile::tempdir().unwrap();
    let [chain, symbols, trained] = to_be_trained(folder.path(), "8", "8", "20000");
    let posterior = folder.path().join("posterior.json").display().to_string();
    let arguments = ["hmm", "train", &chain, &symbols, "--by", "variational", "--device", "cpu", "--tolerance", "0"];
    let files = ["--iterations", "100000", "--out", &trained, "--posterior", &posterior, "--json"];
    let output = interrupted(&[&arguments[..], &files].concat());
    let stopped = report(130, &output);
    assert_eq!(stopped["status"], "interrupted");
    assert!(Path::new(&trained).exists() && Path::new(&posterior).exists());
}

/// Stochastic EM that is interrupted writes the model of its last batch.
#[test]
fn stochastic_em_stops() {
    let folder = tempfile::tempdir().unwrap();
    let [chain, symbols, trained] = to_be_trained(folder.path(), "8", "8", "2000");
    let arguments = ["hmm", "train", &chain, &symbols, "--by", "stochastic", "--device", "cpu", "--tolerance", "0"];
    let output = interrupted(&[&arguments[..], &["--iterations", "10000000", "--out", &trained, "--json"]].concat());
    let stopped = report(130, &output);
    assert_eq!(stopped["status"], "interrupted");
    assert!(Path::new(&trained).exists() && stopped["batches"].as_u64() >= Some(1), "{stopped}");
}

/// On a device an E step is one kernel, which cannot be stopped: the process ends without waiting for it.
#[test]
fn training_on_a_device_stops() {
    let folder = tempfile::tempdir().unwrap();
    let [chain, symbols, trained] = to_be_trained(folder.path(), "8", "4", "1000000");
    let arguments = ["hmm", "train", &chain, &symbols, "--device", "emulated", "--scan", "never", "--out", &trained];
    let output = interrupted(&arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{errors}");
    assert!(errors.contains("Ctrl-C again") && !Path::new(&trained).exists(), "{errors}");
}

/// The JSON report of a command, which ends with this exit code.
fn report(code: i32, output: &Output) -> serde_json::Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"))
}

/// SIGTERM, SIGHUP and Ctrl-C write a checkpoint, from which a solve goes on to the values of one that was not stopped.
#[test]
fn signals_write_checkpoints_of_models() {
    let folder = tempfile::tempdir().unwrap();
    let target = |name: &str| folder.path().join(name).display().to_string();
    let [grid, checkpoint, coin] = ["grid.safetensors", "checkpoint", "coin.safetensors"].map(target);
    // The values do not fit a pipe that nothing reads before the end.
    let [out, other, small] = ["out.npy", "other.npy", "small.safetensors"].map(target);
    let generate = ["mdp", "generate", "grid", "--width", "300", "--height", "300", "--gamma", "0.999", "--out", &grid];
    assert!(warpkov(&generate).output().unwrap().status.success());
    let generate = ["mdp", "generate", "consensus", "--processes", "4", "--bound", "4", "--out", &coin];
    assert!(warpkov(&generate).output().unwrap().status.success());
    let generate = ["mdp", "generate", "grid", "--width", "60", "--height", "60", "--gamma", "0.999", "--out", &small];
    assert!(warpkov(&generate).output().unwrap().status.success());
    let sweeps = |model| ["mdp", "solve", model, "--json", "--method", "values", "--precision", "f64", "--no-skip"];
    let (values, emulated) = (sweeps(&grid), sweeps(&small));
    let total = ["mdp", "solve", &coin, "--json", "--criterion", "total", "--goal", "finished", "--epsilon", "1e-6"];
    let horizon = ["mdp", "solve", &small, "--json", "--horizon", "20000"];
    for (signal, device, after, solve) in [
        ("TERM", "cpu", 300, &values[..]),
        ("HUP", "emulated", 200, &emulated),
        ("HUP", "cpu", 100, &total),
        ("INT", "cpu", 100, &horizon),
    ] {
        let _ = fs::remove_file(&checkpoint);
        let solve = [solve, &["--device", device]].concat();
        // The same command first and afterwards, or another.
        let first: &[&str] = if signal == "HUP" { &["--auto-resume"] } else { &[] };
        let again = if signal == "HUP" { first } else { &["--resume", &checkpoint] };
        let solve = [&solve[..], &["--out", &out, "--checkpoint", &checkpoint]].concat();
        let stopped = report(130, &stopped(signal, after, &[&solve[..], first].concat()));
        assert_eq!(stopped["status"], "interrupted", "{solve:?}");
        let resume = [&solve[..], again].concat();
        let resumed = report(0, &warpkov(&resume).output().unwrap());
        assert!(resumed["sweeps"].as_u64() > stopped["sweeps"].as_u64(), "{solve:?}");
        assert!(resumed["compute_seconds"].as_f64() > stopped["compute_seconds"].as_f64(), "{solve:?}");
        if solve.starts_with(&values) && device == "cpu" {
            let whole =
                report(0, &warpkov(&[&values[..], &["--device", device, "--out", &other]].concat()).output().unwrap());
            assert!(fs::read(&out).unwrap() == fs::read(&other).unwrap());
            assert_eq!(resumed["sweeps"], whole["sweeps"]);
        }
    }
    // Another model, and no file.
    let another = warpkov(&["mdp", "solve", &coin, "--gamma", "0.9", "--resume", &checkpoint]).output().unwrap();
    let errors = String::from_utf8_lossy(&another.stderr);
    assert!(another.status.code() == Some(2) && errors.contains("another model"), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    let none = warpkov(&["mdp", "solve", &grid, "--resume", &target("none")]).output().unwrap();
    let errors = String::from_utf8_lossy(&none.stderr);
    assert!(none.status.code() == Some(2) && errors.contains("cannot read"), "{errors}");
    let nowhere = warpkov(&["mdp", "solve", &grid, "--checkpoint", &target("none/checkpoint")]).output().unwrap();
    let errors = String::from_utf8_lossy(&nowhere.stderr);
    assert!(nowhere.status.code() == Some(2) && errors.contains("there is no folder"), "{errors}");
}

/// Waits until `holds`, or panics after a minute.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let asked = Instant::now();
    while !holds() {
        assert!(asked.elapsed() < SOON, "waited for {what}");
        sleep(Duration::from_millis(10));
    }
}

/// SIGUSR1 writes a checkpoint, and the run goes on. Under `nohup`, SIGHUP changes nothing.
#[test]
fn a_checkpoint_is_written_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let grid = slow_grid(folder.path(), "1000");
    for command in [
        "pomdp generate hallway --out hallway.json",
        "hmm generate random --states 40 --symbols 9 --out start.json",
        "hmm sample start.json --sequences 300 --length 60 --out data.txt",
    ] {
        let arguments: Vec<_> = command.split(' ').collect();
        assert!(warpkov(&arguments).current_dir(&folder).output().unwrap().status.success(), "{command}");
    }
    let solve = format!("mdp solve {grid} --device cpu --method values --epsilon 1e-9");
    for run in [
        solve.as_str(),
        "pomdp solve hallway.json --device cpu --gap 1e-9 --time 600",
        "hmm train start.json data.txt --device cpu --iterations 1000000 --tolerance 0",
    ] {
        writes_checkpoints_on_request(folder.path(), run);
    }
}

fn writes_checkpoints_on_request(folder: &Path, run: &str) {
    let checkpoint = folder.join("checkpoint");
    let script = "trap '' HUP; exec \"$@\"";
    let mut child = Command::new("sh")
        .args(["-c", script, "sh", env!("CARGO_BIN_EXE_warpkov")])
        .args(run.split(' '))
        .arg("--checkpoint")
        .arg(&checkpoint)
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let id = child.id();
    let send = |signal: &str| {
        assert!(Command::new("kill").args([signal, &id.to_string()]).status().unwrap().success());
    };
    until("a run", || handles(id, SIGTERM));
    for _ in 0..2 {
        send("-HUP");
        send("-USR1");
        until(run, || checkpoint.exists());
        assert!(child.try_wait().unwrap().is_none(), "the run goes on: {run}");
        fs::remove_file(&checkpoint).unwrap();
    }
    send("-TERM");
    until("the end", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(130), "{run}");
    assert!(checkpoint.exists(), "{run}");
    fs::remove_file(&checkpoint).unwrap();
}

/// Ctrl-C while a model is read ends the command with a message. So does a file that is cut while it is mapped.
#[test]
fn reading_is_interrupted_with_a_message() {
    let folder = tempfile::tempdir().unwrap();
    let start = |arguments: &[&str]| {
        let mut command = warpkov(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut child = start(&["mdp", "info", "-"]);
    until("a handler", || handles(child.id(), SIGINT));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    until("the end", || child.try_wait().unwrap().is_some());
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(130) && errors.contains("interrupted"), "{errors}");

    // A file, too, which takes a second to read.
    let path = folder.path().join("large.csv");
    let lines = (0..2_000_000).map(|state| format!("{state},go,{state},1,0\n"));
    fs::write(&path, "state,action,next,probability,reward\n".to_owned() + &lines.collect::<String>()).unwrap();
    let mut child = start(&["mdp", "info", &path.display().to_string()]);
    until("a handler", || handles(child.id(), SIGINT));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    until("the end", || child.try_wait().unwrap().is_some());
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(130) && errors.contains("interrupted"), "{errors}");

    // Several threads may read the file at once.
    let grid = slow_grid(folder.path(), "300");
    let (whole, cut) = (fs::read(&grid).unwrap(), folder.path().join("cut.safetensors").display().to_string());
    for method in ["sequential", "values", "values", "gauss-seidel", "gauss-seidel", "parallel", "parallel"] {
        fs::write(&cut, &whole).unwrap();
        let mut child = start(&["mdp", "solve", &cut, "--device", "cpu", "--method", method]);
        until("a run", || handles(child.id(), SIGTERM) || child.try_wait().unwrap().is_some());
        fs::File::options().write(true).open(&cut).unwrap().set_len(4096).unwrap();
        // A solver that has copied the model reads the file again when it ends.
        let (cut_at, mut asked) = (Instant::now(), false);
        until("the end", || {
            if !asked && cut_at.elapsed() > Duration::from_secs(2) {
                asked = true;
                assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
            }
            child.try_wait().unwrap().is_some()
        });
        let output = child.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{method}: {:?} {errors}", output.status);
        assert_eq!(errors.matches("truncated").count(), 1, "{method}: {errors}");
    }

    let endless = warpkov(&["mdp", "info", "/dev/zero", "--format", "umb"]).output().unwrap();
    let errors = String::from_utf8_lossy(&endless.stderr);
    assert!(endless.status.code() == Some(2) && errors.contains("it is empty"), "{errors}");
}

/// A checkpoint that cannot be written leaves the one before it, and the solve goes on; its exit code says so.
#[test]
fn a_failed_checkpoint_leaves_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let target = |name: &str| folder.path().join(name).display().to_string();
    let [grid, checkpoint] = ["grid.safetensors", "checkpoint"].map(target);
    let generate = ["mdp", "generate", "grid", "--width", "100", "--height", "100", "--gamma", "0.999", "--out", &grid];
    assert!(warpkov(&generate).output().unwrap().status.success());
    let solve = ["mdp", "solve", &grid, "--json", "--method", "values", "--device", "cpu", "--checkpoint", &checkpoint];
    report(0, &warpkov(&solve).output().unwrap());
    let before = fs::read(&checkpoint).unwrap();
    let script = "ulimit -f 8; exec \"$@\"";
    let often =
        [&["-c", script, "sh", env!("CARGO_BIN_EXE_warpkov")], &solve[..], &["--checkpoint-every", "0.001"]].concat();
    let output = Command::new("sh").args(often).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(report(2, &output)["status"], "solved", "{errors}");
    assert!(errors.contains("the run goes on") && errors.contains("error: cannot write"), "{errors}");
    assert!(fs::read(&checkpoint).unwrap() == before);
}

/// Training that is stopped goes on to the bits of one that was not.
#[test]
fn signals_write_checkpoints_of_training() {
    let folder = tempfile::tempdir().unwrap();
    let target = |name: &str| folder.path().join(name).display().to_string();
    let checkpoint = target("checkpoint");
    let [chain, symbols, _] = to_be_trained(folder.path(), "24", "16", "7000");
    let [whole, resumed] = ["whole.json", "resumed.json"].map(target);
    let train = ["hmm", "train", &chain, &symbols, "--device", "cpu", "--tolerance", "0", "--restarts", "2"];
    let train = [&train[..], &["--iterations", "120", "--json", "--out"]].concat();
    let output = stopped(
        "TERM",
        300,
        &[&train[..], &[&target("stopped.json"), "--checkpoint", &checkpoint, "--auto-resume"]].concat(),
    );
    let before = report(130, &output);
    let after = report(1, &warpkov(&[&train[..], &[&resumed, "--resume", &checkpoint]].concat()).output().unwrap());
    let expected = report(1, &warpkov(&[&train[..], &[&whole]].concat()).output().unwrap());
    assert!(before["iterations"].as_u64() < Some(120), "{before}");
    assert_eq!(after["iterations"], expected["iterations"]);
    assert_eq!(after["log_likelihoods"], expected["log_likelihoods"]);
    assert_eq!(fs::read(&resumed).unwrap(), fs::read(&whole).unwrap());
    let other = [&train[..], &[&resumed, "--resume", &checkpoint, "--pseudocount", "1"]].concat();
    let errors = warpkov(&other).output().unwrap();
    let errors = String::from_utf8_lossy(&errors.stderr);
    assert!(errors.contains("pseudocounts"), "{errors}");
    let again = [&train[..], &[&resumed, "--checkpoint", &checkpoint, "--auto-resume"]].concat();
    let again = report(1, &warpkov(&again).output().unwrap());
    assert_eq!(again["log_likelihoods"], expected["log_likelihoods"]);
    let conflict = warpkov(&[&train[..], &[&resumed, "--auto-resume"]].concat()).output().unwrap();
    assert_eq!(conflict.status.code(), Some(2), "--auto-resume needs --checkpoint");
}

/// A search goes on from its checkpoint with at least its bounds, also on another device.
#[test]
fn signals_write_checkpoints_of_searches() {
    let folder = tempfile::tempdir().unwrap();
    let target = |name: &str| folder.path().join(name).display().to_string();
    let [hallway, checkpoint, policy] = ["hallway.json", "checkpoint", "hallway.alpha"].map(target);
    assert!(warpkov(&["pomdp", "generate", "hallway", "--out", &hallway]).output().unwrap().status.success());
    let solve = ["pomdp", "solve", &hallway, "--gap", "1e-6", "--json", "--quiet", "--out", &policy];
    let mut last = (f64::NEG_INFINITY, f64::INFINITY, 0);
    for (signal, options) in [
        ("HUP", &["--device", "cpu"][..]),
        ("TERM", &["--device", "cpu", "--backups", "full"]),
        ("TERM", &["--device", "emulated", "--beliefs", "16"]),
        ("TERM", &["--device", "cpu"]),
    ] {
        let arguments = [&solve[..], options, &["--checkpoint", &checkpoint, "--auto-resume"]].concat();
        let found = report(130, &stopped(signal, 1000, &arguments));
        let [lower, upper] = ["lower", "upper"].map(|bound| found[bound].as_f64().unwrap());
        let iterations = found["iterations"].as_u64().unwrap();
        assert!(
            lower >= last.0 - 1e-3 && upper <= last.1 + 1e-3 && lower <= upper,
            "{options:?}: {found} after {last:?}"
        );
        assert!(iterations >= last.2, "{options:?}: {iterations} after {last:?}");
        last = (lower, upper, iterations);
    }
    let horizon = ["pomdp", "solve", &hallway, "--horizon", "3", "--checkpoint", &checkpoint];
    let errors = warpkov(&horizon).output().unwrap();
    assert_eq!(errors.status.code(), Some(2));
}

/// Runs commands with a file system of this size mounted at `disk`, and returns their output; `None` if this process
/// may not mount file systems.
fn on_small_disk(disk: &Path, size: &str, arguments: &[&str]) -> Option<Output> {
    let script = "mount -t tmpfs -o size=$1 none \"$2\" || exit 99; disk=$2; shift 2; echo old > \"$disk/old.json\"; \
                  \"$@\"; code=$?; echo \"left: $(ls -A \"$disk\") $(cat \"$disk/old.json\")\" >&2; exit $code";
    let disk = disk.display().to_string();
    let start = ["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", size, &disk];
    let output = Command::new("unshare").args(start).args(arguments).stdin(Stdio::null()).output();
    match output {
        Ok(output) if String::from_utf8_lossy(&output.stderr).contains("left: ") => Some(output),
        Ok(output) => {
            eprintln!("skipped: no small disk here: {}", String::from_utf8_lossy(&output.stderr));
            None
        }
        Err(error) => {
            eprintln!("skipped: no unshare here: {error}");
            None
        }
    }
}

/// The memory of a process stays within --memory.
#[test]
fn memory_is_limited() {
    let folder = tempfile::tempdir().unwrap();
    let hallway = folder.path().join("hallway.json").display().to_string();
    let generated = warpkov(&["pomdp", "generate", "hallway2", "--out", &hallway]).output().unwrap();
    assert!(generated.status.success());
    let checkpoint = folder.path().join("checkpoint").display().to_string();
    let peak = |limit: u32, more: &[&str]| {
        let memory = format!("{limit}MiB");
        let solve = ["pomdp", "solve", &hallway, "--device", "cpu", "--time", "6", "--memory", &memory];
        let (mut child, mut peak) = (warpkov(&[&solve, more].concat()).spawn().unwrap(), 0);
        while child.try_wait().unwrap().is_none() {
            // Empty when the process has ended.
            let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
            let found = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.strip_suffix("kB"));
            peak = found.map_or(peak, |kib| kib.trim().parse().unwrap());
            sleep(Duration::from_millis(20));
        }
        f64::from(peak) / 1024.0
    };
    let [small, large] = [48, 2048].map(|limit| peak(limit, &[]));
    assert!(small > 30.0 && small < 48.0, "{small} MiB");
    let policy = folder.path().join("policy.alpha").display().to_string();
    for more in [
        &["--expansion", "hsvi", "--out", &policy][..],
        &["--checkpoint", &checkpoint, "--checkpoint-every", "1", "--out", &policy],
    ] {
        let peak = peak(64, more);
        assert!(peak > 30.0 && peak < 64.0, "{peak} MiB: {more:?}");
    }
    assert!(large > 1.3 * small, "{large} MiB with ample memory");
}

/// Every command with large output reports the needed and the free space of a full disk, and leaves existing files
/// unchanged.
#[test]
fn a_full_disk_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let target = |name: &str| folder.path().join(name).display().to_string();
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let on_disk = |name: &str| disk.join(name).display().to_string();
    if on_small_disk(&disk, "1m", &["true"]).is_none() {
        return;
    }
    let [garnet, chain, symbols, large, few] =
        ["garnet.npz", "chain.json", "symbols.txt", "large.json", "few.txt"].map(target);
    for arguments in [
        &["mdp", "generate", "garnet", "--states", "100000", "--actions", "1", "--branching", "1", "--out", &garnet][..],
        &["hmm", "generate", "random", "--states", "8", "--symbols", "4", "--out", &chain],
        &["hmm", "sample", &chain, "--length", "600000", "--out", &symbols],
        &["hmm", "generate", "random", "--states", "300", "--symbols", "4", "--out", &large],
        &["hmm", "sample", &large, "--length", "20", "--out", &few],
    ] {
        assert!(warpkov(arguments).output().unwrap().status.success());
    }
    let refused = |size: &str, arguments: &[&str]| {
        let arguments = [&[env!("CARGO_BIN_EXE_warpkov")], arguments].concat();
        let output = on_small_disk(&disk, size, &arguments).unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
        let error = errors.lines().find(|line| line.starts_with("error: ")).unwrap();
        let named = error.contains(&format!("cannot write {}", disk.display()));
        assert!(named && error.contains("needs at least") && error.ends_with(" free"), "{arguments:?}: {errors}");
        assert!(errors.ends_with("left: old.json old\n"), "{arguments:?}: {errors}");
    };
    for name in ["old.json", "x.npz", "x.safetensors", "x.tra", "x.drn", "x.xml", "x.umb", "x.P.bin"] {
        refused("1m", &["mdp", "convert", &garnet, &on_disk(name)]);
    }
    let generate = ["mdp", "generate", "garnet", "--states", "30000", "--out"];
    refused("1m", &[&generate[..], &[&on_disk("old.json")]].concat());
    let solve = ["mdp", "solve", &garnet, "--gamma", "0.5", "--quiet", "--out"];
    for name in ["old.json", "x.csv", "x.npy", "x.txt"] {
        refused("300k", &[&solve[..], &[&on_disk(name)]].concat());
    }
    let steps = ["mdp", "solve", &garnet, "--horizon", "9", "--quiet", "--all-steps"];
    refused("1m", &[&steps[..], &[&on_disk("x.npy")]].concat());
    for (command, names) in
        [("posterior", ["x.csv", "x.npy"]), ("decode", ["x.csv", "x.npy"]), ("decode", ["x.bed", "x.txt"])]
    {
        for name in names {
            refused("1m", &["hmm", command, &chain, &symbols, "--device", "cpu", "--out", &on_disk(name)]);
        }
    }
    refused("1m", &["hmm", "sample", &chain, "--length", "600000", "--out", &on_disk("x.csv")]);
    refused(
        "1m",
        &[
            "hmm",
            "sample",
            &chain,
            "--length",
            "600000",
            "--states",
            &on_disk("x.npy"),
            "--out",
            "/dev/null",
            "--to",
            "lines",
        ],
    );
    for name in ["old.json", "x.npz", "x.hmm"] {
        let train = ["hmm", "train", &large, &few, "--iterations", "1", "--device", "cpu", "--quiet", "--out"];
        refused("100k", &[&train[..], &[&on_disk(name)]].concat());
    }
    refused("16k", &["pomdp", "generate", "hallway2", "--out", &on_disk("x.pomdp")]);
    let hallway = target("hallway.pomdp");
    assert!(warpkov(&["pomdp", "generate", "hallway", "--out", &hallway]).output().unwrap().status.success());
    for name in ["x.alpha", "x.policy"] {
        refused(
            "12k",
            &["pomdp", "solve", &hallway, "--time", "0.5", "--device", "cpu", "--quiet", "--out", &on_disk(name)],
        );
    }
}

/// Runs the binary with at most `kilobytes` KiB of address space.
fn limited(kilobytes: u32, arguments: &[&str]) -> Output {
    let script = format!("ulimit -v {kilobytes}; exec \"$@\"");
    let arguments = [&["-c", &script, "sh", env!("CARGO_BIN_EXE_warpkov")], arguments].concat();
    Command::new("sh").args(arguments).env("RAYON_NUM_THREADS", "2").output().unwrap()
}

#[test]
fn a_lack_of_memory_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let target = |name: &str| folder.path().join(name).display().to_string();
    let [garnet, streamed] = ["garnet.npz", "garnet.safetensors"].map(target);
    let out_of_memory = |arguments: &[&str]| {
        let output = limited(400_000, arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{arguments:?}: {errors}");
        let said = errors.starts_with("error: ") && errors.to_lowercase().contains("memory");
        assert!(said && errors.lines().count() == 1, "{arguments:?}: {errors}");
    };
    out_of_memory(&["mdp", "generate", "garnet", "--states", "3000000", "--out", &garnet]);
    assert!(!Path::new(&garnet).exists());
    // This format is written block by block.
    let output = limited(400_000, &["mdp", "generate", "garnet", "--states", "3000000", "--out", &streamed]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::remove_file(&streamed).unwrap();
    let dna = target("long.fasta");
    fs::write(&dna, [&b">long\n"[..], &b"ACGT".repeat(40_000_000), b"\n"].concat()).unwrap();
    let chain = target("chain.json");
    let generate = ["hmm", "generate", "random", "--states", "64", "--symbols", "4", "--out", &chain];
    assert!(warpkov(&generate).output().unwrap().status.success());
    out_of_memory(&["hmm", "posterior", &chain, &dna, "--device", "cpu", "--out", &target("posterior.npy")]);
}
