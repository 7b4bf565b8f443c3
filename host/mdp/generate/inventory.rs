//! Stochastic inventory control: Puterman, *Markov Decision Processes* (1994), section 3.2.

use super::demand::{Family, OnDemand};
use super::{Error, poisson};
use crate::model::Mdp;
use crate::model::whole::{At, Described};
use warpkov_common::parameters::{BELOW_ONE, FINITE, FRACTION, Interval, Parameters as _, number, parameters};

/// The mean of a Poisson demand.
const MEAN: Interval = Interval { text: "a number in [0, 1000000]", holds: |x| (0.0..=1e6).contains(&x) };

parameters! {
    /// A store of one product, which orders at the start of a month and sells during the month.
    ///
    /// State s is the stock, 0 to `capacity`. Action a orders a units, at most `max_order` and at most the free capacity.
    /// They arrive at once and cost `fixed_cost` + a·`unit_cost`, or 0 for a = 0. Each of the s + a units costs
    /// `holding_cost`. The store sells min(demand, s + a) units at `price` each; the excess demand is lost.
    ///
    /// The defaults are the example of the source's section 3.2.2; γ = 0.9.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Inventory {
        /// M, the capacity of the store in units, at least 1.
        pub capacity: u32 = 3, "UNITS" in 1..=u32::MAX - 1;
        /// Maximum units per order, at least 1. By default the capacity.
        pub max_order: Option<u32> = None, "UNITS" in 1..=u32::MAX;
        /// Probabilities of a monthly demand of 0, 1, … units; their sum is 1 within 10⁻⁹.
        pub demand: Vec<f64> = vec![0.25, 0.5, 0.25], "P,P,…" in FRACTION;
        /// Mean of a Poisson demand in units per month, in place of `demand`, in [0, 10⁶]. Its cut-off tail is negligible.
        pub demand_mean: Option<f64> = None, "UNITS" in MEAN;
        /// K, the fixed cost of an order; finite.
        pub fixed_cost: f64 = 4.0, "COST" in FINITE;
        /// The cost of a unit ordered; finite.
        pub unit_cost: f64 = 2.0, "COST" in FINITE;
        /// The cost of holding a unit for a month; finite.
        pub holding_cost: f64 = 1.0, "COST" in FINITE;
        /// The revenue per unit sold; finite.
        pub price: f64 = 8.0, "R" in FINITE;
        /// γ, the discount factor, in [0, 1).
        pub gamma: f64 = 0.9, "G" in BELOW_ONE;
    }
}

impl Inventory {
    /// Generates the model on all cores.
    ///
    /// # Errors
    /// A field is out of its range, or the model does not fit in memory.
    pub fn generate(&self) -> Result<Mdp, Error> {
        self.on_demand()?.whole()
    }

    /// The model as a source of rows.
    ///
    /// # Errors
    /// A field is out of its range.
    pub fn source(&self) -> Result<impl Described + use<>, Error> {
        self.on_demand()
    }

    fn on_demand(&self) -> Result<OnDemand<Months>, Error> {
        self.check()?;
        let demand = match self.demand_mean {
            // Nine standard deviations above the mean, and 20 more for small means.
            Some(mean) => poisson(mean, (mean + 9.0 * mean.sqrt()) as usize + 20),
            None => self.demand.clone(),
        };
        // `fold` starts at +0; `sum` of an empty iterator is −0, which the message would print.
        let total = demand.iter().fold(0.0, |sum, probability| sum + probability);
        number("the sum of the probabilities of demand", total, (total - 1.0).abs() <= 1e-9, "1 within 1e-9")?;

        let mut tail = demand.clone();
        for k in (1..tail.len()).rev() {
            // Rounding may push the sum above 1.
            tail[k - 1] = (tail[k - 1] + tail[k]).min(1.0);
        }
        let mut sold = vec![0.0];
        for (u, probability) in tail.iter().enumerate().skip(1) {
            sold.push(sold[u - 1] + probability);
        }
        OnDemand::new(Months { inventory: self.clone(), demand, tail, sold })
    }
}

/// The store, and what a month sells.
struct Months {
    inventory: Inventory,
    /// P(D = u), up to the largest demand.
    demand: Vec<f64>,
    /// P(D ≥ u), up to the largest demand.
    tail: Vec<f64>,
    /// E min(D, u) = Σ P(D ≥ k) over k = 1 … u, the expected sales from u units, up to the largest demand.
    sold: Vec<f64>,
}

impl Family for Months {
    fn states(&self) -> u64 {
        u64::from(self.inventory.capacity) + 1
    }

    fn gamma(&self) -> f64 {
        self.inventory.gamma
    }

    fn uniform(&self) -> Option<u32> {
        None
    }

    fn actions_of(&self, stock: u64) -> u32 {
        let Inventory { capacity, max_order, .. } = self.inventory;
        1 + (capacity - stock as u32).min(max_order.unwrap_or(capacity))
    }

    fn successors(&self, At { state: stock, action: ordered, .. }: At) -> impl Iterator<Item = (u64, f64)> {
        let (units, demand) = ((stock + u64::from(ordered)) as usize, &self.demand);
        let left = move |left: usize| (left as u64, demand.get(units - left).copied().unwrap_or_default());
        let none = (0, self.tail.get(units).copied().unwrap_or_default());
        let some = (units + 1).saturating_sub(demand.len()).max(1)..=units;
        std::iter::once(none).chain(some.map(left)).filter(|&(_, probability)| probability > 0.0)
    }

    fn reward(&self, At { state: stock, action: ordered, .. }: At) -> f64 {
        let Inventory { fixed_cost, unit_cost, holding_cost, price, .. } = self.inventory;
        let units = stock + u64::from(ordered);
        let order = if ordered > 0 { fixed_cost + unit_cost * f64::from(ordered) } else { 0.0 };
        price * self.sold[(units as usize).min(self.sold.len() - 1)] - order - holding_cost * units as f64
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
        assert_eq!(message(&[1.5, -0.5]), "demand is 1.5, expected a number in [0, 1]");
        let poisson = Inventory { demand_mean: Some(0.0), ..Inventory::default() };
        assert!(poisson.generate().is_ok());
        let message = Inventory { demand_mean: Some(1e7), ..poisson }.generate().err().unwrap().to_string();
        assert_eq!(message, "demand_mean is 10000000, expected a number in [0, 1000000]");
    }
}
