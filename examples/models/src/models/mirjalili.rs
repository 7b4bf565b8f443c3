//! Platelets in a hospital's blood bank: Mirjalili, *Data-driven modelling and control of hospital blood inventory*, PhD
//! thesis, University of Toronto (2022).

use warpkov_device::device::Parameter;
use warpkov_kernels::mdp::{Outcomes, Table};

/// Orders of platelets, of which each unit arrives with one, two or three days left. The oldest units are used first.
///
/// A state is (7-day week, stock with two days left, with one): weekday · B² + two · B + one, B = `most_ordered` + 1. The
/// action is the order. Its outcomes are the demands, times the ways to divide the order into units with three, two and one
/// days left.
#[derive(Clone, Copy, Debug, Parameter)]
pub struct Mirjalili {
    /// The largest order, and the most units in stock of each age.
    pub most_ordered: u32,
    /// The largest demand.
    pub most_demanded: u32,
    /// Cost of an order.
    pub fixed_cost: f64,
    /// Cost of a unit demanded in vain.
    pub shortage_cost: f64,
    /// Cost of a unit that expires.
    pub waste_cost: f64,
    /// Cost of a unit in stock at the end of a day.
    pub holding_cost: f64,
    /// γ, the discount factor.
    pub gamma: f64,
}

/// Experiment 1 of the source, with three days.
#[cfg(not(target_arch = "nvptx64"))]
impl Default for Mirjalili {
    fn default() -> Self {
        let (fixed_cost, shortage_cost, waste_cost, holding_cost) = (10.0, 20.0, 5.0, 1.0);
        Self { most_ordered: 20, most_demanded: 20, fixed_cost, shortage_cost, waste_cost, holding_cost, gamma: 0.95 }
    }
}

/// r and mean of the demand from Monday to Sunday, each of a negative binomial distribution.
#[cfg(not(target_arch = "nvptx64"))]
const DEMANDS: [(f64, f64); 7] = [(3.5, 5.7), (11.0, 6.9), (7.2, 6.5), (11.1, 6.2), (5.9, 5.8), (5.5, 3.3), (2.2, 3.4)];
/// Logits of three, two and one days left at arrival.
#[cfg(not(target_arch = "nvptx64"))]
const LOGITS: [f64; 3] = [0.5, 1.0, 0.0];

/// The demand does not do the same whatever the order, so these are not `Events`; and the probabilities need a table.
impl Outcomes for Mirjalili {
    const MINIMIZE: bool = true;

    fn gamma(&self) -> f64 {
        self.gamma
    }
    fn states(&self) -> u64 {
        7 * u64::from(self.most_ordered + 1).pow(2)
    }
    fn actions(&self, _: &impl Table, _state: u64) -> u32 {
        self.most_ordered + 1
    }

    /// The probabilities of the demands of each weekday, then those of the ways to divide 0, 1, 2 … units.
    #[cfg(not(target_arch = "nvptx64"))]
    fn table(&self) -> Vec<f64> {
        use statrs::distribution::{Binomial, Discrete, NegativeBinomial};
        let mut table = Vec::new();
        for (r, mean) in DEMANDS {
            let Ok(demand) = NegativeBinomial::new(r, r / (r + mean)) else { return Vec::new() };
            let start = table.len();
            table.extend((0..self.most_demanded).map(|units| demand.pmf(units.into())));
            table.push(1.0 - table[start..].iter().sum::<f64>());
        }
        let [three, two, one] = LOGITS.map(f64::exp);
        for order in 0..=self.most_ordered {
            for first in 0..=order {
                let of = |units: u32, among: u32, share: f64| {
                    Binomial::new(share, among.into()).map_or(f64::NAN, |drawn| drawn.pmf(units.into()))
                };
                let of_first = of(first, order, three / (three + two + one));
                table.extend((0..=order - first).map(|second| of_first * of(second, order - first, two / (two + one))));
            }
        }
        table
    }

    fn outcomes(&self, table: &impl Table, state: u64, order: u32, mut each: impl FnMut(u64, f64, f64)) {
        let (state, base, most) = (state as u32, self.most_ordered + 1, self.most_ordered);
        let (weekday, two, one) = (state / (base * base), state / base % base, state % base);
        let fixed = if order > 0 { self.fixed_cost } else { 0.0 };
        let demands = weekday * (self.most_demanded + 1);
        // The units that arrive with three and two days left.
        let mut at = 7 * (self.most_demanded + 1) + order * (order + 1) * (order + 2) / 6;
        for first in 0..=order {
            for second in 0..=order - first {
                let stock = [(one + order - first - second).min(most), (two + second).min(most), first.min(most)];
                let arrive = table.number(at.into());
                at += 1;
                for demand in 0..=self.most_demanded {
                    let sold_one = stock[0].min(demand);
                    let sold_two = stock[1].min(demand - sold_one);
                    let sold_three = stock[2].min(demand - sold_one - sold_two);
                    let (expired, one, two) = (stock[0] - sold_one, stock[1] - sold_two, stock[2] - sold_three);
                    let short = demand - sold_one - sold_two - sold_three;
                    let waste =
                        self.waste_cost * f64::from(expired) + self.holding_cost * f64::from(expired + one + two);
                    let next = ((weekday + 1) % 7 * base + two) * base + one;
                    let probability = table.number((demands + demand).into()) * arrive;
                    each(next.into(), probability, fixed + self.shortage_cost * f64::from(short) + waste);
                }
            }
        }
    }
}

warpkov_kernels::model!(Mirjalili);
