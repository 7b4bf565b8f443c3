//! `warpkov hmm generate`.

use std::io::Write;

use clap::{Args, Subcommand};
use warpkov_common::parameters::Parameters;
use warpkov_hmm::generate::{self, Kind};
use warpkov_hmm::io::Format;
use warpkov_hmm::model::Hmm;

use super::file::{output_format, write};
use super::{Error, Outcome};
use crate::common::family::{FamilyOptions, ModelFile};

pub const EXAMPLES: &str = "\
Examples:
  warpkov hmm generate random --states 64 --symbols 16 --out model.json
  warpkov hmm generate left-right --states 5 --dimensions 2 --out word.json
  warpkov hmm generate ice-cream --out ice-cream.json";

/// Generates a model of a known family.
#[derive(Subcommand)]
pub enum Family {
    /// Generates a random model: its distributions are drawn uniformly from all distributions.
    #[command(after_help = "Examples:\n  warpkov hmm generate random --states 64 --symbols 16 --out model.json")]
    Random(Emitting<generate::Uniform>),
    /// Generates a left-right (Bakis) model: transitions lead to the same state or to later ones.
    #[command(
        after_help = "Examples:\n  warpkov hmm generate left-right --states 5 --jump 2 --symbols 8 --out word.json"
    )]
    LeftRight(Emitting<generate::LeftRight>),
    /// Generates Eisner's model: the number of ice creams eaten on a day depends on whether the day is cold or hot.
    #[command(after_help = "Examples:\n  warpkov hmm generate ice-cream --out ice-cream.json")]
    IceCream(ModelFile<Format>),
}

// A family with emissions.
#[derive(Args)]
pub struct Emitting<P: Parameters> {
    #[command(flatten)]
    options: FamilyOptions<P>,
    /// Number of symbols that states emit.
    #[arg(long, value_name = "V", default_value_t = 2, conflicts_with = "dimensions")]
    symbols: u32,
    /// Dimensions of the vectors that states emit, with normal densities.
    #[arg(long, value_name = "D")]
    dimensions: Option<u32>,
    /// Draw full covariance matrices instead of diagonal ones.
    #[arg(long, requires = "dimensions")]
    full: bool,
    #[command(flatten)]
    output: ModelFile<Format>,
}

impl<P: Parameters> Emitting<P> {
    fn kind(&self) -> Kind {
        match self.dimensions {
            Some(dimensions) => Kind::Vectors { dimensions, full: self.full },
            None => Kind::Symbols(self.symbols),
        }
    }
}

impl Family {
    fn output(&self) -> &ModelFile<Format> {
        match self {
            Self::Random(arguments) => &arguments.output,
            Self::LeftRight(arguments) => &arguments.output,
            Self::IceCream(output) => output,
        }
    }

    /// Generates the model.
    pub fn generate(&self) -> Result<Hmm, Error> {
        Ok(match self {
            Self::Random(arguments) => {
                generate::Uniform { kind: arguments.kind(), ..arguments.options.family() }.generate()?
            }
            Self::LeftRight(arguments) => {
                generate::LeftRight { kind: arguments.kind(), ..arguments.options.family() }.generate()?
            }
            Self::IceCream(_) => generate::IceCream.generate()?,
        })
    }
}

/// Generates the model, writes it.
pub fn run(family: Family, out: impl Write) -> Result<Outcome, Error> {
    let (file, format) = family.output().file(output_format)?;
    let model = family.generate()?;
    write(&file, format, &model, out)?;
    Ok(Outcome::Success)
}
