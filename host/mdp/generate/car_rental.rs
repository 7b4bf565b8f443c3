//! Jack's car rental: Sutton and Barto, *Reinforcement Learning*, 2nd edition, example 4.2.

use super::demand::{Family, OnDemand};
use super::{Error, poisson};
use crate::model::Mdp;
use crate::model::whole::{At, Described};
use warpkov_common::parameters::{BELOW_ONE, FINITE, Interval, Parameters as _, parameters};

/// The means of demand and returns.
const RATE: Interval = Interval { text: "a number in [0, 20]", holds: |x| (0.0..=20.0).contains(&x) };

parameters! {
    /// Two rental locations between which cars are moved overnight.
    ///
    /// State n₁·(`max_cars` + 1) + n₂ encodes the cars n₁ and n₂ at the two locations in the evening. An action is the net
    /// number of cars moved from the first location to the second, from −min(`max_moves`, n₂) to min(`max_moves`, n₁), in
    /// ascending order. Each moved car costs `move_cost`. On the next day, each location rents out as many cars as are
    /// requested and available, at `credit` each. Returned cars are available from the following day. Cars beyond
    /// `max_cars` at a location leave the system. Requests and returns are Poisson, with tails cut at 60.
    ///
    /// The defaults are those of the source.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct CarRental {
        /// Maximum cars at a location, 1 to 200.
        pub max_cars: u32 = 20, "CARS" in 1..=200;
        /// Maximum cars moved in a night, 0 to 200.
        pub max_moves: u32 = 5, "CARS" in 0..=200;
        /// Mean requests per day at each location, in [0, 20].
        pub rentals: [f64; 2] = [3.0, 4.0], "MEAN,MEAN" in RATE;
        /// Mean returns per day at each location, in [0, 20].
        pub returns: [f64; 2] = [3.0, 2.0], "MEAN,MEAN" in RATE;
        /// Cost per moved car; finite.
        pub move_cost: f64 = 2.0, "COST" in FINITE;
        /// Revenue per rented car; finite.
        pub credit: f64 = 10.0, "R" in FINITE;
        /// γ, the discount factor, in [0, 1).
        pub gamma: f64 = 0.9, "G" in BELOW_ONE;
    }
}

/// Maximum requests, and maximum returns, per day and location.
const TAIL: usize = 60;

impl CarRental {
    /// Generates the model.
    ///
    /// # Errors
    /// A field is out of its range.
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

    fn on_demand(&self) -> Result<OnDemand<Days>, Error> {
        self.check()?;
        let Self { max_cars, rentals, returns, .. } = *self;
        let places = [0, 1].map(|place| Location::new(max_cars as usize, rentals[place], returns[place]));
        OnDemand::new(Days { rental: *self, places })
    }
}

/// The rental, and a day at its two locations.
struct Days {
    rental: CarRental,
    places: [Location; 2],
}

impl Days {
    /// The number of states of a location.
    fn base(&self) -> u64 {
        u64::from(self.rental.max_cars) + 1
    }

    /// The most cars that can move to the first location.
    fn back(&self, state: u64) -> u64 {
        u64::from(self.rental.max_moves).min(state % self.base())
    }

    /// The cars that move to the second location.
    fn moved(&self, at: At) -> i64 {
        i64::from(at.action) - self.back(at.state) as i64
    }

    /// The cars at each location in the morning.
    fn morning(&self, at: At) -> [usize; 2] {
        let moved = self.moved(at);
        let cars = |evening: u64, change: i64| (evening as i64 + change).min(self.rental.max_cars.into()) as usize;
        [cars(at.state / self.base(), -moved), cars(at.state % self.base(), moved)]
    }
}

impl Family for Days {
    fn states(&self) -> u64 {
        self.base() * self.base()
    }

    fn gamma(&self) -> f64 {
        self.rental.gamma
    }

    fn uniform(&self) -> Option<u32> {
        None
    }

    fn actions_of(&self, state: u64) -> u32 {
        let there = u64::from(self.rental.max_moves).min(state / self.base());
        (there + self.back(state) + 1) as u32
    }

    fn successors(&self, at: At) -> impl Iterator<Item = (u64, f64)> {
        let ([first, second], base) = (self.morning(at), self.base() as usize);
        let (first, second) = (&self.places[0].evening[first], &self.places[1].evening[second]);
        let product = move |cars: usize| (cars as u64, first[cars / base] * second[cars % base]);
        (0..base * base).map(product).filter(|&(_, probability)| probability > 0.0)
    }

    fn reward(&self, at: At) -> f64 {
        let [first, second] = self.morning(at);
        let rented = self.places[0].rented[first] + self.places[1].rented[second];
        self.rental.credit * rented - self.rental.move_cost * self.moved(at).unsigned_abs() as f64
    }

    fn action_names(&self) -> Vec<String> {
        let most = i64::from(self.rental.max_moves);
        (-most..=most).map(|cars| cars.to_string()).collect()
    }

    fn name(&self, at: At) -> u32 {
        (self.moved(at) + i64::from(self.rental.max_moves)) as u32
    }
}

/// One day at a location, indexed by the number of cars in the morning.
struct Location {
    /// Expected rentals.
    rented: Vec<f64>,
    /// Distribution of the number of cars in the evening.
    evening: Vec<Vec<f64>>,
}

impl Location {
    fn new(most: usize, rental_rate: f64, return_rate: f64) -> Self {
        let (wanted, returned) = (poisson(rental_rate, TAIL), poisson(return_rate, TAIL));
        let rented = |cars: usize| (0..=TAIL).map(|wish| wanted[wish] * wish.min(cars) as f64).sum();
        let evening = |cars: usize| {
            let mut probabilities = vec![0.0; most + 1];
            for (wish, wished) in wanted.iter().enumerate() {
                for (back, came) in returned.iter().enumerate() {
                    probabilities[most.min(cars - wish.min(cars) + back)] += wished * came;
                }
            }
            // Rounding may push the sum above 1.
            probabilities.into_iter().map(|sum: f64| sum.min(1.0)).collect()
        };
        Self { rented: (0..=most).map(rented).collect(), evening: (0..=most).map(evening).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ActionNames;

    #[test]
    fn actions_are_moves() {
        let mdp = CarRental { max_cars: 6, ..CarRental::default() }.generate().unwrap();
        // Two cars at the first location, six at the second: at most two move there, at most five back.
        let rows = mdp.choices().rows(2 * 7 + 6);
        let ActionNames { names, of_row } = mdp.action_names().unwrap();
        let moves: Vec<_> = of_row[rows].iter().map(|&name| names[name as usize].as_str()).collect();
        assert_eq!(moves, ["-5", "-4", "-3", "-2", "-1", "0", "1", "2"]);
    }

    #[test]
    fn few_cars_and_extreme_rates_are_a_model() {
        for (rentals, returns) in [(0.0, 20.0), (20.0, 0.0), (0.0, 0.0), (20.0, 20.0)] {
            for max_cars in [1, 2, 9] {
                let (rentals, returns) = ([rentals; 2], [returns; 2]);
                CarRental { max_cars, rentals, returns, ..CarRental::default() }.generate().unwrap();
            }
        }
    }
}
