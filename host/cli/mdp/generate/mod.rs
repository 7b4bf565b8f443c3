//! `warpkov mdp generate`.

use std::io::Write;

use clap::{Args, Subcommand};
use warpkov::mdp::generate;
use warpkov::mdp::io::Format;
use warpkov::mdp::model::Mdp;

use super::convert;
use crate::cli::common::choice::choice;
use crate::cli::common::file::ModelFile;
use crate::cli::error::{Error, Outcome};

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

/// Where to write the model.
#[derive(Args)]
struct Output {
    /// Where to write the model, or - for the standard output.
    #[arg(long, value_name = "FILE|-")]
    out: ModelFile,
    /// Format of --out [default: as its extension says; JSON on the standard output].
    #[arg(long, value_parser = choice::<Format>(), value_name = "FORMAT")]
    to: Option<Format>,
}

/// The arguments of a family.
trait Arguments {
    /// Whether they fit together, as far as options have to be named to say what does not.
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Makes the model.
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

/// Generates, then writes.
pub fn run(family: &Family, out: impl Write) -> Result<Outcome, Error> {
    let arguments = family.arguments();
    arguments.check()?;
    let Output { out: file, to } = arguments.output();
    let format = file.format(*to)?;
    let mdp = arguments.generate()?;
    convert::note_losses(format, &mdp);
    file.write(format, &mdp, out)?;
    Ok(Outcome::Success)
}
