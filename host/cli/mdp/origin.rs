//! Where `warpkov mdp solve` has its model from: a file, or a family whose rows are made.

use std::borrow::Cow;
use std::ops::Range;

use clap::Args;
use warpkov_mdp::io::Mapped;
use warpkov_mdp::model::whole::{Described, Fault, Rows};
use warpkov_mdp::model::{Grid, Mdp, Named, Objective, Whole};
use warpkov_runtime::choose::DeviceChoice;
use warpkov_runtime::gpu::Background;

use super::Error;
use super::file::Reading;
use super::generate::Family;
use crate::common::file::FileOrStd;
use crate::common::ranks::Ranks;

/// The model to solve.
#[derive(Args)]
#[group(skip)]
pub struct Arguments {
    /// File of the model, or - for the standard input.
    #[arg(value_name = "FILE", required_unless_present = "generate")]
    file: Option<FileOrStd>,
    /// Solve a model that has no file: a family of `mdp generate` and its options, without --out, such as 'grid --width 64 --height 64'.
    /// Each of several ranks makes its own part.
    #[arg(long, value_name = "FAMILY", conflicts_with_all = ["file", "format", "reward", "costs"])]
    generate: Option<String>,
    #[command(flatten)]
    reading: Reading,
}

/// Where the model comes from.
pub enum Origin {
    /// A file.
    File(FileOrStd, Reading),
    /// A family, and the text that names it.
    Family(Box<Family>, String),
}

impl TryFrom<Arguments> for Origin {
    type Error = Error;

    fn try_from(arguments: Arguments) -> Result<Self, Error> {
        match (arguments.file, arguments.generate) {
            (_, Some(text)) => Ok(Self::Family(Box::new(Family::parse(&text)?), text)),
            (Some(file), None) => Ok(Self::File(file, arguments.reading)),
            (None, None) => Err(Error::Usage("expected FILE or --generate".to_owned())),
        }
    }
}

/// A model, or a model of which each rank has its own part.
pub enum Model {
    Whole(Box<Mdp>),
    Parts(Parts),
}

impl Origin {
    /// The name of the model in pictures.
    pub fn name(&self) -> String {
        match self {
            Self::File(file, _) => file.name(),
            Self::Family(_, text) => text.clone(),
        }
    }

    /// Starts the driver of the GPU in the background, as [`FileOrStd::start`] does.
    pub fn start(&self, device: DeviceChoice) -> Option<Background> {
        match self {
            Self::File(file, _) => file.start(device),
            Self::Family(..) => FileOrStd::Standard.start(device),
        }
    }

    /// Checks that every process can read the model.
    pub fn check(&self, ranks: &Ranks) -> Result<(), Error> {
        match self {
            Self::File(file, _) => ranks.one_input(file),
            Self::Family(..) => Ok(()),
        }
    }

    /// Opens the model to have it in parts, if that is possible.
    pub fn open_parts(&self) -> Result<Option<Parts>, Error> {
        Ok(match self {
            Self::File(file, reading) => reading.open_parts(file)?.map(|mapped| Parts::File(Box::new(mapped))),
            Self::Family(family, _) => family.source()?.map(|source| {
                let (gamma, objective, action_names) = (source.gamma(), source.objective(), source.action_names());
                Parts::Made(Made { source, gamma, objective, action_names })
            }),
        })
    }

    /// Reads or generates the whole model.
    pub fn read(&self) -> Result<Mdp, Error> {
        match self {
            Self::File(file, reading) => reading.read(file),
            Self::Family(family, _) => family.generate(),
        }
    }
}

/// A model of which each rank has its own part.
pub enum Parts {
    /// Each rank reads its rows.
    File(Box<Mapped>),
    /// Each rank makes its rows.
    Made(Made),
}

/// A generated model with another discount factor or objective.
pub struct Made {
    source: Box<dyn Described>,
    gamma: f64,
    objective: Objective,
    action_names: Vec<String>,
}

impl Named for Made {
    fn name_of_state(&self, state: u64) -> Cow<'_, str> {
        state.to_string().into()
    }

    fn name_of_action(&self, state: u64, action: u32) -> Cow<'_, str> {
        let of_row = self.source.rows(state..state + 1).ok().and_then(|rows| rows.names.get(action as usize).copied());
        let name = of_row.and_then(|name| self.action_names.get(name as usize));
        name.map_or_else(|| action.to_string().into(), |name| Cow::Borrowed(&name[..]))
    }
}

impl Whole for Made {
    fn states(&self) -> u64 {
        self.source.states()
    }

    fn gamma(&self) -> f64 {
        self.gamma
    }

    fn objective(&self) -> Objective {
        self.objective
    }

    fn transitions_before(&self, state: u64) -> u64 {
        self.source.transitions_before(state)
    }

    fn rows(&self, states: Range<u64>) -> Result<Rows<'_>, Fault> {
        self.source.rows(states)
    }
}

impl Parts {
    /// The model.
    pub fn whole(&self) -> &dyn Whole {
        match self {
            Self::File(mapped) => &**mapped,
            Self::Made(made) => made,
        }
    }

    /// Replaces the discount factor, and the optimisation sense.
    pub fn with(self, gamma: Option<f64>, objective: Option<Objective>) -> Result<Self, Error> {
        Ok(match self {
            Self::File(mut mapped) => {
                if let Some(gamma) = gamma {
                    let found = mapped.with_gamma(gamma);
                    *mapped = found.map_err(|error| Error::Usage(format!("--gamma: {error}")))?;
                }
                if let Some(objective) = objective {
                    *mapped = mapped.with_objective(objective);
                }
                Self::File(mapped)
            }
            Self::Made(made) => Self::Made(Made {
                gamma: gamma.unwrap_or(made.gamma),
                objective: objective.unwrap_or(made.objective),
                ..made
            }),
        })
    }

    /// The initial states, ascending.
    pub fn init(&self) -> Result<Vec<u64>, Error> {
        Ok(match self {
            Self::File(mapped) => mapped.init()?.collect(),
            Self::Made(made) => made.source.labels().remove("init").map(Cow::into_owned).unwrap_or_default(),
        })
    }

    /// The geometry, if the states are the cells of a grid.
    pub fn grid(&self) -> Result<Option<Grid>, Error> {
        Ok(match self {
            Self::File(mapped) => mapped.grid()?,
            Self::Made(made) => made.source.grid().map(Cow::into_owned),
        })
    }

    /// The names of states and actions, if there are any.
    pub fn names(&self) -> Option<&dyn Named> {
        match self {
            Self::File(mapped) => mapped.names(),
            Self::Made(made) => (!made.action_names.is_empty()).then_some(made as _),
        }
    }

    /// Says that the states keep their order.
    pub fn note(&self) -> &'static str {
        match self {
            Self::File(_) => "each rank reads a part of the file, whose order the states keep",
            Self::Made(_) => "each rank makes a part of the model, whose order the states keep",
        }
    }
}
