//! Models and policies named on the command line.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use warpkov_common::choice::Choice;
use warpkov_common::interrupt;
use warpkov_pomdp::alpha::AlphaVectors;
use warpkov_pomdp::controller::{Controller, Values};
use warpkov_pomdp::io as formats;
use warpkov_pomdp::io::{Format, Kind};
use warpkov_pomdp::model::Pomdp;
use warpkov_pomdp::simulate::{self, Simulator};

use super::Error;
use crate::common::choice::choice;
use crate::common::file::{FileOrStd, reads};
use crate::common::interrupts::handle_interrupts;

/// The model that a command reads.
#[derive(Args)]
pub struct Input {
    /// File of the model, or - for the standard input.
    #[arg(value_name = "FILE")]
    pub file: FileOrStd,
    /// Format of FILE [default: that of its extension, else of its content].
    #[arg(long, alias = "from", value_parser = choice::<Format>(), value_name = "FORMAT")]
    pub format: Option<Format>,
}

impl Input {
    /// Reads the model.
    pub fn read(&self) -> Result<Pomdp, Error> {
        self.file.reads()?;
        Ok(match &self.file {
            FileOrStd::Standard => formats::read_from(io::stdin().lock(), "standard input", self.format)?,
            FileOrStd::At(path) => formats::read(path, self.format)?,
        })
    }
}

/// A model and a policy for it.
#[derive(Args)]
pub struct WithPolicy {
    #[command(flatten)]
    input: Input,
    /// Policy: alpha vectors in .alpha, or in SARSOP's XML.
    #[arg(long, value_name = "FILE")]
    policy: PathBuf,
}

impl WithPolicy {
    /// Refuses a model from the standard input, which has other content.
    pub fn keeps_standard_input(&self) -> Result<(), Error> {
        match self.input.file {
            FileOrStd::Standard => {
                Err(Error::Usage("the standard input has the observations: expected a file for the model".to_owned()))
            }
            FileOrStd::At(_) => Ok(()),
        }
    }

    /// Reads model and policy. The vectors have the sign of the model to be maximised.
    pub fn read(&self) -> Result<(Pomdp, AlphaVectors), Error> {
        let model = self.input.read()?;
        reads(&self.policy)?;
        let policy = signed(&self.policy, &model, formats::read_vectors(&self.policy, None, Some(&model))?)?;
        Ok((model, policy))
    }
}

/// A model, and alpha vectors or a controller for it.
#[derive(Args)]
pub struct WithAnyPolicy {
    #[command(flatten)]
    input: Input,
    /// Policy: alpha vectors in .alpha or SARSOP's XML, or a controller in .pg or .dot.
    #[arg(long, value_name = "FILE")]
    policy: PathBuf,
    /// Node in which a controller begins [default: the best at the start of the model, among those that a .dot marks, or those of a plan
    /// with the most steps].
    #[arg(long, value_name = "N")]
    node: Option<u32>,
}

/// A policy that can be simulated.
pub enum AnyPolicy {
    /// Alpha vectors of the model to be maximised.
    Vectors(AlphaVectors),
    /// A controller and its values.
    Controller(Controller, Values),
}

impl AnyPolicy {
    /// Prepares episodes.
    pub fn simulator<'m>(&'m self, model: &'m Pomdp, options: &simulate::Options) -> Result<Simulator<'m>, Error> {
        Ok(match self {
            Self::Vectors(vectors) => Simulator::new(model, vectors, options)?,
            Self::Controller(controller, values) => Simulator::of_controller(model, controller, values, options)?,
        })
    }

    /// The controller and its values, if it is one.
    pub fn controller(&self) -> Option<(&Controller, &Values)> {
        match self {
            Self::Vectors(_) => None,
            Self::Controller(controller, values) => Some((controller, values)),
        }
    }
}

impl WithAnyPolicy {
    /// Name of the model's file.
    pub fn name(&self) -> String {
        self.input.file.name()
    }

    /// Reads model and policy, and computes the values of a controller; an interrupt makes their bounds wider.
    pub fn read(&self) -> Result<(Pomdp, AnyPolicy), Error> {
        let model = self.input.read()?;
        reads(&self.policy)?;
        let policy = match formats::read_policy(&self.policy, None, &model, self.node)? {
            formats::AnyPolicy::Vectors(vectors) => AnyPolicy::Vectors(signed(&self.policy, &model, vectors)?),
            formats::AnyPolicy::Controller(controller) => {
                handle_interrupts();
                let values = controller.evaluate(&model, &interrupt::requested)?;
                AnyPolicy::Controller(controller, values)
            }
        };
        Ok((model, policy))
    }
}

/// Checks vectors and gives them the sign of the model to be maximised.
fn signed(path: &Path, model: &Pomdp, vectors: AlphaVectors) -> Result<AlphaVectors, Error> {
    let vectors = vectors.times(model.process().objective().sign());
    let wrong = |error| Error::Usage(format!("{}: {error}", path.display()));
    simulate::check(model, &vectors).map_err(wrong)?;
    Ok(vectors)
}

/// The format of a file of one of these kinds that is written to `file`: the requested format, else that of the extension, else `standard` on
/// the standard output.
pub fn output_format(
    file: &FileOrStd,
    asked: Option<Format>,
    kinds: &[Kind],
    standard: Format,
) -> Result<Format, Error> {
    let fits = |format: &Format| kinds.contains(&format.kind());
    let known: Vec<_> = Format::ALL.iter().copied().filter(fits).collect();
    let format = file.format(asked, &known, standard)?;
    if !fits(&format) {
        let (kind, kinds) = (format.kind(), kinds.iter().map(Kind::to_string).collect::<Vec<_>>().join(" or "));
        return Err(Error::Usage(format!("a file in {format} holds {kind}, expected {kinds}")));
    }
    file.writes()?;
    Ok(format)
}

/// Writes a model to a file or to the standard output.
pub fn write(file: &FileOrStd, format: Format, model: &Pomdp, out: impl Write) -> Result<(), Error> {
    match file {
        FileOrStd::Standard => formats::write_to(out, format, model)?,
        FileOrStd::At(path) => formats::write(path, format, model)?,
    }
    Ok(())
}
