//! `warpkov learn`: the exercises of the course.
//!
//! | module | contents |
//! | --- | --- |
//! | `beat` | an exercise beside the solution |
//! | `course` | the course's folder: exercises, hints, progress |
//! | `program` | builds and runs the program of an exercise |
//! | `read` | a page of the course for a terminal |
//! | `submit` | the solutions of many students |

mod beat;
mod course;
mod program;
mod read;
mod submit;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use warpkov_common::io::{Error as FileError, output};

use super::error::{Error, Outcome};
use course::{Course, Progress};
use program::{Builder, Kind};
use submit::{Bench, Check, Programs, Submission};

pub const EXAMPLES: &str = "\
Examples:
  warpkov learn list
  warpkov learn next
  warpkov learn read
  warpkov learn check --watch
  warpkov learn hint transpose
  warpkov learn check 4 --device cuda";

#[derive(Subcommand)]
pub enum LearnCommand {
    List(List),
    Next(Next),
    Read(Read),
    Hint(Hint),
    Check(CheckArguments),
    Beat(Beat),
    Trace(Trace),
    Pack(Pack),
    Submit(Submit),
}

/// Where the course is.
#[derive(Args)]
#[group(skip)]
struct Folder {
    /// Folder of the course, `learn` of warpkov's sources [default: the one in or around the current folder].
    #[arg(long, value_name = "FOLDER")]
    course: Option<PathBuf>,
}

impl Folder {
    fn course(&self) -> Result<Course, Error> {
        Course::find(self.course.as_deref())
    }
}

/// The device that runs an exercise.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Device {
    /// The emulator.
    Cpu,
    /// The emulator, and then the first GPU.
    Cuda,
}

/// Lists the exercises, and which are solved.
#[derive(Args)]
#[command(after_help = "Examples:\n  warpkov learn list\n  warpkov learn list --json")]
pub struct List {
    #[command(flatten)]
    place: Folder,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Says which exercise is next, and where its files are.
#[derive(Args)]
#[command(after_help = "Examples:\n  warpkov learn next")]
pub struct Next {
    #[command(flatten)]
    place: Folder,
}

/// Shows the page of an exercise, without what the page folds: hints and solutions.
#[derive(Args)]
#[command(after_help = "Examples:\n  warpkov learn read\n  warpkov learn read 4 --all | less")]
pub struct Read {
    #[command(flatten)]
    place: Folder,
    /// Number or name of the exercise [default: the next one].
    exercise: Option<String>,
    /// Show all.
    #[arg(long)]
    all: bool,
    /// Columns of text.
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u16).range(20..))]
    width: u16,
}

/// Shows one more hint for an exercise.
#[derive(Args)]
#[command(after_help = "Examples:\n  warpkov learn hint\n  warpkov learn hint 4 --all")]
pub struct Hint {
    #[command(flatten)]
    place: Folder,
    /// Number or name of the exercise [default: the next one].
    exercise: Option<String>,
    /// Show all hints.
    #[arg(long)]
    all: bool,
}

/// Checks exercises: results, faults and budgets on the emulator, or results and time on a GPU.
///
/// The emulator runs every launch for several sizes and in three orders of blocks and threads, and reports the first fault or wrong
/// result. Then it counts memory accesses, and compares the counts with the budgets of the exercise. With --device cuda a GPU runs
/// the kernels as well; their times are compared with those of the course's solution. The exit code is 0 if all pass, and 1 if not.
#[derive(Args)]
#[command(after_help = "Examples:
  warpkov learn check
  warpkov learn check 4 --watch
  warpkov learn check 2 3 --json
  warpkov learn check transpose --device cuda")]
pub struct CheckArguments {
    #[command(flatten)]
    place: Folder,
    /// Numbers or names of exercises [default: the next one].
    exercises: Vec<String>,
    /// Check all exercises.
    #[arg(long, conflicts_with = "exercises")]
    all: bool,
    /// Check this part alone.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    part: Option<u32>,
    /// Device.
    #[arg(long, value_enum, default_value = "cpu")]
    device: Device,
    /// Check again whenever a file of the exercise changes; go on to the next exercise when it passes.
    #[arg(long, conflicts_with_all = ["json", "all"])]
    watch: bool,
    /// Print one JSON object, for grading.
    #[arg(long)]
    json: bool,
}

/// Compares the counts of an exercise, and on a GPU its times, with those of the course's solution.
///
/// Fewer is better. The exit code is 0 if both pass their checks, and 1 if not.
#[derive(Args)]
#[command(after_help = "Examples:\n  warpkov learn beat 4\n  warpkov learn beat transpose --device cuda")]
pub struct Beat {
    #[command(flatten)]
    place: Folder,
    /// Number or name of the exercise.
    exercise: String,
    /// Device.
    #[arg(long, value_enum, default_value = "cpu")]
    device: Device,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Draws the memory accesses of an exercise's first warp, and prints what the emulator counts line by line.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  warpkov learn trace 2 --out copy.svg\n  warpkov learn trace 4 --part 2 --out transpose.svg"
)]
pub struct Trace {
    #[command(flatten)]
    place: Folder,
    /// Number or name of the exercise [default: the next one].
    exercise: Option<String>,
    /// Part of the exercise.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    part: u32,
    /// The drawing (SVG).
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// Builds students' exercises for a GPU node that has no compiler.
///
/// Each DIR is a student's folder with exercises/NAME/kernels.rs and main.rs. The pack has a folder of programs for each student, and one
/// for the course's solutions. Copy it to the node with warpkov itself, and run: warpkov learn submit PACK/*
#[derive(Args)]
#[command(after_help = "Examples:\n  warpkov learn pack class/* --exercise 4 --out pack")]
pub struct Pack {
    #[command(flatten)]
    place: Folder,
    /// Folders of the students.
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Numbers or names of exercises [default: all that the students have].
    #[arg(long = "exercise", value_name = "EXERCISE")]
    exercises: Vec<String>,
    /// The new folder.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
}

/// Checks the exercises of many students one after the other, and writes a table.
///
/// Each DIR is a student's folder: with exercises/NAME/kernels.rs and main.rs, which are compiled here, or with the programs that
/// `warpkov learn pack` has made, where no compiler is needed. Every program runs in a process of its own, which is killed with all that
/// it has started when its time is over. Times are compared with those of the course's solution. Students' programs have the rights of
/// whoever starts them: use an account without others' data.
///
/// The exit code is 0 when the table is complete, whatever is in it.
#[derive(Args)]
#[command(after_help = "Examples:
  warpkov learn submit class/* --exercise 4 --device cuda
  warpkov learn submit pack/* --device cuda --time-limit 20 --out table.csv")]
pub struct Submit {
    #[command(flatten)]
    place: Folder,
    /// Folders of the students. A folder named reference, as in a pack, holds the programs of the solutions.
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Numbers or names of exercises [default: all that the students have].
    #[arg(long = "exercise", value_name = "EXERCISE")]
    exercises: Vec<String>,
    /// Device.
    #[arg(long, value_enum, default_value = "cpu")]
    device: Device,
    /// Seconds after which a program is killed.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = clap::value_parser!(u32).range(1..))]
    time_limit: u32,
    /// Write the table as CSV.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub fn run(command: LearnCommand, out: impl Write) -> Result<Outcome, Error> {
    match command {
        LearnCommand::List(arguments) => list(&arguments, out),
        LearnCommand::Next(arguments) => next(&arguments, out),
        LearnCommand::Read(arguments) => read(&arguments, out),
        LearnCommand::Hint(arguments) => hint(&arguments, out),
        LearnCommand::Check(arguments) if arguments.watch => watch(&arguments, out),
        LearnCommand::Check(arguments) => check(&arguments, out),
        LearnCommand::Beat(arguments) => beat(&arguments, out),
        LearnCommand::Trace(arguments) => trace(&arguments),
        LearnCommand::Pack(arguments) => pack(&arguments, out),
        LearnCommand::Submit(arguments) => submit(&arguments, out),
    }
}

fn list(arguments: &List, mut out: impl Write) -> Result<Outcome, Error> {
    let course = arguments.place.course()?;
    let progress = course.progress()?;
    if arguments.json {
        let entry = |name: &String| {
            let (solved, parts) = (progress.solved.contains(name), progress.parts.get(name));
            json!({ "exercise": name, "title": course.title(name), "solved": solved, "parts": parts })
        };
        let exercises: Vec<Value> = course.exercises.iter().map(entry).collect();
        writeln!(out, "{}", json!({ "course": course.folder, "exercises": exercises }))?;
        return Ok(Outcome::Success);
    }
    for name in &course.exercises {
        writeln!(out, "{:6}  {name:22}  {}", progress.state(name), course.title(name))?;
    }
    let solved = course.exercises.iter().filter(|name| progress.solved.contains(*name)).count();
    writeln!(out, "{solved} of {} solved", course.exercises.len())?;
    Ok(Outcome::Success)
}

fn next(arguments: &Next, mut out: impl Write) -> Result<Outcome, Error> {
    let course = arguments.place.course()?;
    announce(&course, &course.progress()?, &mut out)?;
    Ok(Outcome::Success)
}

/// Says which exercise is next.
fn announce(course: &Course, progress: &Progress, out: &mut impl Write) -> Result<(), Error> {
    let Some(exercise) = course.next(progress) else {
        writeln!(out, "All exercises are solved.")?;
        return Ok(());
    };
    writeln!(out, "Next: {}", course.title(exercise))?;
    writeln!(out, "  read   warpkov learn read {exercise}, or {}", course.page(exercise).display())?;
    writeln!(out, "  edit   {}", course.folder.join("exercises").join(exercise).display())?;
    writeln!(out, "  check  warpkov learn check {exercise}")?;
    Ok(())
}

/// The exercise that is named, or the next one.
fn chosen<'a>(course: &'a Course, progress: &Progress, named: Option<&String>) -> Result<&'a str, Error> {
    match named {
        Some(name) => course.exercise(name),
        None => course.next(progress).ok_or_else(|| Error::Usage("all exercises are solved: name one".into())),
    }
}

fn read(arguments: &Read, mut out: impl Write) -> Result<Outcome, Error> {
    let course = arguments.place.course()?;
    let path = course.page(chosen(&course, &course.progress()?, arguments.exercise.as_ref())?);
    let page = fs::read_to_string(&path).map_err(FileError::read(&path))?;
    out.write_all(read::rendered(&page, arguments.width.into(), arguments.all).as_bytes())?;
    Ok(Outcome::Success)
}

fn hint(arguments: &Hint, mut out: impl Write) -> Result<Outcome, Error> {
    let course = arguments.place.course()?;
    let mut progress = course.progress()?;
    let exercise = chosen(&course, &progress, arguments.exercise.as_ref())?;
    let hints = course.hints(exercise)?;
    let shown = progress.hints.entry(exercise.to_owned()).or_default();
    let before = if arguments.all { 0 } else { (*shown).min(hints.len().saturating_sub(1)) };
    let end = if arguments.all { hints.len() } else { (before + 1).min(hints.len()) };
    for (number, hint) in hints.iter().enumerate().take(end).skip(before) {
        writeln!(out, "Hint {} of {}: {hint}", number + 1, hints.len())?;
    }
    *shown = end;
    course.save(&progress)?;
    Ok(Outcome::Success)
}

/// Builds an exercise and runs its check. The report is there if the exercise compiles and does not crash.
fn check_one(course: &Course, exercise: &str, arguments: &CheckArguments) -> Result<(bool, Option<Value>), Error> {
    let gpu = arguments.device == Device::Cuda;
    let builder = Builder { folder: &course.folder, gpu, release: false, quiet: false };
    let mut words = vec!["check".to_owned()];
    words.extend(arguments.part.iter().flat_map(|part| ["--part".to_owned(), part.to_string()]));
    if gpu {
        words.extend(["--device".to_owned(), "cuda".to_owned()]);
        if let Ok(solution) = builder.build(exercise, Kind::Solution)? {
            let output = program(&course.folder, &solution, &words).arg("--json").output();
            let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
            let seconds = program::report(&text).map(|report| program::seconds(&report)).unwrap_or_default();
            let seconds: Option<Vec<String>> = seconds.into_iter().map(|time| Some(time?.to_string())).collect();
            words.extend(
                seconds
                    .into_iter()
                    .filter(|all| !all.is_empty())
                    .flat_map(|all| ["--reference".to_owned(), all.join(",")]),
            );
        }
    }
    let Ok(exercise) = builder.build(exercise, Kind::Exercise)? else {
        return Ok((false, None));
    };
    let file = exercise.with_extension("json");
    words.extend(["--report".to_owned(), file.display().to_string()]);
    let mut command = program(&course.folder, &exercise, &words);
    if arguments.json {
        command.stdout(std::process::Stdio::null());
    }
    // Of a run that was killed before this one.
    let _ = fs::remove_file(&file);
    let status = started(&exercise, command.status())?;
    refused(status)?;
    let report = fs::read_to_string(&file).ok().and_then(|text| program::report(&text));
    Ok((status.success(), report))
}

/// What starting a program returned.
fn started<T>(program: &std::path::Path, result: std::io::Result<T>) -> Result<T, Error> {
    result.map_err(|error| Error::Usage(format!("{}: {error}", program.display())))
}

/// The error of an exercise that refused to run.
fn refused(status: std::process::ExitStatus) -> Result<(), Error> {
    match status.code() {
        Some(2) => Err(Error::Usage("the exercise does not take these arguments".into())),
        Some(3) => Err(Error::NoDevice("the exercise cannot run on this device".into())),
        _ => Ok(()),
    }
}

/// A program of an exercise, run in the course's folder: its messages name files from there.
fn program(folder: &std::path::Path, program: &std::path::Path, words: &[String]) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).args(words);
    command
}

/// Notes what a check found. A check of a single part says nothing about the others.
fn note(course: &Course, exercise: &str, report: Option<&Value>, arguments: &CheckArguments) -> Result<(), Error> {
    let Some(report) = report.filter(|_| arguments.part.is_none()) else { return Ok(()) };
    let mut progress = course.progress()?;
    progress.note(exercise, report);
    course.save(&progress)
}

fn check(arguments: &CheckArguments, mut out: impl Write) -> Result<Outcome, Error> {
    let course = arguments.place.course()?;
    let exercises: Vec<&str> = match (arguments.all, arguments.exercises.is_empty()) {
        (true, _) => course.exercises.iter().map(String::as_str).collect(),
        (false, true) => vec![chosen(&course, &course.progress()?, None)?],
        (false, false) => course.all(&arguments.exercises)?,
    };
    let mut reports = Vec::new();
    let mut all = true;
    for exercise in exercises {
        if !arguments.json {
            writeln!(out, "{}", course.title(exercise))?;
            out.flush()?;
        }
        let (passed, report) = check_one(&course, exercise, arguments)?;
        note(&course, exercise, report.as_ref(), arguments)?;
        all &= passed;
        let report = report.unwrap_or(Value::Null);
        reports.push(json!({ "exercise": exercise, "passed": passed, "report": report }));
    }
    if arguments.json {
        writeln!(out, "{}", json!({ "passed": all, "exercises": reports }))?;
    } else if all {
        announce(&course, &course.progress()?, &mut out)?;
    } else {
        writeln!(out, "`warpkov learn hint` shows a hint.")?;
    }
    Ok(if all { Outcome::Success } else { Outcome::Negative })
}

/// Time between two looks at the files.
const TICK: Duration = Duration::from_millis(250);

fn watch(arguments: &CheckArguments, mut out: impl Write) -> Result<Outcome, Error> {
    let course = arguments.place.course()?;
    let mut wanted = course.all(&arguments.exercises)?.into_iter();
    loop {
        let progress = course.progress()?;
        let exercise = match wanted.next() {
            Some(exercise) => exercise,
            None if !arguments.exercises.is_empty() => return Ok(Outcome::Success),
            None => match course.next(&progress) {
                Some(exercise) => exercise,
                None => {
                    announce(&course, &progress, &mut out)?;
                    return Ok(Outcome::Success);
                }
            },
        };
        loop {
            writeln!(out, "\n{}", course.title(exercise))?;
            out.flush()?;
            let seen = changed(&course, exercise)?;
            let (passed, report) = check_one(&course, exercise, arguments)?;
            note(&course, exercise, report.as_ref(), arguments)?;
            if passed && arguments.part.is_none() {
                break;
            }
            writeln!(out, "Waiting for a change in {}", course.folder.join("exercises").join(exercise).display())?;
            out.flush()?;
            while changed(&course, exercise)? == seen {
                thread::sleep(TICK);
            }
        }
    }
}

/// The times of the last changes of an exercise's files.
fn changed(course: &Course, exercise: &str) -> Result<BTreeSet<(PathBuf, SystemTime)>, Error> {
    let folder = course.folder.join("exercises").join(exercise);
    let failed = FileError::read(&folder);
    let mut times = BTreeSet::new();
    for entry in fs::read_dir(&folder).map_err(&failed)? {
        let path = entry.map_err(&failed)?.path();
        // An editor may replace a file: then it is not there for a moment.
        if let Ok(time) = fs::metadata(&path).and_then(|file| file.modified()) {
            times.insert((path, time));
        }
    }
    Ok(times)
}

fn beat(arguments: &Beat, mut out: impl Write) -> Result<Outcome, Error> {
    let course = arguments.place.course()?;
    let exercise = course.exercise(&arguments.exercise)?;
    let gpu = arguments.device == Device::Cuda;
    let builder = Builder { folder: &course.folder, gpu, release: false, quiet: false };
    let words = ["check", "--json", "--device", if gpu { "cuda" } else { "cpu" }].map(str::to_owned);
    let mut reports = Vec::new();
    for kind in [Kind::Exercise, Kind::Solution] {
        let Ok(built) = builder.build(exercise, kind)? else { return Ok(Outcome::Negative) };
        let output = started(&built, program(&course.folder, &built, &words).output())?;
        refused(output.status)?;
        match program::report(&String::from_utf8_lossy(&output.stdout)).filter(program::passed) {
            Some(report) => reports.push(report),
            None => {
                writeln!(out, "The {} does not pass: `warpkov learn check {exercise}` tells why.", kind.name())?;
                return Ok(Outcome::Negative);
            }
        }
    }
    let rows = beat::rows(&reports[0], &reports[1]);
    if arguments.json {
        writeln!(out, "{}", json!({ "exercise": exercise, "counts": rows }))?;
    } else {
        beat::table(&rows, out)?;
    }
    Ok(Outcome::Success)
}

fn trace(arguments: &Trace) -> Result<Outcome, Error> {
    let course = arguments.place.course()?;
    let exercise = chosen(&course, &course.progress()?, arguments.exercise.as_ref())?;
    let builder = Builder { folder: &course.folder, gpu: false, release: false, quiet: false };
    let Ok(built) = builder.build(exercise, Kind::Exercise)? else { return Ok(Outcome::Negative) };
    let file = std::path::absolute(&arguments.out).map_err(FileError::write(&arguments.out))?;
    let words = ["trace", "--part", &arguments.part.to_string()].map(str::to_owned);
    let status = started(&built, program(&course.folder, &built, &words).arg(file).status())?;
    refused(status)?;
    Ok(if status.success() { Outcome::Success } else { Outcome::Negative })
}

/// The exercises that are named, or all that the submissions have.
fn exercises_of<'a>(course: &'a Course, named: &[String], all: &[Submission]) -> Result<Vec<&'a str>, Error> {
    if !named.is_empty() {
        return course.all(named);
    }
    let mut found = BTreeSet::new();
    for submission in all {
        found.extend(submission.exercises()?);
    }
    Ok(course.exercises.iter().filter(|name| found.contains(*name)).map(String::as_str).collect())
}

/// The submissions in these folders, each student once.
fn submissions<'a>(folders: impl Iterator<Item = &'a PathBuf>) -> Result<Vec<Submission>, Error> {
    let mut all: Vec<Submission> = folders.map(|folder| Submission::new(folder)).collect::<Result<_, _>>()?;
    all.sort_by(|a, b| a.student.cmp(&b.student));
    match all.windows(2).find(|pair| pair[0].student == pair[1].student) {
        Some(pair) => Err(Error::Usage(format!("two folders are named {}", pair[0].student))),
        None => Ok(all),
    }
}

fn pack(arguments: &Pack, mut out: impl Write) -> Result<Outcome, Error> {
    let course = arguments.place.course()?;
    let all = submissions(arguments.folders.iter())?;
    if let Some(odd) = all.iter().find(|submission| submission.student == submit::REFERENCE) {
        return Err(Error::Usage(format!("a student cannot be named {}", odd.student)));
    }
    let exercises = exercises_of(&course, &arguments.exercises, &all)?;
    if exercises.is_empty() {
        return Err(Error::Usage("no folder has an exercise of the course in exercises/".into()));
    }
    fs::create_dir(&arguments.out).map_err(FileError::write(&arguments.out))?;
    let bench = Bench::new(&course, true, true)?;
    submit::pack(&bench, &all, &exercises, &arguments.out, &mut out)?;
    writeln!(out, "{}: {} students, {} exercises", arguments.out.display(), all.len(), exercises.len())?;
    Ok(Outcome::Success)
}

fn submit(arguments: &Submit, mut out: impl Write) -> Result<Outcome, Error> {
    let is_reference = |folder: &&PathBuf| folder.file_name().is_some_and(|name| name == submit::REFERENCE);
    let reference = arguments.folders.iter().find(is_reference);
    let all = submissions(arguments.folders.iter().filter(|folder| !is_reference(folder)))?;
    let packed = reference.is_some() || all.iter().all(|submission| !submission.has_sources());
    let gpu = arguments.device == Device::Cuda;
    let (programs, exercises) = if packed {
        let mut found = BTreeSet::new();
        for submission in &all {
            found.extend(submission.exercises()?);
        }
        let wanted = |name: &String| {
            arguments.exercises.is_empty() || arguments.exercises.iter().any(|wanted| course::is_named(name, wanted))
        };
        (Programs::Packed(reference.cloned()), found.into_iter().filter(wanted).collect::<Vec<_>>())
    } else {
        let course = arguments.place.course()?;
        let exercises = exercises_of(&course, &arguments.exercises, &all)?;
        let exercises = exercises.into_iter().map(str::to_owned).collect();
        (Programs::Bench(Bench::new(&course, gpu, gpu)?), exercises)
    };
    if exercises.is_empty() {
        return Err(Error::Usage("no folder has such an exercise, as sources in exercises/ or as a program".into()));
    }
    let check = Check { programs, gpu, limit: Duration::from_secs(arguments.time_limit.into()) };
    let mut entries = Vec::new();
    for exercise in &exercises {
        submit::progress(&format!("{exercise}: the solution"));
        let reference = check.reference(exercise)?;
        for submission in &all {
            submit::progress(&format!("{exercise}: {}", submission.student));
            entries.push(check.check(submission, exercise, reference.as_ref())?);
        }
    }
    submit::progress("");
    if let Some(file) = &arguments.out {
        let table = submit::csv(&entries)?;
        output::atomic_write(file, |out| out.write_all(&table)).map_err(FileError::write(file))?;
    }
    if arguments.json {
        writeln!(out, "{}", json!({ "entries": entries }))?;
    } else {
        submit::table(&entries, out)?;
    }
    Ok(Outcome::Success)
}
