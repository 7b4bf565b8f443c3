//! Two perishable products, of which one may replace the other: Hendrix, Ortega, Haijema, Buisman and García,
//! *Computational and Mathematical Methods* 1 (2019).

use warpkov_device::device::Parameter;
use warpkov_kernels::mdp::{Events, Table};

/// Orders of two products a and b, whose oldest units are sold first. If b is sold out, some of its customers take a.
///
/// The digits of a state, in base `most` + 1, are the stock of a, the oldest units first, and that of b: an order adds to the
/// digit that counts fastest, so neighbouring orders lead to neighbouring states. The action is the order of a, times
/// `most` + 1, plus that of b. The event is the units sold of a, times the stock of b + 1, plus those of b.
#[derive(Clone, Copy, Debug, Parameter)]
pub struct Hendrix {
    /// m, the periods until a unit expires, 1 to 4.
    pub life: u32,
    /// The largest order of a product.
    pub most: u32,
    /// Mean demand of a, of a Poisson distribution.
    pub mean_a: f64,
    /// Mean demand of b.
    pub mean_b: f64,
    /// Probability that a customer takes a in place of b.
    pub substitution: f64,
    /// Cost of a unit ordered; a unit is sold for 1.
    pub cost: f64,
    /// γ, the discount factor.
    pub gamma: f64,
}

impl Hendrix {
    /// A product: units in stock, the newest first, and their sum.
    fn product(&self, mut stock: u32) -> ([u32; 4], u32) {
        let (base, mut units, mut sum) = (self.most + 1, [0; 4], 0);
        for units in &mut units {
            *units = stock % base;
            (sum, stock) = (sum + *units, stock / base);
        }
        (units, sum)
    }
    /// The next state of a product, before the order: the oldest units are sold first and expire, all others are a digit older.
    fn aged(&self, units: [u32; 4], mut sold: u32) -> u32 {
        let mut next = 0;
        for age in [3, 2, 1, 0] {
            let left = units[age].saturating_sub(sold);
            sold = sold.saturating_sub(units[age]);
            next = if age as u32 + 1 < self.life { (next + left) * (self.most + 1) } else { 0 };
        }
        next
    }
}

impl Events for Hendrix {
    /// The products a and b, and the number of states of each.
    type State = ([([u32; 4], u32); 2], u64);
    fn gamma(&self) -> f64 {
        self.gamma
    }
    fn states(&self) -> u64 {
        if self.life <= 4 { u64::from(self.most + 1).pow(2 * self.life) } else { 0 }
    }
    fn actions(&self, _state: u64) -> u32 {
        (self.most + 1).pow(2)
    }
    fn state(&self, number: u64) -> Self::State {
        let stocks = u64::from(self.most + 1).pow(self.life);
        ([number / stocks, number % stocks].map(|stock| self.product(stock as u32)), stocks)
    }
    fn action(&self, &(_, stocks): &Self::State, order: u32) -> (u64, f64) {
        let (order_a, order_b) = (order / (self.most + 1), order % (self.most + 1));
        (u64::from(order_a) * stocks + u64::from(order_b), -self.cost * f64::from(order_a + order_b))
    }
    fn events(&self, ([a, b], _): &Self::State) -> u32 {
        (a.1 + 1) * (b.1 + 1)
    }
    /// For y = 0 … units of b, and z = 0 … units of a: P(demand of b is y), P(that of a is z), P(that of a is at least z); then
    /// the same of a with the customers of b, if the demand of b is at least y: P(… is z), P(… is at least z).
    #[cfg(not(target_arch = "nvptx64"))]
    fn table(&self) -> Vec<f64> {
        use statrs::distribution::{Binomial, Discrete, DiscreteCDF, Poisson};
        let (Ok(a), Ok(b)) = (Poisson::new(self.mean_a), Poisson::new(self.mean_b)) else { return Vec::new() };
        let most = u64::from(self.most * self.life);
        let below = |demand: &Poisson, z: u64| if z > 0 { demand.cdf(z - 1) } else { 0.0 };
        let end = most + (self.mean_b + 12.0 * (1.0 + self.mean_b.sqrt())) as u64;
        let of_b: Vec<f64> = (0..end).map(|x| b.pmf(x)).collect();
        // P(u of n customers take a).
        let take = |n: u64, u: u64| Binomial::new(self.substitution, n).map_or(f64::NAN, |taken| taken.pmf(u));
        let taken: Vec<Vec<f64>> = (0..end).map(|n| (0..=most).map(|u| take(n, u)).collect()).collect();
        let mut table = Vec::new();
        for y in 0..=most {
            let of = |u: u64| (y + u..end).map(|x| of_b[x as usize] * taken[(x - y) as usize][u as usize]).sum();
            let extra: Vec<f64> = (0..=most).map(of).collect();
            let mut left = 1.0 - below(&b, y);
            for z in 0..=most {
                let exactly: f64 = (0..=z).map(|own| a.pmf(own) * extra[(z - own) as usize]).sum();
                // Differences of probabilities near 0 may be rounded below it.
                table.extend([of_b[y as usize], a.pmf(z), (1.0 - below(&a, z)).max(0.0), exactly, left.max(0.0)]);
                left -= exactly;
            }
        }
        table
    }
    fn probability(&self, table: &impl Table, ([a, b], _): &Self::State, event: u32) -> f64 {
        let (sold_a, sold_b, most) = (event / (b.1 + 1), event % (b.1 + 1), self.most * self.life);
        let at = 5 * u64::from(sold_b * (most + 1) + sold_a);
        match (sold_a == a.1, sold_b == b.1) {
            (false, false) => table.number(at) * table.number(at + 1),
            (true, false) => table.number(at) * table.number(at + 2),
            (false, true) => table.number(at + 3),
            (true, true) => table.number(at + 4),
        }
    }
    fn outcome(&self, &([a, b], stocks): &Self::State, event: u32) -> (u64, f64) {
        let (sold_a, sold_b) = (event / (b.1 + 1), event % (b.1 + 1));
        let next = u64::from(self.aged(a.0, sold_a)) * stocks + u64::from(self.aged(b.0, sold_b));
        (next, f64::from(sold_a + sold_b))
    }
}

warpkov_kernels::events!(Hendrix);
