//! Jack's car rental: Sutton and Barto, *Reinforcement Learning*, 2nd edition, example 4.2.

use super::{Error, matrix, offsets, poisson};
use crate::common::parameters::{count, discount, finite, number};
use crate::mdp::model::{ActionNames, Choices, Csr, Mdp, MdpParts};

/// Two rental locations between which cars are moved overnight.
///
/// State n₁·(`max_cars` + 1) + n₂ encodes the cars n₁ and n₂ at the two locations in the evening. An action is the net
/// number of cars moved from the first location to the second, from −min(`max_moves`, n₂) to min(`max_moves`, n₁), in
/// ascending order. Each moved car costs `move_cost`. On the next day, each location rents out as many cars as are
/// requested and available, at `rental_credit` each. Returned cars are available from the following day. Cars beyond
/// `max_cars` at a location leave the system. Requests and returns are Poisson, with tails cut at 60.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CarRental {
    /// Maximum cars at a location, 1 to 200.
    pub max_cars: u32,
    /// Maximum cars moved in a night, 0 to 200.
    pub max_moves: u32,
    /// Mean requests per day at each location, in [0, 20].
    pub rental_rates: [f64; 2],
    /// Mean returns per day at each location, in [0, 20].
    pub return_rates: [f64; 2],
    /// Cost per moved car; finite.
    pub move_cost: f64,
    /// Revenue per rented car; finite.
    pub rental_credit: f64,
    /// γ, the discount factor, in [0, 1).
    pub gamma: f64,
}

/// Defaults of the source.
impl Default for CarRental {
    fn default() -> Self {
        Self {
            max_cars: 20,
            max_moves: 5,
            rental_rates: [3.0, 4.0],
            return_rates: [3.0, 2.0],
            move_cost: 2.0,
            rental_credit: 10.0,
            gamma: 0.9,
        }
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
        let Self { max_cars, max_moves, rental_rates, return_rates, move_cost, rental_credit, gamma } = *self;
        count("max_cars", max_cars, 1, 200)?;
        count("max_moves", max_moves, 0, 200)?;
        for rate in rental_rates.into_iter().chain(return_rates) {
            number("a rate of rentals or returns", rate, (0.0..=20.0).contains(&rate), "a number in [0, 20]")?;
        }
        finite("move_cost", move_cost)?;
        finite("rental_credit", rental_credit)?;
        discount(gamma)?;

        let (most, base) = (max_cars as usize, max_cars as usize + 1);
        let moves = max_moves as usize;
        let places = [0, 1].map(|place| Location::new(most, rental_rates[place], return_rates[place]));
        let back = |state: usize| moves.min(state % base);
        let choices = offsets(base * base, |state| moves.min(state / base) + back(state) + 1)?;
        let choices = Choices::Ragged(choices.into());
        let rows = choices.total((base * base) as u32);
        let moved = |row: usize| {
            let state = choices.state_of(row);
            (row - choices.first(state)) as i64 - back(state) as i64
        };
        let morning = |row: usize| {
            let (state, moved) = (choices.state_of(row), moved(row));
            let cars = |evening: usize, change: i64| most.min((evening as i64 + change) as usize);
            [cars(state / base, -moved), cars(state % base, moved)]
        };
        let evenings = |row: usize| {
            let [first, second] = morning(row);
            let (first, second) = (&places[0].evening[first], &places[1].evening[second]);
            let product = |cars: usize| ((cars) as u32, first[cars / base] * second[cars % base]);
            (0..base * base).map(product).filter(|&(_, probability)| probability > 0.0)
        };
        let earned = |row: usize| {
            let [first, second] = morning(row);
            let rented = places[0].rented[first] + places[1].rented[second];
            rental_credit * rented - move_cost * moved(row).unsigned_abs() as f64
        };
        let names = (-i64::from(max_moves)..=i64::from(max_moves)).map(|cars| cars.to_string()).collect();
        let mdp = MdpParts {
            states: (base * base) as u32,
            choices: choices.clone(),
            gamma,
            transitions: matrix(rows, evenings)?,
            rewards: Csr::empty(rows),
            action_rewards: (0..rows).map(earned).collect::<Vec<_>>().into(),
            action_names: Some(ActionNames {
                names,
                of_row: (0..rows).map(|row| (moved(row) + i64::from(max_moves)) as u32).collect(),
            }),
            ..MdpParts::default()
        };
        Ok(mdp.validated()?)
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
                let (rental_rates, return_rates) = ([rentals; 2], [returns; 2]);
                CarRental { max_cars, rental_rates, return_rates, ..CarRental::default() }.generate().unwrap();
            }
        }
    }
}
