//! Start states named on the command line.

use clap::Args;
use warpkov_mdp::ask::select;
use warpkov_mdp::model::Mdp;

use super::Error;

/// Where the process starts.
#[derive(Args)]
#[group(skip)]
pub struct Arguments {
    /// Start states, each equally likely: names or numbers, separated by commas, or a range 3..7 [default: those of label init, else all].
    #[arg(long, value_name = "STATES")]
    start: Option<String>,
}

impl Arguments {
    /// These states; none for the default.
    pub fn new(start: Option<String>) -> Self {
        Self { start }
    }

    /// The start states, and where they come from.
    pub fn states(&self, mdp: &Mdp) -> Result<(Vec<u32>, String), Error> {
        let of = |states: &[u32], what: &str| match states {
            [only] => format!("state {}{what}", mdp.state_name(*only)),
            states => format!("one of {} states{what}, each equally likely", states.len()),
        };
        if let Some(text) = &self.start {
            let states = chosen(mdp, text)?;
            let what = of(&states, "");
            return Ok((states, what));
        }
        match mdp.labels().get("init").filter(|states| !states.is_empty()) {
            Some(states) => Ok((states.clone(), of(states, " of label init"))),
            None => Ok((
                (0..mdp.states()).collect(),
                "any state, each equally likely (the model has no label init)".to_owned(),
            )),
        }
    }

    /// One start state, by default the first of label init, else state 0.
    pub fn state(&self, mdp: &Mdp) -> Result<u32, Error> {
        match &self.start {
            Some(text) => match chosen(mdp, text)?[..] {
                [only] => Ok(only),
                ref states => Err(Error::Usage(format!("--start: found {} states, expected one", states.len()))),
            },
            None => Ok(mdp.labels().get("init").and_then(|states| states.first()).copied().unwrap_or_default()),
        }
    }
}

fn chosen(mdp: &Mdp, text: &str) -> Result<Vec<u32>, Error> {
    select::states(mdp, text).map_err(|error| Error::Usage(format!("--start: {error}")))
}
