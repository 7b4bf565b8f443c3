//! `warpkov hmm generate`.

use std::io::Write;

use clap::{Args, Subcommand};
use warpkov_common::parameters::Parameters;
use warpkov_hmm::generate::{self, Kind};
use warpkov_hmm::io::Format;
use warpkov_hmm::model::Hmm;

use super::file::{output_format, write};
use super::{Error, Outcome};
use crate::common::choice::choice;
use crate::common::family::FamilyOptions;
use crate::common::file::FileOrStd;

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
    IceCream(IceCream),
}

/// Where to write the model.
#[derive(Args)]
struct Output {
    /// Where to write the model, or - for the standard output.
    #[arg(long, value_name = "FILE|-", required = true)]
    out: Option<FileOrStd>,
    /// Format of --out [default: that of its extension; json on the standard output].
    #[arg(long, value_parser = choice::<Format>(), value_name = "FORMAT")]
    to: Option<Format>,
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
    output: Output,
}

impl<P: Parameters> Emitting<P> {
    fn kind(&self) -> Kind {
        match self.dimensions {
            Some(dimensions) => Kind::Vectors { dimensions, full: self.full },
            None => Kind::Symbols(self.symbols),
        }
    }
}

// A model without parameters.
#[derive(Args)]
pub struct IceCream {
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
        let out = out.clone().ok_or_else(|| Error::Usage("--out is missing".to_owned()))?;
        let format = output_format(&out, *to)?;
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
    let options = Options::try_from(family)?;
    let model = options.family.generate()?;
    write(&options.out, options.format, &model, out)?;
    Ok(Outcome::Success)
}
