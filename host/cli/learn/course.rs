//! The course's folder: its exercises, their hints, and what is solved.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use warpkov_common::io::{Error as FileError, output};

use crate::error::Error;

/// The folder of the course, `learn/` of warpkov's sources.
pub struct Course {
    pub folder: PathBuf,
    /// Names of the exercises in order, such as `00_vector_add`.
    pub exercises: Vec<String>,
}

/// What the student has done, in `progress.json` of the course's folder.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// Exercises that have passed a check.
    pub solved: BTreeSet<String>,
    /// The most parts of an exercise that have passed a check, and how many it has.
    #[serde(default)]
    pub parts: BTreeMap<String, (usize, usize)>,
    /// Hints shown of each exercise.
    pub hints: BTreeMap<String, usize>,
}

/// Whether a folder is that of the course.
fn is_course(folder: &Path) -> bool {
    ["exercises", "harness", "Cargo.toml"].iter().all(|name| folder.join(name).exists())
}

impl Progress {
    /// What `list` says of an exercise: `solved`, or parts that passed, such as `4/5`.
    pub fn state(&self, exercise: &str) -> String {
        match self.parts.get(exercise) {
            _ if self.solved.contains(exercise) => "solved".to_owned(),
            Some((passed, of)) if *passed > 0 => format!("{passed}/{of}"),
            _ => String::new(),
        }
    }

    /// Notes what a check of all parts of an exercise found. What has passed once stays.
    pub fn note(&mut self, exercise: &str, report: &Value) {
        let parts = report["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
        let passed = parts.iter().take_while(|part| part["passed"] == true).count();
        if report["passed"] == true {
            self.solved.insert(exercise.to_owned());
        }
        if let Some(of) = report["of"].as_u64() {
            let known = self.parts.entry(exercise.to_owned()).or_default();
            *known = (passed.max(known.0), of as usize);
        }
    }
}

impl Course {
    /// The course in `folder`; by default the one in or around the current folder.
    pub fn find(folder: Option<&Path>) -> Result<Self, Error> {
        let found = match folder {
            Some(folder) => is_course(folder).then(|| folder.to_path_buf()),
            None => {
                let here = env::current_dir().map_err(FileError::read("."))?;
                let folders = here.ancestors().flat_map(|folder| [folder.to_path_buf(), folder.join("learn")]);
                folders.into_iter().find(|folder| is_course(folder))
            }
        };
        let folder = found.ok_or_else(|| {
            let place = folder.map_or("the current folder or above it".into(), |folder| folder.display().to_string());
            Error::Usage(format!(
                "no course in {place}: --course names the folder `learn` of warpkov's sources, which has exercises/"
            ))
        })?;
        let folder = folder.canonicalize().map_err(FileError::read(&folder))?;
        let exercises = folders(&folder.join("exercises"))?;
        Ok(Self { folder, exercises })
    }

    /// The exercise of a number (`4`, `3.2`) or of a name or its end (`04_transpose`, `transpose`).
    pub fn exercise(&self, wanted: &str) -> Result<&str, Error> {
        let unknown = || {
            let names = self.exercises.join(", ");
            Error::Usage(format!("{wanted:?} is no exercise: expected a number, or one of {names}"))
        };
        self.exercises.iter().find(|name| is_named(name, wanted)).map(String::as_str).ok_or_else(unknown)
    }

    /// The exercises of these numbers or names.
    pub fn all<'a>(&'a self, wanted: &[String]) -> Result<Vec<&'a str>, Error> {
        wanted.iter().map(|wanted| self.exercise(wanted)).collect()
    }

    /// The first exercise that is not solved.
    pub fn next(&self, progress: &Progress) -> Option<&str> {
        self.exercises.iter().find(|name| !progress.solved.contains(*name)).map(String::as_str)
    }

    /// The page of an exercise in the book.
    pub fn page(&self, exercise: &str) -> PathBuf {
        let book = self.folder.parent().unwrap_or(&self.folder).join("book/course");
        book.join(format!("{}.md", exercise.replace('_', "-")))
    }

    /// The title of an exercise: the first line of its page, or its name if the book is not there.
    pub fn title(&self, exercise: &str) -> String {
        let page = fs::read_to_string(self.page(exercise)).unwrap_or_default();
        let title = page.lines().next().and_then(|line| line.strip_prefix("# "));
        title.map_or_else(|| exercise.to_owned(), str::to_owned)
    }

    /// The hints of an exercise in order.
    pub fn hints(&self, exercise: &str) -> Result<Vec<String>, Error> {
        let path = self.folder.join("exercises").join(exercise).join("hints.md");
        let text = fs::read_to_string(&path).map_err(FileError::read(&path))?;
        let mut hints: Vec<String> = Vec::new();
        for line in text.lines() {
            let start = format!("{}. ", hints.len() + 1);
            match (line.strip_prefix(&start), hints.last_mut()) {
                (Some(first), _) => hints.push(first.to_owned()),
                (None, Some(hint)) => {
                    hint.push('\n');
                    hint.push_str(line.strip_prefix("   ").unwrap_or(line));
                }
                (None, None) => {}
            }
        }
        Ok(hints.into_iter().map(|hint| hint.trim_end().to_owned()).collect())
    }

    fn progress_file(&self) -> PathBuf {
        self.folder.join("progress.json")
    }

    /// What is solved so far.
    pub fn progress(&self) -> Result<Progress, Error> {
        let path = self.progress_file();
        match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Progress::default()),
            Err(error) => Err(FileError::read(&path)(error).into()),
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|error| Error::Usage(format!("{}: {error}; remove it to begin anew", path.display()))),
        }
    }

    /// Saves what is solved.
    pub fn save(&self, progress: &Progress) -> Result<(), Error> {
        let path = self.progress_file();
        let write = |out: &mut dyn std::io::Write| Ok(serde_json::to_writer_pretty(out, progress)?);
        Ok(output::atomic_write(&path, write).map_err(FileError::write(&path))?)
    }
}

/// Whether `wanted` stands for the exercise of this name: its number, its name or the end of its name.
pub fn is_named(name: &str, wanted: &str) -> bool {
    let (number, title) = numbered(name);
    let asked: Option<Vec<u32>> = wanted.split('.').map(|part| part.parse().ok()).collect();
    name == wanted || title == wanted || asked.is_some_and(|asked| asked == number)
}

/// The number of an exercise and the end of its name: 4 and `transpose` of `04_transpose`, 3.2 and `reverse` of `03_2_reverse`.
fn numbered(name: &str) -> (Vec<u32>, &str) {
    let (mut number, mut title) = (Vec::new(), name);
    while let Some((Ok(part), rest)) = title.split_once('_').map(|(part, rest)| (part.parse::<u32>(), rest)) {
        number.push(part);
        title = rest;
    }
    (number, title)
}

/// Names of the folders in a folder, in order.
pub fn folders(folder: &Path) -> Result<Vec<String>, Error> {
    let failed = FileError::read(folder);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(&failed)? {
        let entry = entry.map_err(&failed)?;
        if let (true, Ok(name)) = (entry.path().is_dir(), entry.file_name().into_string()) {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{Course, is_named};

    #[test]
    fn exercises_have_numbers_names_and_pages() {
        let all = ["00_1_add_ten", "00_vector_add", "01_1_map_2d", "03_2_reverse", "13_registers"];
        let named = |wanted| all.into_iter().filter(|name| is_named(name, wanted)).collect::<Vec<_>>();
        for (wanted, name) in [
            ("0.1", "00_1_add_ten"),
            ("add_ten", "00_1_add_ten"),
            ("0", "00_vector_add"),
            ("1.1", "01_1_map_2d"),
            ("map_2d", "01_1_map_2d"),
            ("03_2_reverse", "03_2_reverse"),
            ("13", "13_registers"),
        ] {
            assert_eq!(named(wanted), [name], "{wanted}");
        }
        for wanted in ["", "1", "0.2", "1_add_ten", "0.1.0"] {
            assert!(named(wanted).is_empty(), "{wanted}");
        }
        let course = Course { folder: "/course/learn".into(), exercises: Vec::new() };
        assert_eq!(course.page("00_1_add_ten"), PathBuf::from("/course/book/course/00-1-add-ten.md"));
        assert_eq!(course.title("00_1_add_ten"), "00_1_add_ten");
    }
}
