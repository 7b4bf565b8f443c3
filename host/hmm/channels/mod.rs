//! Emissions of several channels: vectors of D numbers, of which independent channels describe some columns each.
//!
//! > ln bⱼ(x) = Σ over channels of ln bⱼ(x of the channel | z of the channel)
//!
//! The regressors z of a channel are other columns, or earlier rows. A column is emitted by one channel, or by none if it is an input of
//! a channel: densities are then conditional on it. A channel whose columns are all missing has probability 1. So have missing components
//! where components are independent or normally distributed; otherwise a channel is missing as a whole.
//!
//! Every [family](Family) has an M step from sums over the observations, weighted by γ, that never lowers the expected log-likelihood.

mod code;
mod counts;
mod durations;
mod family;
mod gaussian;
mod law;
mod mixture;
mod natural;
mod regression;
mod student;
mod symbols;

use std::borrow::Cow;
use std::collections::HashSet;

use rand_chacha::ChaCha8Rng;
use warpkov_common::names::name;
use warpkov_common::parameters::SUM_TOLERANCE;

use self::family::{Estimated, Parametric};
use crate::covariances::{Covariances, cholesky, symmetrise};

pub use self::code::Code;
pub use self::counts::{Multinomial, Poisson};
pub use self::durations::{Exponential, Gamma};
pub(crate) use self::family::Density;
pub use self::family::{Domain, Parameter, Sizes};
pub use self::gaussian::Gaussian;
pub(crate) use self::gaussian::normal_slopes;
pub(crate) use self::law::{Coded, Law, natural};
pub use self::mixture::Mixture;
pub use self::regression::{Logistic, Regression};
pub use self::student::StudentT;
pub use self::symbols::{Bernoulli, Categorical};

/// Independent channels that together emit vectors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Channels {
    /// D, the number of columns.
    pub dimensions: u32,
    /// Names of the columns: none, or D distinct ones.
    pub names: Vec<String>,
    /// The channels. The inputs of a channel are columns that no channel emits, or that one before it does.
    pub list: Vec<Channel>,
}

/// A part of an emitted vector.
#[derive(Clone, Debug, PartialEq)]
pub struct Channel {
    /// The columns that it emits, C distinct numbers below D.
    pub columns: Vec<u32>,
    /// Their distributions, one for each state.
    pub family: Family,
}

/// A family of distributions, with its parameters in all states.
#[derive(Clone, Debug, PartialEq)]
pub enum Family {
    /// One of several symbols.
    Categorical(Categorical),
    /// Independent bits.
    Bernoulli(Bernoulli),
    /// Independent counts.
    Poisson(Poisson),
    /// Counts of outcomes in a number of trials.
    Multinomial(Multinomial),
    /// Independent durations.
    Exponential(Exponential),
    /// Independent numbers above 0.
    Gamma(Gamma),
    /// Normal distributions.
    Gaussian(Gaussian),
    /// Independent numbers with heavy tails.
    StudentT(StudentT),
    /// Mixtures of normal distributions.
    Mixture(Mixture),
    /// Linear regression, or autoregression.
    Regression(Regression),
    /// Logistic regression of bits.
    Logistic(Logistic),
    /// Rust code.
    Code(Code),
}

/// Names of the families that JSON has: all but code.
pub const FAMILIES: [&str; 11] = [
    "categorical",
    "bernoulli",
    "poisson",
    "multinomial",
    "exponential",
    "gamma",
    "gaussian",
    "student-t",
    "mixture",
    "regression",
    "logistic",
];

/// An invariant of [`Channels`] does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidChannel(String);

/// A component that no choice of parameters emits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unsupported {
    /// Its column.
    pub column: u32,
    /// Its value; NaN if it is missing.
    pub found: f64,
    /// The values that its family emits.
    pub expected: &'static str,
}

/// A value of a family, which is one type or another; of normal distributions, another value.
macro_rules! by_family {
    ($self:ident, $family:ident => $of_family:expr, $gaussian:ident => $of_gaussian:expr) => {
        match $self {
            Self::Gaussian($gaussian) => $of_gaussian,
            Self::Categorical($family) => $of_family,
            Self::Bernoulli($family) => $of_family,
            Self::Poisson($family) => $of_family,
            Self::Multinomial($family) => $of_family,
            Self::Exponential($family) => $of_family,
            Self::Gamma($family) => $of_family,
            Self::StudentT($family) => $of_family,
            Self::Mixture($family) => $of_family,
            Self::Regression($family) => $of_family,
            Self::Logistic($family) => $of_family,
            Self::Code($family) => $of_family,
        }
    };
}

impl Family {
    /// Its name; of code, that of the type.
    #[must_use]
    pub fn name(&self) -> &'static str {
        let index = match self {
            Self::Categorical(_) => 0,
            Self::Bernoulli(_) => 1,
            Self::Poisson(_) => 2,
            Self::Multinomial(_) => 3,
            Self::Exponential(_) => 4,
            Self::Gamma(_) => 5,
            Self::Gaussian(_) => 6,
            Self::StudentT(_) => 7,
            Self::Mixture(_) => 8,
            Self::Regression(_) => 9,
            Self::Logistic(_) => 10,
            Self::Code(code) => return code.name(),
        };
        FAMILIES[index]
    }

    fn parametric(&self) -> &dyn Parametric {
        by_family!(self, family => family, gaussian => gaussian)
    }

    fn parametric_mut(&mut self) -> &mut dyn Parametric {
        by_family!(self, family => family, gaussian => gaussian)
    }

    /// All but the normal distributions, which share their densities and their M step with models of one normal distribution.
    pub(crate) fn estimated(&self) -> Result<&dyn Estimated, &Gaussian> {
        by_family!(self, family => Ok(family), gaussian => Err(gaussian))
    }

    /// As [`estimated`](Self::estimated), to change parameters.
    pub(crate) fn estimated_mut(&mut self) -> Result<&mut dyn Estimated, &mut Gaussian> {
        by_family!(self, family => Ok(family), gaussian => Err(gaussian))
    }

    /// The columns that it depends on without emitting them.
    #[must_use]
    pub fn inputs(&self) -> &[u32] {
        match self {
            Self::Regression(Regression { inputs, .. }) | Self::Logistic(Logistic { inputs, .. }) => inputs,
            _ => &[],
        }
    }

    /// Number of earlier rows that it depends on.
    #[must_use]
    pub fn lags(&self) -> u32 {
        if let Self::Regression(Regression { lags, .. }) = self { *lags } else { 0 }
    }
}

/// A channel's components x and regressors z.
pub(crate) type Observed<'x> = (Cow<'x, [f64]>, Vec<f64>);

impl Channel {
    /// Whether its family is Rust code.
    #[must_use]
    pub fn is_code(&self) -> bool {
        matches!(self.family, Family::Code(_))
    }

    /// The sizes in a model of `states`.
    #[must_use]
    pub fn sizes(&self, states: usize) -> Sizes {
        let components = self.columns.len();
        let regressors = self.family.inputs().len() + self.family.lags() as usize * components;
        Sizes { states, components, regressors }
    }

    /// All parameters in a model of `states`.
    #[must_use]
    pub fn parameters(&self, states: usize) -> Vec<Parameter<'_>> {
        self.family.parametric().parameters(self.sizes(states))
    }

    /// The numbers of all parameters, in the order of [`parameters`](Self::parameters).
    pub fn numbers_mut(&mut self) -> Vec<&mut Vec<f64>> {
        self.family.parametric_mut().numbers_mut()
    }

    /// Number of sums per state of the M step.
    pub(crate) fn sums(&self, states: usize) -> usize {
        let sizes = self.sizes(states);
        match self.family.estimated() {
            Ok(family) => family.sums(sizes),
            Err(gaussian) => gaussian.sums(sizes),
        }
    }

    /// ∂ Σ γ ln b(x) / ∂θ of a state for each parameter, in order, from its sums; with respect to the logarithms of distributions. `None` for
    /// code.
    pub(crate) fn slopes(&self, states: usize, state: usize, sums: &[f64]) -> Option<Vec<Vec<f64>>> {
        match self.family.estimated() {
            Ok(family) => family.slopes(self.sizes(states), state, sums),
            Err(Gaussian { covariances, .. }) => {
                let (Covariances::Diagonal(numbers) | Covariances::Full(numbers)) = covariances;
                let (d, width) = (self.columns.len(), numbers.len() / states);
                let (own, squares) = (&numbers[state * width..][..width], &sums[1 + d..]);
                Some(normal_slopes(sums[0], &sums[1..=d], squares, own).into())
            }
        }
    }

    /// x and z of the last of some rows of a sequence; `None` if the channel has density 1 there: all of x is missing, or the sequence
    /// has fewer rows than z needs.
    pub(crate) fn observe<'x>(&self, rows: &'x [f64], dimensions: usize) -> Option<Observed<'x>> {
        let lags = self.family.lags() as usize;
        if rows.len() < (lags + 1) * dimensions {
            return None;
        }
        let row = |lag: usize| &rows[rows.len() - (lag + 1) * dimensions..][..dimensions];
        let (now, first) = (row(0), self.columns[0] as usize);
        let contiguous = self.columns.windows(2).all(|pair| pair[0] + 1 == pair[1]);
        let x = match contiguous {
            true => Cow::Borrowed(&now[first..first + self.columns.len()]),
            false => Cow::Owned(self.columns.iter().map(|&column| now[column as usize]).collect()),
        };
        if x.iter().all(|x| x.is_nan()) {
            return None;
        }
        let mut z: Vec<f64> = self.family.inputs().iter().map(|&column| now[column as usize]).collect();
        for lag in 1..=lags {
            z.extend(self.columns.iter().map(|&column| row(lag)[column as usize]));
        }
        Some((x, z))
    }

    /// The first component of the last of some rows that is impossible for every choice of parameters.
    pub(crate) fn unsupported(&self, states: usize, rows: &[f64], dimensions: usize) -> Option<Unsupported> {
        let (x, z) = self.observe(rows, dimensions)?;
        let inputs = self.family.inputs();
        if let Some(at) = z.iter().position(|z| z.is_nan()) {
            let column =
                inputs.get(at).copied().unwrap_or_else(|| self.columns[(at - inputs.len()) % self.columns.len()]);
            let expected = "a number, which a regression of this step depends on";
            return Some(Unsupported { column, found: f64::NAN, expected });
        }
        let (at, expected) = self.family.parametric().unsupported(self.sizes(states), &x)?;
        Some(Unsupported { column: self.columns[at], found: x[at], expected })
    }

    /// Free parameters: the positive entries of each distribution less one, and the entries of covariances on and below the diagonal.
    fn free(&self, states: usize) -> usize {
        let of = |parameter: Parameter<'_>| {
            let last = parameter.shape.last().copied().unwrap_or(1).max(1);
            match parameter.domain {
                Domain::Distribution => {
                    let positive = |row: &[f64]| row.iter().filter(|p| **p > 0.0).count().saturating_sub(1);
                    parameter.numbers.chunks_exact(last).map(positive).sum::<usize>()
                }
                Domain::Covariance => states * last * (last + 1) / 2,
                _ => parameter.numbers.len(),
            }
        };
        self.parameters(states).into_iter().map(of).sum()
    }
}

impl Channels {
    /// The name of a column, or its number.
    #[must_use]
    pub fn column(&self, column: u32) -> String {
        name(&self.names, column)
    }

    /// Number of earlier rows that densities depend on.
    #[must_use]
    pub fn lags(&self) -> usize {
        self.list.iter().map(|channel| channel.family.lags() as usize).max().unwrap_or(0)
    }

    /// Whether two models of so many states have channels of the same columns, families and shapes.
    #[must_use]
    pub fn same_shape(&self, other: &Self, states: usize) -> bool {
        let same = |(one, other): (&Channel, &Channel)| {
            let shapes = |channel: &Channel| -> Vec<Vec<usize>> {
                channel.parameters(states).into_iter().map(|parameter| parameter.shape).collect()
            };
            one.columns == other.columns
                && one.family.name() == other.family.name()
                && (one.family.inputs(), one.family.lags()) == (other.family.inputs(), other.family.lags())
                && shapes(one) == shapes(other)
        };
        self.dimensions == other.dimensions
            && self.list.len() == other.list.len()
            && self.list.iter().zip(&other.list).all(same)
    }

    /// Free parameters.
    #[must_use]
    pub fn free(&self, states: usize) -> usize {
        self.list.iter().map(|channel| channel.free(states)).sum()
    }

    /// The numbers of all parameters of all channels.
    pub fn numbers_mut(&mut self) -> Vec<&mut Vec<f64>> {
        self.list.iter_mut().flat_map(Channel::numbers_mut).collect()
    }

    /// The numbers of all parameters of all channels in a model of `states`.
    #[must_use]
    pub fn numbers(&self, states: usize) -> Vec<&[f64]> {
        self.list.iter().flat_map(|channel| channel.parameters(states)).map(|parameter| parameter.numbers).collect()
    }

    /// The first component of the last of some rows of a sequence that is impossible for every choice of parameters.
    #[must_use]
    pub fn unsupported(&self, states: usize, rows: &[f64]) -> Option<Unsupported> {
        self.list.iter().find_map(|channel| channel.unsupported(states, rows, self.dimensions as usize))
    }

    /// Which of the states emit the last of some rows with positive density.
    pub(crate) fn emitting(&self, states: usize) -> impl Fn(&[f64]) -> Vec<bool> {
        let prepared = |channel: &Channel| -> Option<(Channel, Box<dyn Density>)> {
            // Normal densities are positive everywhere.
            Some((channel.clone(), channel.family.estimated().ok()?.density(channel.sizes(states))))
        };
        let densities: Vec<_> = self.list.iter().filter_map(prepared).collect();
        let dimensions = self.dimensions as usize;
        move |rows| {
            let mut logs = vec![0.0; states];
            for (channel, density) in &densities {
                if let Some((x, z)) = channel.observe(rows, dimensions) {
                    density.add_logs(&x, &z, &mut logs);
                }
            }
            logs.iter().map(|log| *log > f64::NEG_INFINITY).collect()
        }
    }

    /// Draws the row of a state, given the rows before it. Earlier rows that the sequence does not have are taken as 0.
    ///
    /// # Errors
    /// If the model does not emit all columns, or does not say how many trials there are.
    pub(crate) fn draw(
        &self,
        states: usize,
        state: usize,
        before: &[f64],
        random: &mut ChaCha8Rng,
    ) -> Result<Vec<f64>, String> {
        let d = self.dimensions as usize;
        let lacking = before.len() / d.max(1);
        let mut rows = vec![0.0; self.lags().saturating_sub(lacking) * d];
        rows.extend_from_slice(before);
        rows.resize(rows.len() + d, 0.0);
        let now = rows.len() - d;
        for (index, channel) in self.list.iter().enumerate() {
            let Some((_, z)) = channel.observe(&rows, d) else { continue };
            if let Some(column) = channel.family.inputs().iter().find(|input| !self.emits(**input)) {
                let column = self.column(*column);
                return Err(format!("channel {index} depends on column {column}, which no channel emits"));
            }
            let drawn = channel.family.parametric().draw(channel.sizes(states), state, &z, random);
            let x = drawn.map_err(|needed| format!("channel {index} needs {needed}"))?;
            channel.columns.iter().zip(&x).for_each(|(&column, x)| rows[now + column as usize] = *x);
        }
        Ok(rows.split_off(now))
    }

    fn emits(&self, column: u32) -> bool {
        self.list.iter().any(|channel| channel.columns.contains(&column))
    }

    /// Validates the channels of `states`, and scales distributions to the sum 1.
    pub(crate) fn validate(&mut self, states: usize) -> Result<(), InvalidChannel> {
        let wrong = |text: String| Err(InvalidChannel(text));
        let d = self.dimensions;
        if self.list.is_empty() || d == 0 {
            return wrong("a model that emits vectors needs at least one channel".to_owned());
        }
        if !(self.names.is_empty() || self.names.len() == d as usize) {
            return wrong(format!("{} names of columns, expected {d}", self.names.len()));
        }
        let mut distinct = HashSet::new();
        if let Some(twice) = self.names.iter().find(|name| !distinct.insert(*name)) {
            return wrong(format!("two columns are called {twice:?}"));
        }
        let mut used = HashSet::new();
        for at in 0..self.list.len() {
            let Channel { columns, family } = &self.list[at];
            if columns.is_empty() {
                return wrong(format!("channels[{at}] has no columns"));
            }
            let inputs = family.inputs();
            if let Some(column) = columns.iter().chain(inputs).find(|column| **column >= d) {
                return wrong(format!("channels[{at}] has column {column}, expected one below {d}"));
            }
            let mut own = HashSet::new();
            let emitted = |column: &u32| self.list[..at].iter().any(|channel| channel.columns.contains(column));
            if let Some(&column) = columns.iter().find(|column| emitted(column) || !own.insert(**column)) {
                return wrong(format!("column {} is emitted twice, again by channels[{at}]", self.column(column)));
            }
            let mut own = HashSet::new();
            if let Some(&column) = inputs.iter().find(|input| !own.insert(**input)) {
                return wrong(format!("channels[{at}] has the input {} twice", self.column(column)));
            }
            let later = |column: &u32| self.list[at..].iter().any(|channel| channel.columns.contains(column));
            if let Some(&column) = inputs.iter().find(|column| later(column)) {
                let column = self.column(column);
                return wrong(format!(
                    "channels[{at}] has the input {column}, expected one that a channel before it emits, or none"
                ));
            }
            used.extend(columns.iter().chain(inputs).copied());
            if matches!(family, Family::Categorical(_)) && columns.len() > 1 {
                return wrong(format!("channels[{at}] is categorical with {} columns, expected 1", columns.len()));
            }
            if let Family::Code(code) = family
                && code.components() != columns.len()
            {
                let (name, expected) = (code.name(), code.components());
                return wrong(format!("channels[{at}] is {name} with {} columns, expected {expected}", columns.len()));
            }
            self.list[at].validate(at, states)?;
        }
        match (0..d).find(|column| !used.contains(column)) {
            Some(column) => wrong(format!("no channel has column {}", self.column(column))),
            None => Ok(()),
        }
    }
}

impl Channel {
    /// Validates the parameters of the channel with this index.
    fn validate(&mut self, index: usize, states: usize) -> Result<(), InvalidChannel> {
        let sizes = self.sizes(states);
        if sizes.regressors > MOST_REGRESSORS {
            let found = sizes.regressors;
            return Err(InvalidChannel(format!(
                "channels[{index}] has {found} regressors, expected at most {MOST_REGRESSORS}"
            )));
        }
        let mut shapes = Vec::new();
        for parameter in self.parameters(states) {
            let (name, found) = (parameter.name, parameter.numbers.len());
            let width = parameter.width();
            let expected = states.checked_mul(width).filter(|expected| *expected == found);
            if expected.is_none() || (width == 0 && parameter.domain != Domain::Real) {
                let shape: Vec<String> =
                    std::iter::once(states).chain(parameter.shape).map(|n| n.to_string()).collect();
                let shape = shape.join(" × ");
                return Err(InvalidChannel(format!("channels[{index}].{name} has {found} numbers, expected {shape}")));
            }
            shapes.push((name, parameter.shape, parameter.domain));
        }
        for (numbers, (name, shape, domain)) in self.numbers_mut().into_iter().zip(shapes) {
            let place = |at: usize| {
                let mut place = String::new();
                let mut rest = at;
                for length in shape.iter().rev() {
                    place = format!("[{}]{place}", rest % length);
                    rest /= length;
                }
                format!("channels[{index}].{name}[{rest}]{place}")
            };
            if let Some(at) = numbers.iter().position(|x| !domain.contains(*x)) {
                let (place, found, expected) = (place(at), numbers[at], domain.expected());
                return Err(InvalidChannel(format!("{place} is {found}, expected {expected}")));
            }
            let last = shape.last().copied().unwrap_or(1).max(1);
            match domain {
                Domain::Distribution => {
                    for (row, probs) in numbers.chunks_exact_mut(last).enumerate() {
                        let sum: f64 = probs.iter().sum();
                        if (sum - 1.0).abs() > SUM_TOLERANCE {
                            let place = place(row * last);
                            let place = place.rsplit_once('[').map_or(&place[..], |(place, _)| place);
                            return Err(InvalidChannel(format!("{place} sums to {sum}, expected 1")));
                        }
                        if (sum - 1.0).abs() > ROUNDING {
                            probs.iter_mut().for_each(|p| *p /= sum);
                        }
                    }
                }
                Domain::Covariance => {
                    for (state, matrix) in numbers.chunks_exact_mut(last * last).enumerate() {
                        if !symmetrise(matrix, last) || cholesky(matrix, last).is_none() {
                            let text =
                                format!("channels[{index}].{name}[{state}] is not symmetric and positive definite");
                            return Err(InvalidChannel(text));
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Largest number of regressors of a channel, whose M step has the sums of their products.
const MOST_REGRESSORS: usize = 1 << 12;

/// Deviation of a sum from 1 that rounding explains.
const ROUNDING: f64 = 1e-12;

impl Domain {
    fn contains(self, x: f64) -> bool {
        match self {
            Self::Real | Self::Covariance => x.is_finite(),
            Self::Positive => x.is_finite() && x > 0.0,
            Self::Nonnegative => x.is_finite() && x >= 0.0,
            Self::Probability => (0.0..=1.0).contains(&x),
            Self::Distribution => (0.0..=1.0 + SUM_TOLERANCE).contains(&x),
        }
    }

    fn expected(self) -> &'static str {
        match self {
            Self::Real | Self::Covariance => "a finite number",
            Self::Positive => "a positive number",
            Self::Nonnegative => "a number of at least 0",
            Self::Probability | Self::Distribution => "a probability",
        }
    }
}
