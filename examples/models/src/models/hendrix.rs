//! Two perishable products, of which one may replace the other: Hendrix, Ortega, Haijema, Buisman and García,
//! *Computational and Mathematical Methods* 1 (2019).

use warpkov_device::device::Parameter;
use warpkov_kernels::mdp::{Events, Table};

/// Orders of two products a and b, whose oldest units are sold first. If b is sold out, some of its customers take a.
///
/// The digits of a state, in base `most` + 1, are the stock of a, the newest units first, and that of b. The action is the
/// order of a, times `most` + 1, plus that of b. The event is the units sold of a, times the stock of b + 1, plus those of b.
#[derive(Clone, Copy, Debug, Parameter)]
pub struct Hendrix {
    /// m, the periods until a unit expires, at least 1.
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
    /// Stock of a and of b, as digits.
    fn stocks(&self, state: u64) -> [u64; 2] {
        let all = u64::from(self.most + 1).pow(self.life);
        [state / all, state % all]
    }

    /// Units in a stock.
    fn units(&self, mut stock: u64) -> u32 {
        let (base, mut sum) = (u64::from(self.most + 1), 0);
        while stock > 0 {
            sum += stock % base;
            stock /= base;
        }
        sum as u32
    }

    /// The stock after a sale of the oldest units first, a period later, with an order that arrives.
    fn aged(&self, mut stock: u64, sold: u32, order: u32) -> u64 {
        let (base, mut left, mut kept, mut place) = (u64::from(self.most + 1), u64::from(sold), 0, 1);
        for age in 0..self.life {
            let sale = left.min(stock % base);
            // The oldest units expire; all others are a digit older.
            if age > 0 {
                (kept, place) = (kept + (stock % base - sale) * place, place * base);
            }
            (left, stock) = (left - sale, stock / base);
        }
        kept + u64::from(order) * place
    }
}

impl Events for Hendrix {
    fn gamma(&self) -> f64 {
        self.gamma
    }
    fn states(&self) -> u64 {
        u64::from(self.most + 1).pow(2 * self.life)
    }
    fn actions(&self, _state: u64) -> u32 {
        (self.most + 1).pow(2)
    }
    fn events(&self, state: u64, _order: u32) -> u32 {
        let [a, b] = self.stocks(state).map(|stock| self.units(stock));
        (a + 1) * (b + 1)
    }

    /// For y = 0 … units of b, and z = 0 … units of a: P(demand of b is y), P(that of a is z), P(that of a is at least z); then
    /// the same of a with the customers of b, if the demand of b is at least y: P(… is z), P(… is at least z).
    #[cfg(not(target_arch = "nvptx64"))]
    fn table(&self) -> Vec<f64> {
        use statrs::distribution::{Binomial, Discrete, DiscreteCDF, Poisson};
        let (Ok(a), Ok(b)) = (Poisson::new(self.mean_a), Poisson::new(self.mean_b)) else { return Vec::new() };
        let most = u64::from(self.most * self.life);
        let below = |demand: &Poisson, z: u64| if z > 0 { demand.cdf(z - 1) } else { 0.0 };
        let end = most + (self.mean_b + 40.0 * (1.0 + self.mean_b.sqrt())) as u64;
        let mut table = Vec::new();
        for y in 0..=most {
            let take = |u: u64, x: u64| Binomial::new(self.substitution, x - y).map_or(f64::NAN, |taken| taken.pmf(u));
            let extra: Vec<f64> = (0..=most).map(|u| (y + u..end).map(|x| b.pmf(x) * take(u, x)).sum()).collect();
            let mut left = 1.0 - below(&b, y);
            for z in 0..=most {
                let exactly: f64 = (0..=z).map(|own| a.pmf(own) * extra[(z - own) as usize]).sum();
                table.extend([b.pmf(y), a.pmf(z), 1.0 - below(&a, z), exactly, left]);
                left -= exactly;
            }
        }
        table
    }
    fn probability(&self, table: &impl Table, state: u64, _order: u32, event: u32) -> f64 {
        let [a, b] = self.stocks(state).map(|stock| self.units(stock));
        let (sold_a, sold_b, most) = (event / (b + 1), event % (b + 1), self.most * self.life);
        let at = 5 * u64::from(sold_b * (most + 1) + sold_a);
        match (sold_a == a, sold_b == b) {
            (false, false) => table.number(at) * table.number(at + 1),
            (true, false) => table.number(at) * table.number(at + 2),
            (false, true) => table.number(at + 3),
            (true, true) => table.number(at + 4),
        }
    }
    fn outcome(&self, state: u64, order: u32, event: u32) -> (u64, f64) {
        let [a, b] = self.stocks(state);
        let (sold_a, sold_b) = (event / (self.units(b) + 1), event % (self.units(b) + 1));
        let (order_a, order_b) = (order / (self.most + 1), order % (self.most + 1));
        let next =
            self.aged(a, sold_a, order_a) * u64::from(self.most + 1).pow(self.life) + self.aged(b, sold_b, order_b);
        (next, f64::from(sold_a + sold_b) - self.cost * f64::from(order_a + order_b))
    }
}

warpkov_kernels::events!(Hendrix);
