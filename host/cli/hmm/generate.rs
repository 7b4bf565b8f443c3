//! `warpkov hmm generate`.

use std::io::Write;

use clap::{Args, Subcommand};
use warpkov::hmm::generate::{IceCream, Kind, LeftRight, Uniform};
use warpkov::hmm::io::Format;
use warpkov::hmm::model::Hmm;

use super::file::{output_format, write};
use super::{Error, Outcome};
use crate::cli::common::choice::choice;
use crate::cli::common::file::ModelFile;

/// Examples of the command that lists the families.
pub const EXAMPLES: &str = "\
Examples:
  warpkov hmm generate random --states 64 --symbols 16 --out model.json
  warpkov hmm generate left-right --states 5 --dimensions 2 --out word.json
  warpkov hmm generate ice-cream --out ice-cream.json";

/// Generates a model of a known family.
#[derive(Subcommand)]
pub enum Family {
    Random(Random),
    LeftRight(Bakis),
    IceCream(IceCreams),
}

/// Generates Eisner's model: how many ice creams were eaten a day tells whether it was cold or hot.
#[derive(Args)]
#[command(after_help = "Examples:\n  warpkov hmm generate ice-cream --out ice-cream.json")]
pub struct IceCreams {
    #[command(flatten)]
    output: Output,
}

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

/// What states emit.
#[derive(Args)]
struct Emitted {
    /// States.
    #[arg(long, value_name = "N")]
    states: u32,
    /// Symbols that states emit.
    #[arg(long, value_name = "V", required_unless_present = "dimensions", conflicts_with = "dimensions")]
    symbols: Option<u32>,
    /// Dimensions of the vectors that states emit instead, by normal densities.
    #[arg(long, value_name = "D")]
    dimensions: Option<u32>,
    /// Correlate the dimensions.
    #[arg(long, requires = "dimensions")]
    full: bool,
    /// Give states an end.
    #[arg(long)]
    ends: bool,
    /// Seed of what is random.
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
}

impl Emitted {
    fn kind(&self) -> Kind {
        match (self.symbols, self.dimensions) {
            (_, Some(dimensions)) => Kind::Vectors { dimensions, full: self.full },
            (symbols, None) => Kind::Symbols(symbols.unwrap_or_default()),
        }
    }
}

/// Generates a random model: every distribution is as likely as another.
#[derive(Args)]
#[command(after_help = "Examples:\n  warpkov hmm generate random --states 64 --symbols 16 --out model.json")]
pub struct Random {
    #[command(flatten)]
    emitted: Emitted,
    #[command(flatten)]
    output: Output,
}

/// Generates a left-right model, as Bakis has them: states that are left are not come back to.
#[derive(Args)]
#[command(after_help = "Examples:\n  warpkov hmm generate left-right --states 5 --jump 2 --symbols 8 --out word.json")]
pub struct Bakis {
    #[command(flatten)]
    emitted: Emitted,
    /// States that a step may go on by.
    #[arg(long, value_name = "J", default_value_t = 1)]
    jump: u32,
    #[command(flatten)]
    output: Output,
}

impl Family {
    fn output(&self) -> &Output {
        match self {
            Self::Random(arguments) => &arguments.output,
            Self::LeftRight(arguments) => &arguments.output,
            Self::IceCream(arguments) => &arguments.output,
        }
    }

    fn generate(&self) -> Result<Hmm, Error> {
        Ok(match self {
            Self::Random(Random { emitted, .. }) => {
                let Emitted { states, ends, seed, .. } = *emitted;
                Uniform { states, kind: emitted.kind(), ends, seed }.generate()?
            }
            Self::LeftRight(Bakis { emitted, jump, .. }) => {
                let Emitted { states, ends, seed, .. } = *emitted;
                LeftRight { states, jump: *jump, kind: emitted.kind(), ends, seed }.generate()?
            }
            Self::IceCream(_) => IceCream.generate()?,
        })
    }
}

/// Generates, then writes.
pub fn run(family: &Family, out: impl Write) -> Result<Outcome, Error> {
    let Output { out: target, to } = family.output();
    let format = output_format(target, *to)?;
    write(target, format, &family.generate()?, out)?;
    Ok(Outcome::Success)
}
