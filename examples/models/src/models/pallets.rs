//! Two perishable products that share a truck: joint replenishment, as in Khouja and Goyal, *European Journal of Operational
//! Research* 186 (2008), of products that expire.

use warpkov_device::device::Parameter;
use warpkov_kernels::mdp::Events;

/// Orders of two products in pallets. A truck costs the same, whatever is on it, and comes before the next period. A unit is
/// sold in the period of its arrival or one of the next two, and then expires. The oldest units are sold first.
///
/// A state is that of the first product times the number of states of a product, plus that of the second. The state of a
/// product is (pallets that have just come, units a period old, units two periods old), the last one counting fastest. The
/// action is the pallets ordered of the first product, times `most` + 1, plus those of the second; the event is the lots
/// demanded, in the same way.
#[derive(Clone, Copy, Debug, Parameter)]
pub struct Pallets {
    /// Units of a pallet.
    pub pallet: u32,
    /// Most pallets of a product in an order.
    pub most: u32,
    /// Units of a lot, in which customers buy.
    pub lot: u32,
    /// Most lots demanded of a product in a period.
    pub most_demanded: u32,
    /// Mean of the lots demanded, of a Poisson distribution.
    pub mean: f64,
    /// Cost of a truck.
    pub truck_cost: f64,
    /// Cost of a unit demanded in vain.
    pub shortage_cost: f64,
    /// Cost of a unit that expires.
    pub waste_cost: f64,
    /// Cost of a unit kept for a period.
    pub holding_cost: f64,
    /// γ, the discount factor.
    pub gamma: f64,
}

impl Pallets {
    /// Orders of at most three pallets of `pallet` units. With 30 units there are 1,097,199,376 states.
    #[must_use]
    pub fn of(pallet: u32) -> Self {
        let (lot, truck_cost) = (pallet / 2 + 1, 4.0 * f64::from(pallet));
        let (shortage_cost, waste_cost, holding_cost) = (9.0, 5.0, 0.25);
        let (most, most_demanded, mean, gamma) = (3, 4, 1.5, 0.95);
        Self { pallet, most, lot, most_demanded, mean, truck_cost, shortage_cost, waste_cost, holding_cost, gamma }
    }

    /// The numbers of units of an age, with 0.
    fn units(&self) -> u32 {
        self.pallet * self.most + 1
    }

    /// The number of states of a product.
    fn stocks(&self) -> u32 {
        (self.most + 1) * self.units() * self.units()
    }

    /// Units of a product: new, a period old, two periods old.
    fn product(&self, stock: u32) -> [u32; 3] {
        let units = self.units();
        [stock / (units * units) * self.pallet, stock / units % units, stock % units]
    }
    /// The next state of a product, and the cost of a period.
    #[inline(always)]
    fn sell(&self, [new, middle, old]: [u32; 3], lots: u32) -> (u32, f64) {
        let demand = lots * self.lot;
        let short = demand.saturating_sub(new + middle + old);
        let (expired, left) = (old.saturating_sub(demand), demand.saturating_sub(old));
        let (middle, left) = (middle.saturating_sub(left), left.saturating_sub(middle));
        let new = new.saturating_sub(left);
        let kept = self.waste_cost * f64::from(expired) + self.holding_cost * f64::from(middle + new);
        (new * self.units() + middle, self.shortage_cost * f64::from(short) + kept)
    }
}

impl Events for Pallets {
    const MINIMIZE: bool = true;
    type State = [[u32; 3]; 2];
    fn gamma(&self) -> f64 {
        self.gamma
    }
    fn states(&self) -> u64 {
        u64::from(self.stocks()) * u64::from(self.stocks())
    }
    fn actions(&self, _state: u64) -> u32 {
        (self.most + 1) * (self.most + 1)
    }
    fn state(&self, number: u64) -> Self::State {
        let stocks = u64::from(self.stocks());
        [number / stocks, number % stocks].map(|stock| self.product(stock as u32))
    }
    fn action(&self, _: &Self::State, order: u32) -> (u64, f64) {
        let (first, second) = (order / (self.most + 1), order % (self.most + 1));
        let come = u64::from(first) * u64::from(self.stocks()) + u64::from(second);
        (come * u64::from(self.units()).pow(2), if order > 0 { self.truck_cost } else { 0.0 })
    }
    fn events(&self, _: &Self::State) -> u32 {
        (self.most_demanded + 1) * (self.most_demanded + 1)
    }

    /// The product of two probabilities; the last lots stand for all above.
    #[cfg(not(target_arch = "nvptx64"))]
    fn table(&self) -> Vec<f64> {
        use statrs::distribution::{Discrete, DiscreteCDF, Poisson};
        let Ok(demand) = Poisson::new(self.mean) else { return Vec::new() };
        let last = u64::from(self.most_demanded);
        let of = |lots: u64| {
            if lots < last { demand.pmf(lots) } else { (1.0 - demand.cdf(last)).max(0.0) + demand.pmf(last) }
        };
        (0..=last).flat_map(|first| (0..=last).map(move |second| of(first) * of(second))).collect()
    }

    fn outcome(&self, &[first, second]: &Self::State, event: u32) -> (u64, f64) {
        let (first, cost) = self.sell(first, event / (self.most_demanded + 1));
        let (second, other) = self.sell(second, event % (self.most_demanded + 1));
        (u64::from(first) * u64::from(self.stocks()) + u64::from(second), cost + other)
    }
}

warpkov_kernels::events!(Pallets);
