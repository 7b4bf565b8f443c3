//! `warpkov mdp generate`.

use std::ffi::OsString;
use std::io::Write;
use std::ops::ControlFlow;

use clap::error::ErrorKind;
use clap::{Args, Command, FromArgMatches, Subcommand};
use warpkov_common::interrupt;
use warpkov_mdp::generate;
use warpkov_mdp::io::Format;
use warpkov_mdp::model::Mdp;
use warpkov_mdp::model::whole::Described;
use warpkov_runtime as runtime;

use super::file::{output_format, write};
use super::{Error, Outcome, convert};
use crate::common::choice::choice;
use crate::common::file::FileOrStd;
use crate::common::interrupts::handle_interrupts;
use crate::common::progress::Fraction;
use crate::common::ranks;

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
    /// Write the model to this file, or with - to the standard output. Rows of .safetensors are written as they are made, in parts by
    /// several ranks; in other formats, and of the protocols, the first rank makes the whole model.
    #[arg(long, value_name = "FILE|-", required = true)]
    out: Option<FileOrStd>,
    /// Format of --out [default: that of its extension; json on the standard output].
    #[arg(long, value_parser = choice::<Format>(), value_name = "FORMAT")]
    to: Option<Format>,
    #[command(flatten)]
    ranks: ranks::Arguments,
}

/// The options of [`Output`], which a model without a file has not.
const OF_OUTPUT: [&str; 6] = ["out", "to", "ranks", "rank", "master", "timeout"];

/// The arguments of a family.
trait Arguments {
    /// Checks that the arguments fit together, where the error names an option.
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Generates the model.
    fn generate(&self) -> Result<Mdp, generate::Error>;

    /// The model as a source of rows, if they are made on demand.
    fn source(&self) -> Result<Option<Box<dyn Described>>, generate::Error> {
        Ok(None)
    }

    fn output(&self) -> &Output;
}

/// Implements the model of a family whose rows are made on demand.
macro_rules! on_demand {
    () => {
        fn generate(&self) -> Result<warpkov_mdp::model::Mdp, generate::Error> {
            self.family()?.generate()
        }

        fn source(&self) -> Result<Option<Box<dyn warpkov_mdp::model::whole::Described>>, generate::Error> {
            Ok(Some(Box::new(self.family()?.source()?)))
        }

        fn output(&self) -> &Output {
            &self.output
        }
    };
}
use on_demand;

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

    /// The options of ranks.
    pub fn ranks(&self) -> &ranks::Arguments {
        &self.arguments().output().ranks
    }

    /// The family that a text names, with its options as those of `mdp generate`, without those of the output.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let family = Self::of_words(text.split_whitespace())
            .map_err(|message| Error::Usage(format!("--generate: {message}")))?;
        family.arguments().check()?;
        Ok(family)
    }

    /// The family that the words of a text name. An error is a message. [`generate`](Self::generate) checks that the options
    /// fit together.
    pub fn of_words(words: impl Iterator<Item = impl Into<OsString> + Clone>) -> Result<Self, String> {
        let command = Self::augment_subcommands(Command::new("generate").no_binary_name(true))
            .subcommand_required(true)
            .disable_help_subcommand(true)
            .mut_subcommands(|family| family.mut_arg("out", |out| out.required(false)));
        let wrong = |error: &clap::Error| match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::MissingSubcommand => {
                "expected a family and its options, which mdp generate FAMILY --help lists".to_owned()
            }
            _ => {
                // The message, without the tips.
                let text = error.to_string();
                let lines: Vec<_> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
                lines.join(" ").trim_start_matches("error: ").to_owned()
            }
        };
        let matches = command.try_get_matches_from(words).map_err(|error| wrong(&error))?;
        let given = |matches: &clap::ArgMatches, option: &str| {
            matches.value_source(option) == Some(clap::parser::ValueSource::CommandLine)
        };
        if let Some((_, matches)) = matches.subcommand()
            && let Some(option) = OF_OUTPUT.iter().find(|option| given(matches, option))
        {
            return Err(format!("--{option} is an option of mdp generate, expected options of the family only"));
        }
        Self::from_arg_matches(&matches).map_err(|error| wrong(&error))
    }

    /// Generates the model.
    pub fn generate(&self) -> Result<Mdp, Error> {
        self.arguments().check()?;
        Ok(self.arguments().generate()?)
    }

    /// The model as a source of rows, if they are made on demand.
    pub fn source(&self) -> Result<Option<Box<dyn Described>>, Error> {
        Ok(self.arguments().source()?)
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
        let Output { out, to, .. } = arguments.output();
        let out = out.clone().ok_or_else(|| Error::Usage("--out is missing".to_owned()))?;
        let format = output_format(&out, *to)?;
        Ok(Self { family, out, format })
    }
}

/// Generates the model, writes it.
pub fn run(family: Family, out: impl Write) -> Result<Outcome, Error> {
    let options = Options::try_from(family)?;
    let Options { family, out: to, format } = &options;
    let ranks = family.ranks().join()?;
    if let (FileOrStd::At(path), Format::Safetensors) = (to, format)
        && let Some(source) = ranks.agree(family.source())?
    {
        handle_interrupts();
        let progress = Fraction::new(!ranks.is_first());
        let observe = |done| {
            progress.set(done);
            if interrupt::requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        match ranks.write_model(path, &*source, observe) {
            Ok(true) => return Ok(Outcome::Success),
            Ok(false) => {}
            Err(_) if interrupt::requested() => return Err(runtime::Error::Interrupted.into()),
            Err(error) => return Err(error),
        }
    }
    // The other ranks are done.
    if ranks.is_first() {
        let model = family.generate()?;
        convert::note_losses(*format, &model);
        write(to, *format, &model, out)?;
    }
    Ok(Outcome::Success)
}
