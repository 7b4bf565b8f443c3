//! Stochastic inventory control: Puterman, *Markov Decision Processes* (1994), section 3.2.

use rayon::prelude::*;

use super::{Error, matrix, offsets, poisson, zeros};
use crate::common::parameters::{count, discount, finite, number};
use crate::mdp::model::{CHUNK, Choices, Csr, Mdp, MdpParts};

/// A store of one product, which orders at the start of a month and sells during the month.
///
/// State s is the stock, 0 to `capacity`. Action a orders a units, at most `max_order` and at most the free capacity.
/// They arrive at once and cost `fixed_cost` + a·`unit_cost`, or 0 for a = 0. Each of the s + a units costs
/// `holding_cost`. The store sells min(demand, s + a) units at `price` each; the excess demand is lost.
#[derive(Clone, Debug, PartialEq)]
pub struct Inventory {
    /// M, the capacity of the store in units, at least 1.
    pub capacity: u32,
    /// Maximum units per order, at least 1.
    pub max_order: u32,
    /// Probabilities of a monthly demand of 0, 1, … units; their sum is 1 within 10⁻⁹.
    pub demand: Vec<f64>,
    /// K, the fixed cost of an order; finite.
    pub fixed_cost: f64,
    /// The cost of a unit ordered; finite.
    pub unit_cost: f64,
    /// The cost of holding a unit for a month; finite.
    pub holding_cost: f64,
    /// The revenue per unit sold; finite.
    pub price: f64,
    /// γ, the discount factor, in [0, 1).
    pub gamma: f64,
}

/// The example of the source's section 3.2.2; γ = 0.9.
impl Default for Inventory {
    fn default() -> Self {
        Self {
            capacity: 3,
            max_order: 3,
            demand: vec![0.25, 0.5, 0.25],
            fixed_cost: 4.0,
            unit_cost: 2.0,
            holding_cost: 1.0,
            price: 8.0,
            gamma: 0.9,
        }
    }
}

impl Inventory {
    /// Poisson probabilities of the demand with mean `rate`, in units per month. The cut-off tail is negligible: the
    /// demands run to `rate` + 9·√`rate` + 20.
    ///
    /// # Errors
    /// `rate` is not in [0, 10⁶].
    pub fn poisson_demand(rate: f64) -> Result<Vec<f64>, Error> {
        number("the rate of demand", rate, (0.0..=1e6).contains(&rate), "a number in [0, 1000000]")?;
        // Nine standard deviations above the mean, and 20 more for small rates.
        Ok(poisson(rate, (rate + 9.0 * rate.sqrt()) as usize + 20))
    }

    /// Generates the model on all cores.
    ///
    /// # Errors
    /// A field is out of its range, or the model does not fit in memory.
    pub fn generate(&self) -> Result<Mdp, Error> {
        let Self { capacity, max_order, ref demand, gamma, .. } = *self;
        count("capacity", capacity, 1, u32::MAX - 1)?;
        count("max_order", max_order, 1, u32::MAX)?;
        for &probability in demand {
            number("a probability of demand", probability, (0.0..=1.0).contains(&probability), "a number in [0, 1]")?;
        }
        // `fold` starts at +0; `sum` of an empty iterator is −0, which the message would print.
        let total = demand.iter().fold(0.0, |sum, probability| sum + probability);
        number("the sum of the probabilities of demand", total, (total - 1.0).abs() <= 1e-9, "1 within 1e-9")?;
        finite("fixed_cost", self.fixed_cost)?;
        finite("unit_cost", self.unit_cost)?;
        finite("holding_cost", self.holding_cost)?;
        finite("price", self.price)?;
        discount(gamma)?;

        let most = capacity as usize;
        let choices = offsets(most + 1, |stock| 1 + (most - stock).min(max_order as usize))?;
        let choices = Choices::Ragged(choices.into());
        let rows = choices.total(capacity + 1);
        // tail[u] = P(D ≥ u). sold[u] = E min(D, u) = Σ P(D ≥ k) over k = 1 … u, the expected sales from u units.
        let mut tail = demand.clone();
        for k in (1..tail.len()).rev() {
            // Rounding may push the sum above 1.
            tail[k - 1] = (tail[k - 1] + tail[k]).min(1.0);
        }
        let at_least = |u: usize| tail.get(u).copied().unwrap_or_default();
        let mut sold: Vec<f64> = zeros(most + 1)?;
        for u in 1..=most {
            sold[u] = sold[u - 1] + at_least(u);
        }
        let filled = |row: usize| {
            let stock = choices.state_of(row);
            (row - choices.first(stock), stock + row - choices.first(stock))
        };
        let successors = |row: usize| {
            let (_, units) = filled(row);
            let left = move |left: usize| (left as u32, demand.get(units - left).copied().unwrap_or_default());
            let none = (0, at_least(units));
            let some = (units + 1).saturating_sub(demand.len()).max(1)..=units;
            std::iter::once(none).chain(some.map(left)).filter(|&(_, probability)| probability > 0.0)
        };
        let earned = |row: usize| {
            let (ordered, units) = filled(row);
            let order = if ordered > 0 { self.fixed_cost + self.unit_cost * ordered as f64 } else { 0.0 };
            self.price * sold[units] - order - self.holding_cost * units as f64
        };
        let action_rewards: Vec<_> = (0..rows).into_par_iter().with_min_len(CHUNK).map(earned).collect();
        let mdp = MdpParts {
            states: capacity + 1,
            choices: choices.clone(),
            gamma,
            transitions: matrix(rows, successors)?,
            rewards: Csr::empty(rows),
            action_rewards: action_rewards.into(),
            ..MdpParts::default()
        };
        Ok(mdp.validated()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Puterman, section 3.2.2: r(s, a) and p(j | s, a).
    #[test]
    fn is_the_example_of_the_source() {
        let mdp = Inventory::default().generate().unwrap();
        assert_eq!(mdp.expected_rewards(), [0.0, -1.0, -2.0, -5.0, 5.0, 0.0, -3.0, 6.0, -1.0, 5.0]);
        let row = |s: usize, a: usize| mdp.transitions().row(mdp.choices().first(s) + a);
        assert_eq!(row(0, 0), (&[0][..], &[1.0][..]));
        assert_eq!(row(0, 1), (&[0, 1][..], &[0.75, 0.25][..]));
        assert_eq!(row(1, 1), (&[0, 1, 2][..], &[0.25, 0.5, 0.25][..]));
        assert_eq!(row(2, 1), (&[1, 2, 3][..], &[0.25, 0.5, 0.25][..]));
    }

    #[test]
    fn invalid_demand_is_an_error() {
        let message = |demand: &[f64]| {
            Inventory { demand: demand.to_vec(), ..Inventory::default() }.generate().err().unwrap().to_string()
        };
        assert_eq!(message(&[0.5, 0.25]), "the sum of the probabilities of demand is 0.75, expected 1 within 1e-9");
        assert_eq!(message(&[]), "the sum of the probabilities of demand is 0, expected 1 within 1e-9");
        assert_eq!(message(&[1.5, -0.5]), "a probability of demand is 1.5, expected a number in [0, 1]");
        let poisson = Inventory::poisson_demand(0.0).unwrap();
        assert!(Inventory { demand: poisson, ..Inventory::default() }.generate().is_ok());
    }
}
