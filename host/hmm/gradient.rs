//! Derivatives of ln P(O) with respect to all parameters of a model, by Fisher's identity:
//!
//! > ∂ ln P(O) / ∂θ = E[∂ ln P(O, q) / ∂θ given O]
//!
//! So they follow from the [expected counts](Expected), on every backend: those of ln πᵢ, ln Aᵢⱼ, ln endᵢ and ln Bⱼₒ are the counts
//! themselves. All numbers are free: a caller whose parameters are functions of others, such as a softmax, applies the chain rule, by
//! which what normalises them is taken into account.

use super::backend::{Expected, Statistics};
use super::channels::{Channels, Domain, normal_slopes};
use super::model::{Covariances, Emissions, Hmm};

/// The derivatives of Σ w ln P(O) over sequences with [weights](super::sequences::Sequences::weights) w.
#[derive(Clone, Debug, PartialEq)]
pub struct Gradient {
    /// With respect to ln πᵢ, N.
    pub start: Vec<f64>,
    /// With respect to ln Aᵢⱼ, N × N.
    pub transitions: Vec<f64>,
    /// With respect to ln endᵢ, N.
    pub end: Option<Vec<f64>>,
    /// With respect to each parameter of the emissions.
    pub emissions: Vec<Derivative>,
}

/// The derivative with respect to a parameter of the emissions in all states.
#[derive(Clone, Debug, PartialEq)]
pub struct Derivative {
    /// The index of the channel, if the model has channels.
    pub channel: Option<usize>,
    /// The name of the parameter, as in JSON.
    pub name: &'static str,
    /// Whether the derivative is one with respect to the logarithms: of distributions, it is.
    pub logarithmic: bool,
    /// As many numbers as the parameter has, in the same order. Of a covariance matrix, all entries are free.
    pub numbers: Vec<f64>,
}

/// Why a model has no gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoGradient {
    /// Emissions as Rust code do not say their derivatives.
    #[error("channels[{0}] is Rust code, which has no derivatives")]
    Code(usize),
    /// The parameters of a semi-Markov model are not those of its expansion.
    #[error("derivatives are those of models without durations")]
    Durations,
}

/// The gradient at `model`, whose expected counts are `expected`.
///
/// # Errors
/// [`NoGradient`].
pub fn gradient(model: &Hmm, expected: &Expected) -> Result<Gradient, NoGradient> {
    if model.segments().is_some() {
        return Err(NoGradient::Durations);
    }
    let n = model.start().len();
    let of = |name, logarithmic, numbers| Derivative { channel: None, name, logarithmic, numbers };
    let emissions = match (model.emissions(), &expected.emissions) {
        (Emissions::Categorical { .. }, Statistics::Categorical(counts)) => vec![of("B", true, counts.clone())],
        (Emissions::Gaussian { covariances, .. }, Statistics::Gaussian { weights, sums, squares }) => {
            let (Covariances::Diagonal(numbers) | Covariances::Full(numbers)) = covariances;
            let [mut means, mut scales] = [Vec::new(), Vec::new()];
            let (d, width) = (sums.len() / n, squares.len() / n);
            for (state, weight) in weights.iter().enumerate() {
                let [of_mean, of_covariance] = normal_slopes(
                    *weight,
                    &sums[state * d..][..d],
                    &squares[state * width..][..width],
                    &numbers[state * width..][..width],
                );
                means.extend(of_mean);
                scales.extend(of_covariance);
            }
            vec![of("means", false, means), of("covariances", false, scales)]
        }
        (Emissions::Channels(channels), Statistics::Channels(sums)) => of_channels(channels, n, sums)?,
        // Unreachable: the counts are those of this model.
        _ => Vec::new(),
    };
    Ok(Gradient {
        start: expected.start.clone(),
        transitions: expected.transitions.clone(),
        end: model.end().map(|_| expected.end.clone()),
        emissions,
    })
}

fn of_channels(channels: &Channels, n: usize, sums: &[f64]) -> Result<Vec<Derivative>, NoGradient> {
    let (mut found, mut first, width) = (Vec::new(), 1, sums.len() / n);
    for (index, channel) in channels.list.iter().enumerate() {
        let own = channel.sums(n);
        let parameters = channel.parameters(n);
        let mut numbers = vec![Vec::new(); parameters.len()];
        for state in 0..n {
            let slopes = channel.slopes(n, state, &sums[state * width + first..][..own]);
            for (numbers, slope) in numbers.iter_mut().zip(slopes.ok_or(NoGradient::Code(index))?) {
                numbers.extend(slope);
            }
        }
        for (parameter, numbers) in parameters.iter().zip(numbers) {
            let logarithmic = parameter.domain == Domain::Distribution;
            found.push(Derivative { channel: Some(index), name: parameter.name, logarithmic, numbers });
        }
        first += own;
    }
    Ok(found)
}
