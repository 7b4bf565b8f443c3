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
    /// m, the periods until a unit expires, at least 1.
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

impl DeMoor {
    /// (`most_ordered` + 1)ⁿ.
    fn power(&self, n: u32) -> u64 {
        u64::from(self.most_ordered + 1).pow(n)
    }
}

impl Events for DeMoor {
    const MINIMIZE: bool = true;

    fn gamma(&self) -> f64 {
        self.gamma
    }
    fn states(&self) -> u64 {
        self.power(self.life + self.lead_time - 1)
    }
    fn actions(&self, _state: u64) -> u32 {
        self.most_ordered + 1
    }
    fn events(&self, _state: u64, _order: u32) -> u32 {
        self.most_demanded + 1
    }

    /// P(d − ½ < X ≤ d + ½); the last d stands for all above.
    #[cfg(not(target_arch = "nvptx64"))]
    fn table(&self) -> Vec<f64> {
        use statrs::distribution::{ContinuousCDF, Gamma};
        let shape = self.variation.powi(-2);
        let Ok(gamma) = Gamma::new(shape, shape / self.mean) else { return Vec::new() };
        let below = |demand: u32| if demand > self.most_demanded { 1.0 } else { gamma.cdf(f64::from(demand) - 0.5) };
        (0..=self.most_demanded)
            .map(|demand| below(demand + 1) - if demand > 0 { below(demand) } else { 0.0 })
            .collect()
    }

    fn outcome(&self, state: u64, order: u32, demand: u32) -> (u64, f64) {
        let (base, all) = (self.power(1), self.power(self.life));
        let (coming, stock) = (state / all, state % all);
        let (mut wanted, mut kept, mut held, mut expired) = (u64::from(demand), 0, 0, 0);
        // Digit 0 counts the oldest units.
        for step in 0..self.life {
            let age = if self.newest_first > 0 { self.life - 1 - step } else { step };
            let units = stock / self.power(age) % base;
            let sold = units.min(wanted);
            wanted -= sold;
            match age {
                0 => expired = units - sold,
                _ => (kept, held) = (kept + (units - sold) * self.power(age - 1), held + units - sold),
            }
        }
        let (order, arrives) = (u64::from(order), if self.lead_time == 1 { u64::from(order) } else { coming % base });
        let coming = if self.lead_time == 1 { 0 } else { order * self.power(self.lead_time - 2) + coming / base };
        let next = coming * all + arrives * self.power(self.life - 1) + kept;
        let ordered = self.order_cost * order as f64 + self.shortage_cost * wanted as f64;
        (next, ordered + self.waste_cost * expired as f64 + self.holding_cost * held as f64)
    }
}

warpkov_kernels::events!(DeMoor);
