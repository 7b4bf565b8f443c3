//! The options of a family of models, which its parameters declare.

use std::ffi::OsString;
use std::marker::PhantomData;

use clap::builder::{PossibleValue, PossibleValuesParser, ValueParser};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, Subcommand};
use warpkov_common::choice::FileFormat;
use warpkov_common::parameters::{Parameter, Parameters};

use super::choice::choice;
use super::file::FileOrStd;
use crate::error::Error as Failure;

/// The options of a family that were given.
pub struct FamilyOptions<P> {
    options: Vec<(&'static str, String)>,
    family: PhantomData<fn() -> P>,
}

impl<P: Parameters> FamilyOptions<P> {
    /// The family with these options, and its defaults.
    pub fn family(&self) -> P {
        self.over(P::default())
    }

    /// `family` with these options in place of its own.
    pub fn over(&self, mut family: P) -> P {
        for (name, text) in &self.options {
            // The parser of the option has read the text.
            let _ = family.set(name, text);
        }
        family
    }
}

/// The option of a parameter: `--fixed-cost <COST>` for `fixed_cost`.
fn option<P: Parameters>(parameter: &Parameter) -> Arg {
    let Parameter { name, about, unit } = *parameter;
    let mut help = about.trim().trim_end_matches('.').replace('`', "");
    let option = Arg::new(name).long(name.replace('_', "-")).help_heading("Model");
    if unit == "flag" {
        return option.action(ArgAction::SetTrue).help(help);
    }
    if let Some(default) = P::default().text(name) {
        help.push_str(&format!(" [default: {default}]"));
    }
    let read = move |text: &str| P::default().set(name, text).map(|()| text.to_owned());
    let parser: ValueParser = match P::names(name) {
        names if names.is_empty() => read.into(),
        names => PossibleValuesParser::new(names.into_iter().map(|[name, about]| PossibleValue::new(name).help(about)))
            .into(),
    };
    option.value_name(unit).help(help).value_parser(parser).allow_hyphen_values(read("-1").is_ok())
}

impl<P: Parameters> Args for FamilyOptions<P> {
    fn augment_args(command: Command) -> Command {
        command.args(P::ALL.iter().filter(|parameter| !parameter.unit.is_empty()).map(option::<P>))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<P: Parameters> FromArgMatches for FamilyOptions<P> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = |parameter: &Parameter| {
            let text = match parameter.unit {
                "" => None,
                "flag" => matches.get_flag(parameter.name).then(|| "true".to_owned()),
                _ => matches.get_one::<String>(parameter.name).cloned(),
            };
            Some((parameter.name, text?))
        };
        Ok(Self { options: P::ALL.iter().filter_map(given).collect(), family: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

// A family whose options are its parameters, and a destination. (A doc comment would be the text of the command.)
#[derive(Args)]
pub struct Plain<P: Parameters, O: Args> {
    #[command(flatten)]
    pub options: FamilyOptions<P>,
    #[command(flatten)]
    pub output: O,
}

/// The destination of a model. (A family without one is that of [`named`].)
#[derive(Args)]
pub struct ModelFile<F: FileFormat> {
    /// Write the model to this file, or with - to the standard output.
    #[arg(long, value_name = "FILE|-", required = true)]
    out: Option<FileOrStd>,
    /// Format of --out [default: that of its extension; json on the standard output].
    #[arg(long, value_parser = choice::<F>(), value_name = "FORMAT")]
    to: Option<F>,
}

impl<F: FileFormat> ModelFile<F> {
    /// The file, and its format, which `format` validates.
    pub fn file(
        &self,
        format: impl FnOnce(&FileOrStd, Option<F>) -> Result<F, Failure>,
    ) -> Result<(FileOrStd, F), Failure> {
        let file = self.out.clone().ok_or_else(|| Failure::Usage("--out is missing".to_owned()))?;
        let format = format(&file, self.to)?;
        Ok((file, format))
    }
}

/// Options of the destination, which a model without a file has not.
const OF_OUTPUT: [&str; 6] = ["out", "to", "ranks", "rank", "master", "timeout"];

/// The family that the words of a text name, with its options as those of `generate`, without those of the output. An error is a
/// message.
pub fn named<F: Subcommand>(words: impl Iterator<Item = impl Into<OsString> + Clone>) -> Result<F, String> {
    let command = F::augment_subcommands(Command::new("generate").no_binary_name(true))
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .mut_subcommands(|family| family.mut_arg("out", |out| out.required(false)));
    let wrong = |error: &Error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::MissingSubcommand => {
            "expected a family and its options, which generate FAMILY --help lists".to_owned()
        }
        _ => {
            // The message, without the tips.
            let text = error.to_string();
            let lines: Vec<_> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
            lines.join(" ").trim_start_matches("error: ").to_owned()
        }
    };
    let matches = command.try_get_matches_from(words).map_err(|error| wrong(&error))?;
    let given = |matches: &ArgMatches, option: &str| {
        matches.try_contains_id(option).is_ok() && matches.value_source(option) == Some(ValueSource::CommandLine)
    };
    if let Some((_, matches)) = matches.subcommand()
        && let Some(option) = OF_OUTPUT.iter().find(|option| given(matches, option))
    {
        return Err(format!("--{option} is an option of generate, expected options of the family only"));
    }
    F::from_arg_matches(&matches).map_err(|error| wrong(&error))
}
