//! Options of the recursions and of training.

use super::model::{Covariances, Emissions, Hmm, is_semidefinite, share};
use warpkov_common::choice::choice;

choice! {
    /// Floating-point type of the recursions. Logarithms and expected counts are summed in `f64` in every case.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Precision {
        /// f32; for more than 128 states GPU tensor cores multiply TF32 numbers, with 11 significant bits.
        Tf32 = "tf32",
        /// 32-bit floating point.
        F32 = "f32",
        /// 64-bit floating point.
        #[default]
        F64 = "f64",
    }
}

impl Precision {
    /// Number of states up to which `Tf32` computes in f32.
    pub const TF32_STATES: u32 = 128;

    /// The [`Options::slack`] for recursions in this precision.
    #[must_use]
    pub fn slack(self) -> f64 {
        match self {
            Self::Tf32 => 1e-2,
            Self::F32 => 1e-4,
            Self::F64 => 1e-9,
        }
    }
}

/// Pseudocounts of π, of A or of B, each at least 0: a Dirichlet prior with parameters of 1 more.
#[derive(Clone, Debug, PartialEq)]
pub enum Pseudocount {
    /// Added to each count, also to those of ends.
    Equal(f64),
    /// Added to each count of π (N), A (N × N) or B (N × V), row by row. Ends have none.
    Each(Vec<f64>),
}

impl Default for Pseudocount {
    fn default() -> Self {
        Self::Equal(0.0)
    }
}

impl From<f64> for Pseudocount {
    fn from(count: f64) -> Self {
        Self::Equal(count)
    }
}

impl Pseudocount {
    /// That of the parameter at this index.
    pub(super) fn at(&self, index: usize) -> f64 {
        match self {
            Self::Equal(count) => *count,
            Self::Each(counts) => counts[index],
        }
    }

    /// That of each end probability.
    pub(super) fn of_ends(&self) -> f64 {
        match self {
            Self::Equal(count) => *count,
            Self::Each(_) => 0.0,
        }
    }

    fn numbers(&self) -> &[f64] {
        match self {
            Self::Equal(count) => std::slice::from_ref(count),
            Self::Each(counts) => counts,
        }
    }

    /// Whether there are as many as parameters, and all are in range.
    fn check(&self, of: &str, parameters: usize) -> Result<(), String> {
        if let Some(count) = self.numbers().iter().find(|count| !(count.is_finite() && **count >= 0.0)) {
            return Err(format!("a pseudocount of {of} is {count}, expected a number of at least 0"));
        }
        match self {
            Self::Each(counts) if counts.len() != parameters => {
                Err(format!("{of} has {} pseudocounts, expected {parameters}", counts.len()))
            }
            _ => Ok(()),
        }
    }
}

/// Pseudocounts added to the expected counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pseudocounts {
    /// Added to the counts of π.
    pub start: Pseudocount,
    /// Added to the counts of A and of end probabilities.
    pub transitions: Pseudocount,
    /// Added to the counts of B.
    pub emissions: Pseudocount,
}

impl Pseudocounts {
    /// The same pseudocount for all parameters.
    #[must_use]
    pub fn equal(count: f64) -> Self {
        Self { start: count.into(), transitions: count.into(), emissions: count.into() }
    }

    fn all(&self) -> [&Pseudocount; 3] {
        [&self.start, &self.transitions, &self.emissions]
    }

    /// Whether all pseudocounts are 0.
    fn none(&self) -> bool {
        self.all().into_iter().flat_map(Pseudocount::numbers).all(|count| *count == 0.0)
    }
}

/// A prior of means and covariances, whose logarithm is up to a constant
///
/// > −½ Σⱼ wⱼ (μⱼ − mⱼ)ᵀ Σⱼ⁻¹ (μⱼ − mⱼ) − ½ Σⱼ [tr(Ψⱼ Σⱼ⁻¹) + ν ln |Σⱼ|]
///
/// It has the effect of wⱼ observations at mⱼ, and of ν observations whose scatter is Ψⱼ: an inverse Wishart
/// distribution with ν − D − 1 degrees of freedom, and inverse gamma distributions if Σⱼ is diagonal. Of
/// [tied](Constraint::Tied) covariances, the second sum has the first term alone.
#[derive(Clone, Debug, PartialEq)]
pub struct NormalPrior {
    /// m, N × D.
    pub means: Vec<f64>,
    /// w, N numbers of at least 0.
    pub weights: Vec<f64>,
    /// Ψ, positive semidefinite, of the shape of the model's covariances: N × D or N × D × D.
    pub scales: Vec<f64>,
    /// ν, at least 0.
    pub degrees: f64,
}

impl NormalPrior {
    fn check(&self, model: &Hmm) -> Result<(), String> {
        let Emissions::Gaussian { dimensions, means, covariances } = model.emissions() else {
            return Err("a prior of means and covariances is for models that emit numbers".to_owned());
        };
        let d = *dimensions as usize;
        let (Covariances::Diagonal(numbers) | Covariances::Full(numbers), n) = (covariances, means.len() / d);
        let arrays = [
            ("means", &self.means, means.len()),
            ("weights", &self.weights, n),
            ("scales", &self.scales, numbers.len()),
        ];
        for (name, array, expected) in arrays {
            if array.len() != expected {
                return Err(format!("the prior has {} {name}, expected {expected}", array.len()));
            }
        }
        if let Some(mean) = self.means.iter().find(|mean| !mean.is_finite()) {
            return Err(format!("a prior mean is {mean}, expected a finite number"));
        }
        if let Some(weight) = self.weights.iter().chain([&self.degrees]).find(|x| !(x.is_finite() && **x >= 0.0)) {
            return Err(format!("a weight of the prior is {weight}, expected a number of at least 0"));
        }
        let valid = match covariances {
            Covariances::Diagonal(_) => self.scales.iter().all(|scale| scale.is_finite() && *scale >= 0.0),
            Covariances::Full(_) => self.scales.chunks_exact(d * d).all(|scale| is_semidefinite(scale, d)),
        };
        if valid { Ok(()) } else { Err("a scale of the prior is not positive semidefinite".to_owned()) }
    }
}

choice! {
    /// Covariances among which training finds the best.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Constraint {
        /// Each state has its own covariances, of the model's kind.
        #[default]
        None = "none",
        /// Each state has one variance for all dimensions.
        Spherical = "spherical",
        /// All states have the same covariances, of the model's kind.
        Tied = "tied",
    }
}

impl Constraint {
    /// Whether the covariances of a model satisfy the constraint.
    #[must_use]
    pub fn holds(self, model: &Hmm) -> bool {
        match model.emissions() {
            Emissions::Categorical { .. } | Emissions::Channels(_) => self == Self::None,
            Emissions::Gaussian { dimensions, covariances, .. } => {
                let d = *dimensions as usize;
                match self {
                    Self::None => true,
                    Self::Spherical => *covariances == covariances.clone().spherical(d),
                    Self::Tied => *covariances == covariances.clone().tied(d),
                }
            }
        }
    }
}

/// Parameters that training leaves as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frozen {
    /// π.
    pub start: bool,
    /// A, and the end probabilities.
    pub transitions: bool,
    /// B, or the means.
    pub emissions: bool,
    /// The covariances.
    pub covariances: bool,
}

choice! {
    /// The algorithm of training.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum By {
        /// Baum and Welch's: it counts all paths by their probabilities, and maximises P(O).
        #[default]
        BaumWelch = "baum-welch",
        /// Segmental k-means: it counts the most probable path q alone, and maximises P(O, q).
        Viterbi = "viterbi",
    }
}

impl By {
    /// What training maximises, if there is no prior.
    #[must_use]
    pub fn likelihood(self) -> &'static str {
        match self {
            Self::BaumWelch => "ln P(O)",
            Self::Viterbi => "ln P(O, q)",
        }
    }
}

/// Default of [`Options::floor`]. Standard deviations down to 3·10⁻⁵ of those of all observations are unaffected.
pub const FLOOR: f64 = 1e-9;

/// Options of training.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The algorithm. Recursions [over](crate::run::Setup::over) maxima take its E step for [`By::Viterbi`].
    pub by: By,
    /// Maximum number of M steps.
    pub iterations: u32,
    /// A model has converged when the relative increase of its objective is at most this.
    pub tolerance: f64,
    /// A model has also converged when the increase of its objective is at most this.
    pub tolerance_absolute: f64,
    /// Pseudocounts, a Dirichlet prior.
    pub pseudocounts: Pseudocounts,
    /// κ, at least 0: added to the expected counts of all Aᵢᵢ, beside the pseudocounts. States then last: a sticky chain.
    pub sticky: f64,
    /// The prior of means and covariances.
    pub normals: Option<NormalPrior>,
    /// Parameters that stay as they are.
    pub frozen: Frozen,
    /// The covariances to train. Those of the given models satisfy the constraint.
    pub constraint: Constraint,
    /// The class of each state, N numbers, or none: the states of a class share their emissions. Those of the given models, and priors,
    /// are equal in each class.
    pub ties: Vec<u32>,
    /// The class of each transition, N × N numbers, or none: those of a class share their probability; 0 is the class of those on their own.
    /// Rows with a common class have the same classes, each as often. Transitions of a class are equal in the given models. Of states with
    /// [durations](super::durations), transitions are those between visits.
    pub tied_transitions: Vec<u32>,
    /// Variance floor as a fraction of the variance of all observations, above 0; see
    /// [`Spread::floors`](super::maximise::Spread::floors).
    pub floor: f64,
    /// Largest relative decrease of the objective that counts as rounding; see [`Precision::slack`].
    pub slack: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            by: By::BaumWelch,
            iterations: 100,
            tolerance: 1e-6,
            tolerance_absolute: 0.0,
            pseudocounts: Pseudocounts::default(),
            sticky: 0.0,
            normals: None,
            frozen: Frozen::default(),
            constraint: Constraint::None,
            ties: Vec::new(),
            tied_transitions: Vec::new(),
            floor: FLOOR,
            slack: 1e-9,
        }
    }
}

impl Options {
    /// Whether training ends after the objective has changed by `change` from `from`.
    pub(super) fn tolerates(&self, change: f64, from: f64) -> bool {
        let absolute = self.tolerance_absolute;
        change <= self.tolerance * from.abs() || absolute > 0.0 && change <= absolute
    }

    /// Whether the objective is the likelihood alone.
    pub(super) fn no_prior(&self) -> bool {
        self.pseudocounts.none() && self.sticky == 0.0 && self.normals.is_none()
    }

    /// What is added to the expected count of Aᵢⱼ, at index i N + j of N states.
    pub(super) fn of_transition(&self, index: usize, states: usize) -> f64 {
        let sticky = if index / states == index % states { self.sticky } else { 0.0 };
        self.pseudocounts.transitions.at(index) + sticky
    }

    /// The pseudocounts of π, A and B, where the M step of a model that emits symbols has no other option.
    pub(super) fn plain(&self) -> Option<[f64; 3]> {
        match self.pseudocounts.all() {
            [&Pseudocount::Equal(start), &Pseudocount::Equal(transitions), &Pseudocount::Equal(emissions)]
                if self.frozen == Frozen::default()
                    && self.ties.is_empty()
                    && self.tied_transitions.is_empty()
                    && self.sticky == 0.0 =>
            {
                Some([start, transitions, emissions])
            }
            _ => None,
        }
    }

    /// Checks that the prior and the constraint fit a model.
    pub(super) fn check(&self, model: &Hmm) -> Result<(), String> {
        let Pseudocounts { start, transitions, emissions } = &self.pseudocounts;
        start.check("pi", model.start().len())?;
        transitions.check("A", model.transitions().len())?;
        Pseudocount::Equal(self.sticky).check("A[i][i]", 0)?;
        if let Emissions::Categorical { probs, .. } = model.emissions() {
            emissions.check("B", probs.len())?;
        }
        self.normals.as_ref().map_or(Ok(()), |prior| prior.check(model))?;
        if !self.constraint.holds(model) {
            return Err(format!("the covariances of the model are not {}", self.constraint));
        }
        if let Some(segments) = model.segments() {
            if self.ties != segments.of_state() {
                return Err("the steps of a duration are not tied".to_owned());
            }
            if matches!(transitions, Pseudocount::Each(_)) || matches!(start, Pseudocount::Each(_)) {
                return Err("a model with durations has one pseudocount for all transitions".to_owned());
            }
        }
        if !self.tied_transitions.is_empty() {
            model.clone().chain().check(&self.tied_transitions)?;
        }
        self.check_ties(model)
    }

    fn check_ties(&self, model: &Hmm) -> Result<(), String> {
        let (found, expected) = (self.ties.len(), model.start().len());
        if found == 0 {
            return Ok(());
        }
        if found != expected {
            return Err(format!("{found} classes of states are tied, expected {expected}"));
        }
        let differ = |numbers: &[f64]| {
            let mut shared = numbers.to_vec();
            share(&mut shared, &self.ties);
            shared != numbers
        };
        let normals = self.normals.iter().flat_map(|prior| [&prior.means, &prior.weights, &prior.scales]);
        let counts = match &self.pseudocounts.emissions {
            Pseudocount::Each(counts) => Some(counts),
            Pseudocount::Equal(_) => None,
        };
        if *model.emissions() != model.emissions().clone().shared(&self.ties) {
            return Err("the emissions of tied states differ".to_owned());
        }
        match normals.chain(counts).any(|numbers| differ(numbers)) {
            true => Err("the priors of tied states differ".to_owned()),
            false => Ok(()),
        }
    }

    /// Number of free parameters of a trained model: the positive entries of each distribution less one, all means, and the entries of the
    /// covariances that determine the others under the [constraint](Constraint); those of tied emissions and transitions only once.
    #[must_use]
    pub fn parameters(&self, model: &Hmm) -> usize {
        let determined = match self.tied_transitions.is_empty() {
            true => 0,
            false => model.clone().chain().determined(&self.tied_transitions),
        };
        let visits = model.visits();
        // The steps of a duration are those of one state.
        let ties = if model.segments().is_some() { &[][..] } else { &self.ties };
        let again = (0..ties.len()).filter(|&state| ties[..state].contains(&ties[state]));
        let parameters = match visits.emissions() {
            Emissions::Categorical { symbols, probs } => {
                let row = |state: usize| &probs[state * *symbols as usize..][..*symbols as usize];
                let free = |state: usize| row(state).iter().filter(|p| **p > 0.0).count().saturating_sub(1);
                model.parameters() - again.map(free).sum::<usize>()
            }
            Emissions::Gaussian { dimensions, covariances, .. } => {
                let (n, d) = (visits.start().len(), *dimensions as usize);
                let entries = match covariances {
                    Covariances::Diagonal(_) => d,
                    Covariances::Full(_) => d * (d + 1) / 2,
                };
                let (of_state, of_all) = match self.constraint {
                    Constraint::None => (entries, 0),
                    Constraint::Spherical => (1, 0),
                    Constraint::Tied => (0, entries),
                };
                model.parameters() - n * (entries - of_state) + of_all - again.count() * (d + of_state)
            }
            Emissions::Channels(channels) => {
                let n = visits.start().len();
                model.parameters() - again.count() * (channels.free(n) / n)
            }
        };
        parameters - determined
    }
}
