//! When a search ends, what it prints meanwhile, and where its controller goes.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use warpkov_common::interrupt;
use warpkov_common::report::Results;
use warpkov_pomdp::io::{Format, Kind};
use warpkov_pomdp::options::{Gap, Limits};
use warpkov_pomdp::plot::draw_bounds;
use warpkov_pomdp::report::progress;
use warpkov_pomdp::solution::{RankShare, Round};

use super::Error;
use super::file::output_format;
use crate::common::choice::choice;
use crate::common::file::FileOrStd;
use crate::common::number;
use crate::common::output::{Output, Plots, Quiet};

/// The limits of a search.
#[derive(Args)]
pub struct Ends {
    /// Stop when the bounds differ by at most this fraction of the value, or of 1 % of what a step of good play earns if that is more
    /// [default: 1e-3, without --gap].
    #[arg(long, value_name = "R", value_parser = number::positive)]
    relative_gap: Option<f64>,
    /// Stop when the bounds differ by at most G, whatever the value.
    #[arg(long, value_name = "G", value_parser = number::positive, conflicts_with = "relative_gap")]
    gap: Option<f64>,
    /// Maximum time in seconds.
    #[arg(long, value_name = "S", value_parser = number::positive)]
    time: Option<f64>,
}

impl Ends {
    /// The limits of a solution that is `exact` or not.
    pub fn limits(&self, exact: bool) -> Limits {
        Limits {
            gap: Gap::asked(self.gap, self.relative_gap, exact),
            // A time beyond the range of `Duration` is no limit.
            time: self.time.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
            ..Limits::default()
        }
    }
}

/// Prints one line of progress per second, unless it is to be `quiet`. Stops the search after Ctrl-C.
pub fn observer(quiet: bool) -> impl FnMut(&Round) -> ControlFlow<()> {
    let mut due = 1.0;
    move |round| {
        if !quiet && round.seconds >= due {
            due = round.seconds.floor() + 1.0;
            eprintln!("{}", progress(round));
        }
        if interrupt::requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Where the controller of a search goes, and its report.
#[derive(Args)]
pub struct ToGraph {
    /// Write the controller to this file, .pg or Graphviz' .dot; or with - to the standard output, in place of the report.
    #[arg(long, value_name = "FILE|-")]
    out: Option<FileOrStd>,
    /// Format of --out: pg or dot [default: that of its extension; pg on the standard output].
    #[arg(long, value_parser = choice::<Format>(), value_name = "FORMAT", requires = "out")]
    to: Option<Format>,
    /// Draw both bounds against time to this file, .svg or .png. May be repeated.
    #[arg(long, value_name = "FILE")]
    plot: Vec<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    quiet: Quiet,
}

/// The files of a search, which can be written.
pub struct GraphFiles {
    output: Output<Format>,
    plots: Plots,
    /// Whether to print the result line alone.
    pub quiet: bool,
}

impl TryFrom<ToGraph> for GraphFiles {
    type Error = Error;

    fn try_from(ToGraph { out, to, plot, json, quiet: Quiet { quiet } }: ToGraph) -> Result<Self, Error> {
        let file = match out {
            Some(file) => {
                let format = output_format(&file, to, &[Kind::Graph], Format::Pg)?;
                Some((file, format))
            }
            None => None,
        };
        let (output, plots) = (Output::to_file(file, json)?.quiet(quiet), Plots::new(plot)?);
        plots.check(1)?;
        Ok(Self { output, plots, quiet })
    }
}

impl GraphFiles {
    /// Writes the results of the model called `name`, draws the bounds of its rounds, and prints the report.
    pub fn write(
        &self,
        results: &impl Results<Format = Format>,
        (name, title): (&str, &str),
        rounds: &[Round],
        out: impl Write,
    ) -> Result<(), Error> {
        // A full disk or a closed pipe must not lose the other results.
        let written = self.output.write(results);
        let no_ranks: &[RankShare] = &[];
        let drawn = self.plots.draw(name, no_ranks, |format| draw_bounds(&format!("{name}: {title}"), rounds, format));
        self.output.print(results, out)?;
        written.and(drawn)
    }
}
