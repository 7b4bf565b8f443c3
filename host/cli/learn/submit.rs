//! Many students' solutions, built and run one after the other.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use warpkov_common::io::Error as FileError;

use super::course::{self, Course};
use super::program::{self, Builder, End, Kind};
use crate::error::Error;

/// Name of the folder of a pack that holds the programs of the solutions.
pub const REFERENCE: &str = "reference";

/// What became of a student's solution of one exercise.
#[derive(Serialize)]
pub struct Entry {
    pub student: String,
    pub exercise: String,
    pub outcome: Outcome,
    /// Parts that pass.
    pub parts: usize,
    /// Seconds of a launch in the last part that was timed.
    pub seconds: Option<f64>,
    /// These seconds, divided by those of the course's solution.
    pub relative: Option<f64>,
    /// Why it does not pass, or what else to know.
    pub note: String,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Passed,
    Failed,
    /// It was killed at its time limit.
    TimeLimit,
    /// It ended without a report.
    Crashed,
    DoesNotCompile,
    /// The student has not sent it in, or it has no program.
    Missing,
}

impl Outcome {
    fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::TimeLimit => "time limit",
            Self::Crashed => "crashed",
            Self::DoesNotCompile => "does not compile",
            Self::Missing => "missing",
        }
    }
}

/// A student's folder: the sources `exercises/NAME/`, or programs that [`pack`] has built.
pub struct Submission {
    pub student: String,
    folder: PathBuf,
}

impl Submission {
    pub fn new(folder: &Path) -> Result<Self, Error> {
        let folder = folder.canonicalize().map_err(FileError::read(folder))?;
        let name = folder.file_name().and_then(|name| name.to_str());
        let student = name.ok_or_else(|| Error::Usage(format!("{}: no name of a student", folder.display())))?;
        Ok(Self { student: student.to_owned(), folder: folder.clone() })
    }

    /// Whether it has to be compiled.
    pub fn has_sources(&self) -> bool {
        self.folder.join("exercises").is_dir()
    }

    fn sources(&self, exercise: &str) -> PathBuf {
        self.folder.join("exercises").join(exercise)
    }

    fn program(&self, exercise: &str) -> PathBuf {
        self.folder.join(exercise)
    }

    /// The exercises that it holds.
    pub fn exercises(&self) -> Result<Vec<String>, Error> {
        if self.has_sources() {
            return course::folders(&self.folder.join("exercises"));
        }
        let failed = FileError::read(&self.folder);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(&failed)? {
            let entry = entry.map_err(&failed)?;
            if let (true, Ok(name)) = (entry.path().is_file(), entry.file_name().into_string()) {
                names.push(name.strip_suffix(NO_PROGRAM).map_or(name.clone(), str::to_owned));
            }
        }
        names.sort();
        Ok(names)
    }
}

/// Ending of the file that a pack has in place of a program that does not compile. It holds the compiler's errors.
const NO_PROGRAM: &str = ".error";

/// A folder in which students' sources are built, one after the other, with the manifest and the harness of the course:
/// only their own files are compiled anew.
pub struct Bench {
    folder: PathBuf,
    gpu: bool,
    release: bool,
}

impl Bench {
    /// Prepares the folder, inside the course's target folder.
    pub fn new(course: &Course, gpu: bool, release: bool) -> Result<Self, Error> {
        let folder = course.folder.join("target/submit");
        let bench = Self { folder, gpu, release };
        for kind in ["exercises", "solutions"] {
            for exercise in course::folders(&course.folder.join(kind))? {
                for file in files(&course.folder.join("exercises").join(&exercise))? {
                    let name = Path::new(kind).join(&exercise).join(file);
                    copy(&course.folder.join(&name), &bench.folder.join(&name))?;
                }
            }
        }
        for file in ["Cargo.lock", "build.rs"] {
            copy(&course.folder.join(file), &bench.folder.join(file))?;
        }
        let manifest = course.folder.join("Cargo.toml");
        let text = fs::read_to_string(&manifest).map_err(FileError::read(&manifest))?;
        // The paths of its dependencies, from where it lies now.
        let sources = course.folder.parent().unwrap_or(&course.folder).display().to_string();
        let text = text.replace("path = \"../", &format!("path = \"{sources}/"));
        let text =
            text.replace("path = \"harness\"", &format!("path = \"{}\"", course.folder.join("harness").display()));
        // Its members stay where they are.
        let is_members = |line: &str| line.starts_with("members = ");
        let lines = text.lines().map(|line| if is_members(line) { "members = []" } else { line });
        let text = lines.flat_map(|line| [line, "\n"]).collect::<String>();
        replace(&bench.folder.join("Cargo.toml"), text.as_bytes())?;
        Ok(bench)
    }

    fn builder(&self) -> Builder<'_> {
        Builder { folder: &self.folder, gpu: self.gpu, release: self.release, quiet: true }
    }

    /// Builds the solution of the course.
    pub fn solution(&self, exercise: &str) -> Result<Result<PathBuf, String>, Error> {
        self.builder().build(exercise, Kind::Solution)
    }

    /// Builds what a student has sent in.
    pub fn build(&self, submission: &Submission, exercise: &str) -> Result<Result<PathBuf, String>, Error> {
        let folder = self.folder.join("exercises").join(exercise);
        for file in files(&folder)? {
            let (from, to) = (submission.sources(exercise).join(&file), folder.join(&file));
            if let Err(error) = copy(&from, &to) {
                return Ok(Err(error.to_string()));
            }
        }
        self.builder().build(exercise, Kind::Exercise)
    }
}

/// The files of an exercise that a student sends in: all but the hints.
fn files(folder: &Path) -> Result<Vec<String>, Error> {
    let failed = FileError::read(folder);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(&failed)? {
        let name = entry.map_err(&failed)?.file_name().into_string();
        names.extend(name.ok().filter(|name| name != "hints.md"));
    }
    Ok(names)
}

/// Copies a file unless its content is there already: cargo compiles what is newer.
fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    replace(to, &fs::read(from).map_err(FileError::read(from))?)
}

fn replace(path: &Path, content: &[u8]) -> Result<(), Error> {
    if fs::read(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    let failed = FileError::write(path);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(&failed)?;
    }
    Ok(fs::write(path, content).map_err(&failed)?)
}

/// Where the programs of submissions come from.
pub enum Programs {
    /// Compiled here.
    Bench(Bench),
    /// Compiled before, with the folder of the solutions' programs.
    Packed(Option<PathBuf>),
}

/// How submissions are checked.
pub struct Check {
    pub programs: Programs,
    pub gpu: bool,
    pub limit: Duration,
}

impl Check {
    fn arguments(&self) -> Vec<String> {
        ["check", "--json", "--device", if self.gpu { "cuda" } else { "cpu" }].map(str::to_owned).to_vec()
    }

    /// The report of the course's solution, for relative times.
    pub fn reference(&self, exercise: &str) -> Result<Option<Value>, Error> {
        let program = match &self.programs {
            Programs::Bench(bench) => bench
                .solution(exercise)?
                .map_err(|why| Error::Usage(format!("the solution of {exercise} does not compile:\n{why}")))?,
            Programs::Packed(None) => return Ok(None),
            Programs::Packed(Some(folder)) => folder.join(exercise),
        };
        if !program.is_file() {
            return Ok(None);
        }
        let report = match program::run_limited(&program, &self.arguments(), self.limit)? {
            End::Exit(_, text) => program::report(&text).ok_or(text),
            End::TimeLimit => Err("it was killed at the time limit".to_owned()),
        };
        match report {
            Ok(report) if program::passed(&report) => Ok(Some(report)),
            Ok(report) => Err(program::failure(&report).unwrap_or_default()),
            Err(text) => Err(text),
        }
        .map_err(|why| Error::Usage(format!("the course's own solution of {exercise} does not pass here: {why}")))
    }

    /// Checks what a student has sent in of one exercise.
    pub fn check(&self, submission: &Submission, exercise: &str, reference: Option<&Value>) -> Result<Entry, Error> {
        let mut entry = Entry {
            student: submission.student.clone(),
            exercise: exercise.to_owned(),
            outcome: Outcome::Missing,
            parts: 0,
            seconds: None,
            relative: None,
            note: String::new(),
        };
        let program = match &self.programs {
            Programs::Bench(_) if !submission.sources(exercise).is_dir() => return Ok(entry),
            Programs::Bench(bench) => bench.build(submission, exercise)?,
            Programs::Packed(_) => {
                let program = submission.program(exercise);
                match fs::read_to_string(submission.program(&format!("{exercise}{NO_PROGRAM}"))) {
                    Ok(errors) => Err(errors),
                    Err(_) if program.is_file() => Ok(program),
                    Err(_) => return Ok(entry),
                }
            }
        };
        let program = match program {
            Ok(program) => program,
            Err(errors) => {
                let first = errors.lines().find(|line| line.starts_with("error")).or_else(|| errors.lines().next());
                entry.outcome = Outcome::DoesNotCompile;
                entry.note = first.unwrap_or_default().to_owned();
                return Ok(entry);
            }
        };
        match program::run_limited(&program, &self.arguments(), self.limit)? {
            End::TimeLimit => {
                entry.outcome = Outcome::TimeLimit;
                entry.note = format!("killed after {} s", self.limit.as_secs_f64());
            }
            End::Exit(status, text) => match program::report(&text) {
                // A report of success and another exit code do not fit together.
                Some(report) if program::passed(&report) == status.success() => {
                    entry.fill(&report, reference);
                }
                _ => {
                    entry.outcome = Outcome::Crashed;
                    entry.note = format!("{status}: {}", text.lines().last().unwrap_or_default());
                }
            },
        }
        Ok(entry)
    }
}

impl Entry {
    fn fill(&mut self, report: &Value, reference: Option<&Value>) {
        self.outcome = if program::passed(report) { Outcome::Passed } else { Outcome::Failed };
        let parts = report["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
        self.parts = parts.iter().filter(|part| part["passed"] == true).count();
        self.note = program::failure(report).unwrap_or_default();
        let seconds = program::seconds(report);
        let Some(last) = seconds.iter().rposition(Option::is_some) else { return };
        self.seconds = seconds[last];
        let of_reference = reference.and_then(|reference| program::seconds(reference).get(last).copied().flatten());
        self.relative = self.seconds.zip(of_reference).map(|(own, reference)| own / reference);
    }
}

/// Builds the programs of submissions, and of the course's solutions, into a folder for a machine without a compiler.
pub fn pack(
    bench: &Bench,
    submissions: &[Submission],
    exercises: &[&str],
    target: &Path,
    mut out: impl Write,
) -> Result<(), Error> {
    let keep = |built: Result<PathBuf, String>, folder: &Path, exercise: &str| -> Result<bool, Error> {
        match built {
            Ok(program) => {
                let to = folder.join(exercise);
                fs::create_dir_all(folder).map_err(FileError::write(folder))?;
                fs::copy(&program, &to).map_err(FileError::write(&to))?;
                Ok(true)
            }
            Err(errors) => {
                replace(&folder.join(format!("{exercise}{NO_PROGRAM}")), errors.as_bytes())?;
                Ok(false)
            }
        }
    };
    for exercise in exercises {
        progress(&format!("{exercise}: the solution"));
        if !keep(bench.solution(exercise)?, &target.join(REFERENCE), exercise)? {
            return Err(Error::Usage(format!("the solution of {exercise} does not compile")));
        }
        for submission in submissions {
            // A folder even for who has sent in nothing.
            let folder = target.join(&submission.student);
            fs::create_dir_all(&folder).map_err(FileError::write(&folder))?;
            if !submission.sources(exercise).is_dir() {
                continue;
            }
            progress(&format!("{exercise}: {}", submission.student));
            let built = keep(bench.build(submission, exercise)?, &target.join(&submission.student), exercise)?;
            let state = if built { "built" } else { "does not compile" };
            writeln!(out, "{exercise}  {}  {state}", submission.student)?;
        }
    }
    progress("");
    Ok(())
}

/// Shows what is under way, if someone looks.
pub fn progress(text: &str) {
    if io::stderr().is_terminal() {
        eprint!("\r\x1b[2K{text}");
        let _ = io::stderr().flush();
    }
}

/// Writes the table for people.
pub fn table(entries: &[Entry], mut out: impl Write) -> io::Result<()> {
    let widths = |of: fn(&Entry) -> &str, title: &str| {
        entries.iter().map(|entry| of(entry).chars().count()).chain([title.len()]).max().unwrap_or_default()
    };
    let (student, exercise) = (widths(|entry| &entry.student, "student"), widths(|entry| &entry.exercise, "exercise"));
    writeln!(
        out,
        "{:student$}  {:exercise$}  {:16}  parts  time (µs)  relative  note",
        "student", "exercise", "outcome"
    )?;
    for entry in entries {
        let time = entry.seconds.map(|seconds| format!("{:.2}", 1e6 * seconds)).unwrap_or_default();
        let relative = entry.relative.map(|relative| format!("{relative:.2}")).unwrap_or_default();
        let line = format!(
            "{:student$}  {:exercise$}  {:16}  {:5}  {time:>9}  {relative:>8}  {}",
            entry.student,
            entry.exercise,
            entry.outcome.name(),
            entry.parts,
            warpkov_common::terminal::escaped(&entry.note)
        );
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// The table as CSV.
pub fn csv(entries: &[Entry]) -> Result<Vec<u8>, Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let failed = |error: csv::Error| Error::Usage(format!("the table: {error}"));
    for entry in entries {
        writer.serialize(entry).map_err(failed)?;
    }
    writer.into_inner().map_err(|error| Error::Usage(format!("the table: {error}")))
}
