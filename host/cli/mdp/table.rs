//! The destination of a table of states, actions and numbers.

use clap::Args;
use warpkov_mdp::ask::table::TableFormat;

use super::Error;
use crate::common::choice::format;
use crate::common::file::FileOrStd;
use crate::common::output::{Output, Quiet};

#[derive(Args)]
#[group(skip)]
pub struct Arguments {
    /// Write the results of all states to this file: .csv by names, .json, or .npy; or with - to the standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<FileOrStd>,
    /// Format of --out [default: that of its extension; csv on the standard output].
    #[arg(long, value_parser = format::<TableFormat>(), value_name = "FORMAT", requires = "out")]
    to: Option<TableFormat>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    quiet: Quiet,
}

/// The validated arguments.
pub struct Destination {
    pub output: Output<TableFormat>,
    /// Whether no progress is shown.
    pub quiet: bool,
}

impl TryFrom<Arguments> for Destination {
    type Error = Error;

    fn try_from(Arguments { out, to, json, quiet: Quiet { quiet } }: Arguments) -> Result<Self, Error> {
        let output = Output::new(out, to, json, TableFormat::Csv)?.quiet(quiet);
        Ok(Self { output, quiet: quiet || json })
    }
}
