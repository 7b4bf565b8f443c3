//! `warpkov hmm generate`.

use std::io::Write;

use clap::{Args, Subcommand};
use warpkov_common::parameters::Parameters;
use warpkov_hmm::generate::{self, Kind};
use warpkov_hmm::io::Format;
use warpkov_hmm::model::Hmm;

use super::file::{List, list, output_format, write};
use super::{Error, Outcome};
use crate::common::family::{FamilyOptions, ModelFile};

pub const EXAMPLES: &str = "\
Examples:
  warpkov hmm generate random --states 64 --symbols 16 --out model.json
  warpkov hmm generate random --states 8 --symbols A,C,G,T --out dna.json
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
    /// Symbols that states emit: their number, or their names between commas.
    #[arg(long, value_name = "V|NAMES", value_parser = symbols, default_value = "2", conflicts_with = "dimensions")]
    symbols: Symbols,
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
            None => Kind::Symbols(self.symbols.count),
        }
    }

    /// The model with the names of its symbols.
    fn named(&self, model: Hmm) -> Result<Hmm, Error> {
        let mut parts = model.into_parts();
        parts.names.symbols.clone_from(&self.symbols.names);
        parts.validated().map_err(|error| Error::Usage(format!("--symbols: {error}")))
    }
}

/// V, and names or none.
#[derive(Clone)]
struct Symbols {
    count: u32,
    names: Vec<String>,
}

/// Reads a number, or names.
fn symbols(text: &str) -> Result<Symbols, String> {
    if let Ok(count) = text.parse() {
        return Ok(Symbols { count, names: Vec::new() });
    }
    let List(names) = list(text).map_err(|_| "expected a number, or names between commas".to_owned())?;
    Ok(Symbols { count: names.len() as u32, names })
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
                let family = generate::Uniform { kind: arguments.kind(), ..arguments.options.family() };
                arguments.named(family.generate()?)?
            }
            Self::LeftRight(arguments) => {
                let family = generate::LeftRight { kind: arguments.kind(), ..arguments.options.family() };
                arguments.named(family.generate()?)?
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
