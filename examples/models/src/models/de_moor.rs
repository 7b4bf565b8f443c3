//! A perishable product whose stock expires: De Moor, Gijsbrechts and Boute, *European Journal of Operational Research*
//! 301 (2022).

use warpkov_device::device::Parameter;
use warpkov_kernels::mdp::Events;

/// Orders of a product that arrives after a lead time, all units equally old, and expires some periods later.
///
/// The digits of a state, in base `most_ordered` + 1, are the orders on their way, the last one first, and then the stock,
/// the newest units first. The action is the size of the order, the event the demand.
#[derive(Clone, Copy, Debug, Parameter)]
pub struct DeMoor {
    /// m, the periods until a unit expires, 1 to 8.
    pub life: u32,
    /// L, the periods from order to delivery, at least 1.
    pub lead_time: u32,
    /// The largest order.
    pub most_ordered: u32,
    /// The largest demand.
    pub most_demanded: u32,
    /// 1: the newest units leave first (LIFO). 0: the oldest (FIFO).
    pub newest_first: u32,
    /// Mean of the demand, which has a gamma distribution, rounded.
    pub mean: f64,
    /// Standard deviation of the demand over its mean.
    pub variation: f64,
    /// Cost of a unit ordered.
    pub order_cost: f64,
    /// Cost of a unit demanded in vain.
    pub shortage_cost: f64,
    /// Cost of a unit that expires.
    pub waste_cost: f64,
    /// Cost of a unit kept for a period.
    pub holding_cost: f64,
    /// γ, the discount factor.
    pub gamma: f64,
}

/// Experiment 1 of the source.
#[cfg(not(target_arch = "nvptx64"))]
impl Default for DeMoor {
    fn default() -> Self {
        Self {
            life: 2,
            lead_time: 1,
            most_ordered: 10,
            most_demanded: 100,
            newest_first: 1,
            mean: 4.0,
            variation: 0.5,
            order_cost: 3.0,
            shortage_cost: 5.0,
            waste_cost: 7.0,
            holding_cost: 1.0,
            gamma: 0.99,
        }
    }
}

impl Events for DeMoor {
    const MINIMIZE: bool = true;
    /// Units in stock and what one that is kept adds to the next state, in the order of sale; orders on their way; what a new
    /// unit adds to the stock's number, and the last order to those on their way.
    type State = ([(u32, u32); 8], u64, [u64; 2]);
    fn gamma(&self) -> f64 {
        self.gamma
    }
    fn states(&self) -> u64 {
        if self.life > 8 { 0 } else { u64::from(self.most_ordered + 1).pow(self.life + self.lead_time - 1) }
    }
    fn actions(&self, _state: u64) -> u32 {
        self.most_ordered + 1
    }
    fn state(&self, number: u64) -> Self::State {
        let (base, mut units) = (self.most_ordered + 1, [(0, 0); 8]);
        let (new, last) = (base.pow(self.life - 1), u64::from(base).pow(self.lead_time - 1));
        let (on_way, stock) = (number / u64::from(new * base), (number % u64::from(new * base)) as u32);
        let mut place = if self.newest_first > 0 { new } else { 1 };
        for age in 0..8 {
            if age < self.life {
                units[age as usize] = (stock / place % base, place / base);
                place = if self.newest_first > 0 { (place / base).max(1) } else { place * base };
            }
        }
        (units, on_way, [new.into(), last])
    }
    fn action(&self, &(_, on_way, [new, last]): &Self::State, order: u32) -> (u64, f64) {
        let (way, base) = (u64::from(order) * last + on_way, u64::from(self.most_ordered + 1));
        (way / base * (new * base) + way % base * new, self.order_cost * f64::from(order))
    }
    fn events(&self, _: &Self::State) -> u32 {
        self.most_demanded + 1
    }
    /// P(d − ½ < X ≤ d + ½); the last d stands for all above.
    #[cfg(not(target_arch = "nvptx64"))]
    fn table(&self) -> Vec<f64> {
        use statrs::distribution::{ContinuousCDF, Gamma};
        let shape = self.variation.powi(-2);
        let Ok(gamma) = Gamma::new(shape, shape / self.mean) else { return Vec::new() };
        let below = |demand: u32| gamma.cdf(f64::from(demand) - 0.5);
        let below: Vec<f64> = (0..=self.most_demanded).map(below).chain([1.0]).collect();
        below.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }
    fn outcome(&self, &(units, ..): &Self::State, demand: u32) -> (u64, f64) {
        let (mut wanted, mut next, mut held, mut expired) = (demand, 0, 0, 0);
        for (units, place) in units {
            let left = units.saturating_sub(wanted);
            wanted = wanted.saturating_sub(units);
            next += left * place;
            (held, expired) = if place > 0 { (held + left, expired) } else { (held, expired + left) };
        }
        let kept = self.waste_cost * f64::from(expired) + self.holding_cost * f64::from(held);
        (next.into(), self.shortage_cost * f64::from(wanted) + kept)
    }
}

warpkov_kernels::events!(DeMoor);
