//! Builds and runs the programs of exercises.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::Value;

use crate::error::Error;

/// What compiles exercises: cargo in a folder with the manifest of the course.
pub struct Builder<'a> {
    pub folder: &'a Path,
    /// Compile the kernels for GPUs as well.
    pub gpu: bool,
    /// With all optimisations, and small.
    pub release: bool,
    /// Do not show what cargo prints.
    pub quiet: bool,
}

/// Which of its two programs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Exercise,
    Solution,
}

impl Kind {
    pub fn folder(self) -> &'static str {
        match self {
            Self::Exercise => "exercises",
            Self::Solution => "solutions",
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Exercise => "exercise",
            Self::Solution => "solution",
        }
    }
}

/// A message of cargo: the program that it has built.
#[derive(Deserialize)]
struct Artifact {
    executable: Option<PathBuf>,
}

impl Builder<'_> {
    /// Builds the program of an exercise. An inner error is what cargo printed: the program does not compile.
    pub fn build(&self, exercise: &str, kind: Kind) -> Result<Result<PathBuf, String>, Error> {
        let name = match kind {
            Kind::Exercise => exercise.to_owned(),
            Kind::Solution => format!("{exercise}_solution"),
        };
        let mut command = Command::new("cargo");
        command.current_dir(self.folder).args(["build", "--message-format=json-render-diagnostics", "--bin", &name]);
        command.args(self.release.then_some("--release"));
        if self.gpu {
            command.args(["--features", "gpu"]).env("LEARN_EXERCISE", Path::new(kind.folder()).join(exercise));
            // Without the compiler of GPU code the program would lack its kernels.
            command.env("WARPKOV_REQUIRE_PTX", "1");
        }
        command.stdin(Stdio::null()).stderr(if self.quiet { Stdio::piped() } else { Stdio::inherit() });
        let output = command.output().map_err(|error| {
            Error::Usage(format!("cargo cannot be started: {error}. The exercises are Rust programs: install Rust"))
        })?;
        if !output.status.success() {
            return Ok(Err(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        let messages = String::from_utf8_lossy(&output.stdout);
        let mut programs = messages.lines().filter_map(|line| serde_json::from_str::<Artifact>(line).ok()?.executable);
        let program = programs.next_back().ok_or_else(|| Error::Usage(format!("cargo names no program of {name}")))?;
        Ok(Ok(program))
    }
}

/// How the run of a program ended.
pub enum End {
    /// By itself, with what it printed.
    Exit(ExitStatus, String),
    /// It was killed at its time limit.
    TimeLimit,
}

/// Most bytes of output that are kept.
const LONGEST: u64 = 1 << 20;

/// Runs a program for at most `limit`, then kills it and all that it has started.
pub fn run_limited(program: &Path, arguments: &[String], limit: Duration) -> Result<End, Error> {
    let failed = |error| Error::Usage(format!("{}: {error}", program.display()));
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt;
        command.process_group(0);
    }
    let begun = Instant::now();
    let mut child = command.spawn().map_err(failed)?;
    // Read beside the program, which would wait for a full pipe. What is too long is read, and not kept.
    let reader = |pipe: Option<Box<dyn Read + Send>>| {
        thread::spawn(move || {
            let mut text = Vec::new();
            if let Some(mut pipe) = pipe {
                let _ = pipe.by_ref().take(LONGEST).read_to_end(&mut text);
                let _ = std::io::copy(&mut pipe, &mut std::io::sink());
            }
            String::from_utf8_lossy(&text).into_owned()
        })
    };
    let out = reader(child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>));
    let errors = reader(child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>));
    let status = loop {
        match child.try_wait().map_err(failed)? {
            Some(status) => break Some(status),
            None if begun.elapsed() >= limit => break None,
            None => thread::sleep(Duration::from_millis(5)),
        }
    };
    // Also what the program has left behind, which would keep the pipes open.
    kill(&mut child);
    let (out, errors) = (out.join().unwrap_or_default(), errors.join().unwrap_or_default());
    Ok(match status {
        Some(status) if out.is_empty() => End::Exit(status, errors),
        Some(status) => End::Exit(status, out),
        None => End::TimeLimit,
    })
}

/// Kills a program, and on Linux all others of its group.
fn kill(child: &mut Child) {
    #[cfg(target_os = "linux")]
    if let Some(group) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// The report that a program printed with `--json`. `None` if it is no report.
pub fn report(text: &str) -> Option<Value> {
    let report: Value = serde_json::from_str(text.lines().last()?).ok()?;
    report.get("passed")?.as_bool()?;
    report.get("parts")?.as_array()?;
    Some(report)
}

/// Whether a report says that all passed.
pub fn passed(report: &Value) -> bool {
    report["passed"].as_bool() == Some(true)
}

/// The seconds of a launch in each part of a report.
pub fn seconds(report: &Value) -> Vec<Option<f64>> {
    let parts = report["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
    parts.iter().map(|part| part["seconds"].as_f64()).collect()
}

/// The first failure of a report, in one line: part, check and reason.
pub fn failure(report: &Value) -> Option<String> {
    let part = report["parts"].as_array()?.iter().find(|part| part["passed"] == false)?;
    let check = part["checks"].as_array()?.iter().find(|check| check["failure"].is_string())?;
    let why = check["failure"].as_str()?.lines().next().unwrap_or_default();
    Some(format!("part {}: {}: {why}", part["part"], check["name"].as_str()?))
}
