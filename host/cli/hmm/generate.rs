//! `warpkov hmm generate`.

use std::io::Write;

use clap::{Args, Subcommand};
use warpkov_hmm::generate::{IceCream, Kind, LeftRight, Uniform};
use warpkov_hmm::io::Format;
use warpkov_hmm::model::Hmm;

use super::file::{output_format, write};
use super::{Error, Outcome};
use crate::common::choice::choice;
use crate::common::file::FileOrStd;

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

/// Generates Eisner's model: the number of ice creams eaten on a day depends on whether the day is cold or hot.
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
    out: FileOrStd,
    /// Format of --out [default: that of its extension; json on the standard output].
    #[arg(long, value_parser = choice::<Format>(), value_name = "FORMAT")]
    to: Option<Format>,
}

/// Size and emissions of the model.
#[derive(Args)]
struct Emitted {
    /// Number of states.
    #[arg(long, value_name = "N")]
    states: u32,
    /// Number of symbols that states emit.
    #[arg(long, value_name = "V", required_unless_present = "dimensions", conflicts_with = "dimensions")]
    symbols: Option<u32>,
    /// Dimensions of the vectors that states emit, with normal densities.
    #[arg(long, value_name = "D")]
    dimensions: Option<u32>,
    /// Draw full covariance matrices instead of diagonal ones.
    #[arg(long, requires = "dimensions")]
    full: bool,
    /// Give states end probabilities.
    #[arg(long)]
    ends: bool,
    /// Seed of the random numbers.
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

/// Generates a random model: its distributions are drawn uniformly from all distributions.
#[derive(Args)]
#[command(after_help = "Examples:\n  warpkov hmm generate random --states 64 --symbols 16 --out model.json")]
pub struct Random {
    #[command(flatten)]
    emitted: Emitted,
    #[command(flatten)]
    output: Output,
}

/// Generates a left-right (Bakis) model: transitions lead to the same state or to later ones.
#[derive(Args)]
#[command(after_help = "Examples:\n  warpkov hmm generate left-right --states 5 --jump 2 --symbols 8 --out word.json")]
pub struct Bakis {
    #[command(flatten)]
    emitted: Emitted,
    /// Number of later states that a step may reach.
    #[arg(long, value_name = "J", default_value_t = 1)]
    jump: u32,
    #[command(flatten)]
    output: Output,
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
        let Output { out, to } = family.output();
        let (out, format) = (out.clone(), output_format(out, *to)?);
        Ok(Self { family, out, format })
    }
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

/// Generates the model, writes it.
pub fn run(family: Family, out: impl Write) -> Result<Outcome, Error> {
    let options = Options::try_from(family)?;
    let model = options.family.generate()?;
    write(&options.out, options.format, &model, out)?;
    Ok(Outcome::Success)
}
