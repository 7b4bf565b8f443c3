//! `warpkov mdp generate`.

use std::io::Write;

use clap::{Args, Subcommand};
use warpkov::mdp::generate;
use warpkov::mdp::io::Format;
use warpkov::mdp::model::Mdp;

use super::file::{output_format, write};
use super::{Error, Outcome, convert};
use crate::cli::common::choice::choice;
use crate::cli::common::file::FileOrStd;

mod grids;
mod protocols;
mod random;
mod textbook;

/// Generates a model of a known family.
#[derive(Subcommand)]
pub enum Family {
    Grid(grids::Grid),
    Wetfloor(grids::Wetfloor),
    SuttonGrid(grids::SuttonGrid),
    Garnet(random::Garnet),
    Queueing(random::Queueing),
    Forest(textbook::Forest),
    Gambler(textbook::Gambler),
    CarRental(textbook::CarRental),
    Inventory(textbook::Inventory),
    Consensus(protocols::Consensus),
    Firewire(protocols::Firewire),
    Csma(protocols::Csma),
    Zeroconf(protocols::Zeroconf),
}

/// Examples of the command that lists the families.
pub const EXAMPLES: &str = "\
Examples:
  warpkov mdp generate grid --width 64 --height 64 --out grid.json
  warpkov mdp generate wetfloor --domain GW-256x256x4 --out gw.safetensors
  warpkov mdp generate garnet --states 100000 --actions 8 --branching 6 --out garnet.safetensors";

/// The destination of the model.
#[derive(Args)]
struct Output {
    /// Write the model to this file, or with - to the standard output.
    #[arg(long, value_name = "FILE|-")]
    out: FileOrStd,
    /// Format of --out [default: that of its extension; json on the standard output].
    #[arg(long, value_parser = choice::<Format>(), value_name = "FORMAT")]
    to: Option<Format>,
}

/// The arguments of a family.
trait Arguments {
    /// Checks that the arguments fit together, where the error names an option.
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Generates the model.
    fn generate(&self) -> Result<Mdp, generate::Error>;

    fn output(&self) -> &Output;
}

impl Family {
    fn arguments(&self) -> &dyn Arguments {
        match self {
            Self::Grid(arguments) => arguments,
            Self::Wetfloor(arguments) => arguments,
            Self::SuttonGrid(arguments) => arguments,
            Self::Garnet(arguments) => arguments,
            Self::Queueing(arguments) => arguments,
            Self::Forest(arguments) => arguments,
            Self::Gambler(arguments) => arguments,
            Self::CarRental(arguments) => arguments,
            Self::Inventory(arguments) => arguments,
            Self::Consensus(arguments) => arguments,
            Self::Firewire(arguments) => arguments,
            Self::Csma(arguments) => arguments,
            Self::Zeroconf(arguments) => arguments,
        }
    }
}

/// The model to generate, and its destination.
pub struct Options {
    family: Family,
    out: FileOrStd,
    format: Format,
}

impl TryFrom<Family> for Options {
    type Error = Error;

    fn try_from(family: Family) -> Result<Self, Error> {
        let arguments = family.arguments();
        arguments.check()?;
        let Output { out, to } = arguments.output();
        let (out, format) = (out.clone(), output_format(out, *to)?);
        Ok(Self { family, out, format })
    }
}

/// Generates the model, writes it.
pub fn run(options: &Options, out: impl Write) -> Result<Outcome, Error> {
    let model = options.family.arguments().generate()?;
    convert::note_losses(options.format, &model);
    write(&options.out, options.format, &model, out)?;
    Ok(Outcome::Success)
}
