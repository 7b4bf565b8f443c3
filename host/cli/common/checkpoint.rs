//! Options of commands that write checkpoints and go on from them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use warpkov_common::checkpoint::Checkpoints;
use warpkov_common::io::output::Identity;

use super::ranks::Ranks;
use super::{file, number};
use crate::error::{Error, message};

/// Options of a command that can go on from a checkpoint.
#[derive(Args, Clone, Debug)]
#[group(skip)]
pub struct Arguments {
    /// Write checkpoints to this file: from time to time, on SIGUSR1, at the end, and when SIGTERM, SIGHUP or Ctrl-C stops the run.
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Seconds between two checkpoints.
    #[arg(long, value_name = "S", default_value = "300", value_parser = number::positive, requires = "checkpoint")]
    checkpoint_every: f64,
    /// Go on from this checkpoint of the same model, on any device and any number of ranks. Limits and reported times include the work
    /// before it. It may be the file of --checkpoint.
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// Go on from the file of --checkpoint if it exists, so that the first job of a chain and its successors have the same command.
    #[arg(long, requires = "checkpoint", conflicts_with = "resume")]
    auto_resume: bool,
}

impl Arguments {
    /// An option that asks for checkpoints or goes on from one, if one is given.
    pub fn asked(&self) -> Option<&'static str> {
        match (&self.checkpoint, &self.resume) {
            (Some(_), _) => Some("--checkpoint"),
            (_, Some(_)) => Some("--resume"),
            _ => None,
        }
    }
}

/// The checkpoints of a command.
#[derive(Clone, Debug)]
pub struct Options {
    file: Option<PathBuf>,
    /// Whether the first rank writes checkpoints.
    written: bool,
    every: Duration,
    resume: Option<PathBuf>,
    /// Whether `resume` is the file of --checkpoint, which need not exist.
    auto: bool,
}

impl TryFrom<Arguments> for Options {
    type Error = Error;

    fn try_from(arguments: Arguments) -> Result<Self, Error> {
        let Arguments { checkpoint: file, checkpoint_every, resume, auto_resume: auto } = arguments;
        let identity = |path: &PathBuf| Identity::read(path).ok().flatten();
        let same =
            file.as_ref().and_then(identity).is_some_and(|file| resume.as_ref().and_then(identity) == Some(file));
        if let Some(path) = resume.as_ref().filter(|_| !same) {
            file::reads(path)?;
        }
        file.as_deref().map_or(Ok(()), file::writes)?;
        // A time beyond the range of `Duration` never comes.
        let every = Duration::try_from_secs_f64(checkpoint_every).unwrap_or(Duration::MAX);
        Ok(Self { written: file.is_some(), file, every, resume, auto })
    }
}

impl Options {
    /// Lets the options of the first rank decide whether checkpoints are written. With --auto-resume, its name of the file counts, and
    /// all ranks or none must have the checkpoint.
    pub fn join(&mut self, ranks: &Ranks) -> Result<(), Error> {
        if self.auto {
            let own = self.file.as_ref().map(|path| path.as_os_str().as_encoded_bytes()).unwrap_or_default();
            let first = ranks.bytes_of_first(own)?;
            let first = || PathBuf::from(String::from_utf8_lossy(&first).into_owned());
            let path = if ranks.is_first() { self.file.clone() } else { Some(first()) };
            self.resume = path.filter(|path| path.exists());
            self.resume.as_deref().map(file::continues);
        }
        let all = ranks.gather(&[self.written.into(), self.resume.is_some().into()])?;
        self.written = all[0][0] == 1;
        match (0..).zip(&all).find(|(_, own)| own[1] != all[0][1]) {
            Some((rank, own)) if self.auto => {
                let [with, without] = if own[1] == 1 { [rank, 0] } else { [0, rank] };
                ranks.agree(Err(Error::Usage(format!(
                    "--auto-resume: rank {with} finds the checkpoint and rank {without} does not, expected one file for all"
                ))))
            }
            _ => Ok(()),
        }
    }

    /// Whether checkpoints are written.
    pub fn are_written(&self) -> bool {
        self.written
    }

    /// The checkpoint to go on from, once the ranks have joined.
    pub fn resume(&self) -> Option<&Path> {
        self.resume.as_deref()
    }

    /// Checks that the disk has room for checkpoints of at least this size.
    pub fn room(&self, bytes: u64) -> Result<(), Error> {
        self.file.as_deref().map_or(Ok(()), |path| file::room(path, bytes))
    }

    /// The checkpoints of a rank: the first writes them.
    pub fn of_rank(&self, rank: u32) -> Option<Checkpoints> {
        if rank > 0 {
            return self.written.then(Checkpoints::elsewhere);
        }
        Some(Checkpoints::new(self.file.clone()?, self.every, |error| {
            eprintln!("warning: {}; the run goes on", message(error));
        }))
    }
}

/// The error of checkpoints of which the last could not be written.
pub fn finish(checkpoints: Option<Checkpoints>) -> Result<(), Error> {
    Ok(checkpoints.map_or(Ok(()), Checkpoints::finish)?)
}
