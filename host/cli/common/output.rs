//! Results: the file, the plot, and the printed report.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use warpkov_common::choice::FileFormat;
use warpkov_common::plot::panels::Panels;
use warpkov_common::plot::{Format, PlotError, draw_ranks};
use warpkov_common::ranks::RankShare;
use warpkov_common::report::{Report, Results};

use super::file::{FileOrStd, extension, write_whole, writes};
use super::ranks::ProcessUsage;
use crate::error::Error;

/// Where the results go: to a file, to the standard output, or only into the report.
pub struct Output<F> {
    file: Option<(FileOrStd, F)>,
    json: bool,
    quiet: bool,
}

impl<F: FileFormat> Output<F> {
    /// Validates `--out`, `--to` and `--json`. Results on the standard output are in the format `standard` unless `--to` names another.
    pub fn new(out: Option<FileOrStd>, to: Option<F>, json: bool, standard: F) -> Result<Self, Error> {
        let Some(file) = out else { return Self::to_file(None, json) };
        let format = file.format(to, F::ALL, standard)?;
        file.writes()?;
        Self::to_file(Some((file, format)), json)
    }

    /// Validates a file whose format is known.
    pub fn to_file(file: Option<(FileOrStd, F)>, json: bool) -> Result<Self, Error> {
        if json && matches!(file, Some((FileOrStd::Standard, _))) {
            return Err(Error::Usage("--out - and --json both write to the standard output".to_owned()));
        }
        Ok(Self { file, json, quiet: false })
    }

    /// Prints the guarantee alone in place of the text, if `quiet`.
    pub fn quiet(self, quiet: bool) -> Self {
        Self { quiet, ..self }
    }

    /// The format of the results, if they are written.
    pub fn format(&self) -> Option<F> {
        self.file.as_ref().map(|(_, format)| *format)
    }

    /// The file of the results and its format, if they go to a file.
    pub fn path(&self) -> Option<(&Path, F)> {
        match &self.file {
            Some((FileOrStd::At(path), format)) => Some((path, *format)),
            _ => None,
        }
    }

    /// Writes the file, if there is one.
    pub fn write(&self, results: &impl Results<Format = F>) -> Result<(), Error> {
        match self.path() {
            Some((path, format)) => write_whole(path, |out| results.write_as(format, out)),
            None => Ok(()),
        }
    }

    /// Prints the results, if they go to the standard output, else the report.
    pub fn print(&self, results: &impl Results<Format = F>, out: impl Write) -> Result<(), Error> {
        let mut out = BufWriter::new(out);
        match &self.file {
            Some((FileOrStd::Standard, format)) => results.write_as(*format, &mut out)?,
            _ => print_short(results, self.json, self.quiet, &mut out)?,
        }
        Ok(out.flush()?)
    }
}

/// `--quiet` of all commands that have it.
#[derive(Args, Clone, Copy)]
#[group(skip)]
pub struct Quiet {
    /// Print the result line only: the certificate, the bounds, the mean, the return or the log-likelihood. Show no progress.
    #[arg(long)]
    pub quiet: bool,
}

/// Prints a report: one JSON object, or text.
pub fn print(report: &impl Report, json: bool, out: impl Write) -> Result<(), Error> {
    print_short(report, json, false, out)
}

/// Prints a report: one JSON object, or its result line if it is to be `quiet`, or text.
pub fn print_short(report: &impl Report, json: bool, quiet: bool, out: impl Write) -> Result<(), Error> {
    let mut out = BufWriter::new(out);
    match report.guarantee() {
        _ if json => with_usage(&mut out, None, |out| report.write_json(out))?,
        Some(line) if quiet => writeln!(out, "{line}")?,
        _ => report.write_text(&mut out)?,
    }
    Ok(out.flush()?)
}

/// Lets `write` write a JSON object, with the use of GPUs as its last member if that is measured, and the energy of 10⁹ `backups`.
pub fn with_usage(
    out: &mut dyn Write,
    backups: Option<u64>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let Some(usage) = ProcessUsage::reported(backups) else { return write(out) };
    let usage = serde_json::to_string(&usage)?;
    let mut object = Vec::new();
    write(&mut object)?;
    let end = object.iter().rposition(|&byte| byte == b'}').unwrap_or(object.len());
    out.write_all(&object[..end])?;
    let comma = if object[..end].ends_with(b"{") { "" } else { "," };
    writeln!(out, "{comma}\"usage\":{usage}}}")
}

/// A plot to draw.
pub struct Plot {
    path: PathBuf,
    format: Format,
}

impl Plot {
    /// Validates the file of a plot: its name must end in .svg or .png.
    pub fn new(path: PathBuf) -> Result<Self, Error> {
        let format = match extension(&path, &["svg", "png"])? {
            "svg" => Format::Svg,
            _ => Format::Png,
        };
        writes(&path)?;
        Ok(Self { path, format })
    }

    /// Draws the plot and writes its file.
    pub fn draw(&self, draw: impl FnOnce(Format) -> Result<Vec<u8>, PlotError>) -> Result<(), Error> {
        let picture = draw(self.format)?;
        write_whole(&self.path, |out| out.write_all(&picture))
    }
}

/// Validates the files of plots.
pub fn plots(files: &[PathBuf]) -> Result<Vec<Plot>, Error> {
    files.iter().cloned().map(Plot::new).collect()
}

/// Draws the measurements of a benchmark to each file.
pub fn draw_panels(plots: &[Plot], panels: &Panels) -> Result<(), Error> {
    plots.iter().try_for_each(|plot| plot.draw(|format| panels.draw(format)))
}

/// The plots of a command that several ranks may run: of its results, and, as `ranks:FILE`, of the time of its ranks.
#[derive(Default)]
pub struct Plots {
    results: Vec<Plot>,
    ranks: Vec<Plot>,
}

impl Plots {
    /// Begins the name of a file for the time of the ranks.
    const RANKS: &str = "ranks:";

    /// Validates the files.
    pub fn new(files: Vec<PathBuf>) -> Result<Self, Error> {
        let mut plots = Self::default();
        for file in files {
            match file.to_str().and_then(|name| name.strip_prefix(Self::RANKS)) {
                Some(name) => plots.ranks.push(Plot::new(name.into())?),
                None => plots.results.push(Plot::new(file)?),
            }
        }
        Ok(plots)
    }

    /// Whether the results are drawn.
    pub fn of_results(&self) -> bool {
        !self.results.is_empty()
    }

    /// Checks that there are several ranks if their time is to be drawn.
    pub fn check(&self, ranks: usize) -> Result<(), Error> {
        match &self.ranks[..] {
            [Plot { path, .. }, ..] if ranks == 1 => {
                let path = path.display();
                Err(Error::Usage(format!(
                    "--plot ranks:{path} compares ranks: expected several (mpirun, cuda:all), found 1"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Draws the results by `draw`, and the time of the ranks that worked on the model with this name.
    pub fn draw<W>(
        &self,
        name: &str,
        ranks: &[RankShare<W>],
        draw: impl Fn(Format) -> Result<Vec<u8>, PlotError>,
    ) -> Result<(), Error> {
        let title = || format!("{name} on {} ranks", ranks.len());
        self.results.iter().try_for_each(|plot| plot.draw(&draw))?;
        self.ranks.iter().try_for_each(|plot| plot.draw(|format| draw_ranks(&title(), ranks, format)))
    }
}
