//! What training leaves as it is, or trains only in part.

use clap::ValueEnum;
use warpkov_hmm::model::{Emissions, Hmm};
use warpkov_hmm::options::{Constraint, Frozen, Options};

use crate::error::Error;

/// The entries of the covariance matrices that are trained.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum Kind {
    /// The variances.
    Diagonal,
    /// All entries.
    Full,
    /// One variance per state.
    Spherical,
    /// One full matrix for all states.
    Tied,
}

impl Kind {
    /// The constraint on covariances of this kind.
    pub fn constraint(self) -> Constraint {
        match self {
            Self::Diagonal | Self::Full => Constraint::None,
            Self::Spherical => Constraint::Spherical,
            Self::Tied => Constraint::Tied,
        }
    }
}

/// Parameters that training may leave as they are.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum Freezable {
    /// Start probabilities, π.
    Start,
    /// Transition and end probabilities, A.
    Transitions,
    /// Probabilities of symbols, B.
    Symbols,
    /// Means of vectors.
    Means,
    /// Covariances of vectors.
    Covariances,
}

/// What stays of a model as it is.
pub fn frozen(model: &Hmm, parts: &[Freezable]) -> Result<Frozen, Error> {
    let has = |part| parts.contains(&part);
    let (vectors, symbols) = (has(Freezable::Means) || has(Freezable::Covariances), has(Freezable::Symbols));
    match model.emissions() {
        Emissions::Categorical { .. } if vectors => {
            return Err(Error::Usage("--freeze means and covariances is for models that emit numbers".to_owned()));
        }
        Emissions::Gaussian { .. } if symbols => {
            return Err(Error::Usage("--freeze symbols is for models that emit symbols".to_owned()));
        }
        Emissions::Channels(_) if vectors || symbols => {
            return Err(Error::Usage("--freeze start and transitions are for models of channels, not this".to_owned()));
        }
        _ => {}
    }
    let (start, transitions) = (has(Freezable::Start), has(Freezable::Transitions));
    Ok(Frozen {
        start,
        transitions,
        emissions: symbols || has(Freezable::Means),
        covariances: has(Freezable::Covariances),
    })
}

/// A random model with the frozen parameters of `model`.
pub fn kept(fresh: Hmm, model: &Hmm, frozen: Frozen) -> Result<Hmm, Error> {
    if frozen == Frozen::default() {
        return Ok(fresh);
    }
    let given = model.emissions();
    let keep = |fresh| match (fresh, given) {
        (
            Emissions::Gaussian { dimensions, means, covariances },
            Emissions::Gaussian { means: given, covariances: spreads, .. },
        ) => Emissions::Gaussian {
            dimensions,
            means: if frozen.emissions { given.clone() } else { means },
            covariances: if frozen.covariances { spreads.clone() } else { covariances },
        },
        (_, given) if frozen.emissions => given.clone(),
        (fresh, _) => fresh,
    };
    let kept = fresh.with_chain(model, frozen.start, frozen.transitions).with_emissions(keep);
    kept.map_err(|error| Error::Usage(format!("--freeze: {error}")))
}

/// The model with covariances of this kind.
pub fn with_covariances(model: Hmm, kind: Option<Kind>) -> Result<Hmm, Error> {
    let Some(kind) = kind else { return Ok(model) };
    if !matches!(model.emissions(), Emissions::Gaussian { .. }) {
        return Err(Error::Usage("--covariances is for models that emit numbers".to_owned()));
    }
    let changed = model.with_emissions(|emissions| match emissions {
        Emissions::Gaussian { dimensions, means, covariances } => {
            let d = dimensions as usize;
            let covariances = match kind {
                Kind::Diagonal => covariances.diagonal(d),
                Kind::Full => covariances.full(d),
                Kind::Spherical => covariances.diagonal(d).spherical(d),
                Kind::Tied => covariances.full(d).tied(d),
            };
            Emissions::Gaussian { dimensions, means, covariances }
        }
        others => others,
    });
    changed.map_err(|error| Error::Usage(format!("--covariances: {error}")))
}

/// The class of each state, if `tie` asks for ties. The steps of a duration are always tied.
pub fn ties(model: &Hmm, tie: bool) -> Result<Vec<u32>, Error> {
    match (model.segments(), tie) {
        (Some(segments), _) => Ok(segments.of_state()),
        (None, false) => Ok(Vec::new()),
        (None, true) if model.names().classes.is_empty() => {
            Err(Error::Usage("--tie: the model has no classes of states".to_owned()))
        }
        (None, true) => Ok(model.classes().of_state),
    }
}

/// The model with equal emissions in the states of each class, and equal probabilities in each class of transitions.
pub fn tied(mut model: Hmm, options: &Options) -> Result<Hmm, Error> {
    if !options.ties.is_empty() {
        let shared = model.with_emissions(|emissions| emissions.shared(&options.ties));
        model = shared.map_err(|error| Error::Usage(format!("--tie: {error}")))?;
    }
    if !options.tied_transitions.is_empty() {
        let shared = model.with_tied_transitions(&options.tied_transitions);
        model = shared.map_err(|error| Error::Usage(format!("--tie-transitions: {error}")))?;
    }
    Ok(model)
}
