//! Models of the textbooks.

use clap::Args;
use warpkov_mdp::generate;

use super::{Arguments, Output, on_demand};
use crate::common::number;

/// Generates the forest management model of the MDP toolbox.
///
/// A forest ages by one year unless it burns down. Waiting earns a reward in the oldest forest; cutting earns one in all but the
/// youngest.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov mdp generate forest --out forest.json
  warpkov mdp generate forest --ages 1000 --fire 0.05 --gamma 0.99 --out forest.safetensors")]
pub struct Forest {
    /// Number of ages, which are the states.
    #[arg(long, value_name = "S", default_value_t = 3)]
    ages: u64,
    /// Reward of waiting in the oldest forest.
    #[arg(long, value_name = "R1", default_value = "4", value_parser = number::finite, allow_hyphen_values = true)]
    wait_reward: f64,
    /// Reward of cutting the oldest forest.
    #[arg(long, value_name = "R2", default_value = "2", value_parser = number::finite, allow_hyphen_values = true)]
    cut_reward: f64,
    /// Probability of fire in a year.
    #[arg(long, value_name = "P", default_value = "0.1", value_parser = number::probability)]
    fire: f64,
    /// Discount factor γ, in [0, 1).
    #[arg(long, value_name = "G", default_value = "0.9", value_parser = number::below_one)]
    gamma: f64,
    #[command(flatten)]
    output: Output,
}

impl Forest {
    fn family(&self) -> Result<generate::Forest, generate::Error> {
        let forest = generate::Forest {
            ages: self.ages,
            wait_reward: self.wait_reward,
            cut_reward: self.cut_reward,
            fire_probability: self.fire,
            gamma: self.gamma,
        };
        Ok(forest)
    }
}

impl Arguments for Forest {
    on_demand!();
}

/// Generates the gambler's problem of Sutton and Barto.
///
/// A state is a capital, an action a stake on the toss of a coin. V is the probability of reaching the goal, undiscounted by default. The
/// capital 0 and the goal are terminal.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov mdp generate gambler --out gambler.json
  warpkov mdp generate gambler --goal 1000 --heads 0.25 --out gambler.safetensors")]
pub struct Gambler {
    /// Capital to reach.
    #[arg(long, value_name = "CAPITAL", default_value_t = 100)]
    goal: u32,
    /// Probability of heads, which wins the stake.
    #[arg(long, value_name = "P", default_value = "0.4", value_parser = number::probability)]
    heads: f64,
    /// Discount factor γ, in [0, 1].
    #[arg(long, value_name = "G", default_value = "1", value_parser = number::probability)]
    gamma: f64,
    #[command(flatten)]
    output: Output,
}

impl Gambler {
    fn family(&self) -> Result<generate::Gambler, generate::Error> {
        Ok(generate::Gambler { goal: self.goal, heads: self.heads, gamma: self.gamma })
    }
}

impl Arguments for Gambler {
    on_demand!();
}

/// Generates Jack's car rental of Sutton and Barto.
///
/// Two locations rent out cars. An action is the number of cars moved overnight from the first location to the second.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov mdp generate car-rental --out cars.safetensors
  warpkov mdp generate car-rental --max-cars 10 --move-cost 4 --out cars.json")]
pub struct CarRental {
    /// Maximum number of cars at a location.
    #[arg(long, value_name = "CARS", default_value_t = 20)]
    max_cars: u32,
    /// Maximum number of cars moved in a night.
    #[arg(long, value_name = "CARS", default_value_t = 5)]
    max_moves: u32,
    /// Mean demand per day at each location, in cars.
    #[arg(long, value_name = "MEAN,MEAN", default_value = "3,4", value_parser = pair)]
    rentals: [f64; 2],
    /// Mean number of cars returned per day at each location.
    #[arg(long, value_name = "MEAN,MEAN", default_value = "3,2", value_parser = pair)]
    returns: [f64; 2],
    /// Cost of moving a car.
    #[arg(long, value_name = "COST", default_value = "2", value_parser = number::finite, allow_hyphen_values = true)]
    move_cost: f64,
    /// Revenue of a rented car.
    #[arg(long, value_name = "R", default_value = "10", value_parser = number::finite, allow_hyphen_values = true)]
    credit: f64,
    /// Discount factor γ, in [0, 1).
    #[arg(long, value_name = "G", default_value = "0.9", value_parser = number::below_one)]
    gamma: f64,
    #[command(flatten)]
    output: Output,
}

/// Two nonnegative numbers.
fn pair(text: &str) -> Result<[f64; 2], String> {
    let (first, second) = text.split_once(',').ok_or("expected two numbers with a comma between them")?;
    Ok([number::non_negative(first)?, number::non_negative(second)?])
}

impl CarRental {
    fn family(&self) -> Result<generate::CarRental, generate::Error> {
        let rental = generate::CarRental {
            max_cars: self.max_cars,
            max_moves: self.max_moves,
            rental_rates: self.rentals,
            return_rates: self.returns,
            move_cost: self.move_cost,
            rental_credit: self.credit,
            gamma: self.gamma,
        };
        Ok(rental)
    }
}

impl Arguments for CarRental {
    on_demand!();
}

/// Generates a stochastic inventory control model, as in Puterman's section 3.2.
///
/// A state is the number of units in stock, an action the number of units ordered. Orders and stock cost; sales earn revenue.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov mdp generate inventory --out inventory.json
  warpkov mdp generate inventory --capacity 500 --demand-mean 20 --gamma 0.99 --out inventory.safetensors")]
pub struct Inventory {
    /// Capacity of the stock, in units.
    #[arg(long, value_name = "UNITS", default_value_t = 3)]
    capacity: u32,
    /// Maximum number of units in an order [default: the free capacity].
    #[arg(long, value_name = "UNITS")]
    max_order: Option<u32>,
    /// Probabilities of a demand of 0, 1, … units in a month.
    #[arg(long, value_name = "P,P,…", default_value = "0.25,0.5,0.25", value_parser = number::probability, value_delimiter = ',')]
    demand: Vec<f64>,
    /// Mean of a Poisson demand, in place of --demand.
    #[arg(long, value_name = "UNITS", value_parser = number::non_negative, conflicts_with = "demand")]
    demand_mean: Option<f64>,
    /// Fixed cost of an order.
    #[arg(long, value_name = "COST", default_value = "4", value_parser = number::finite, allow_hyphen_values = true)]
    fixed_cost: f64,
    /// Cost per ordered unit.
    #[arg(long, value_name = "COST", default_value = "2", value_parser = number::finite, allow_hyphen_values = true)]
    unit_cost: f64,
    /// Cost per unit in stock and month.
    #[arg(long, value_name = "COST", default_value = "1", value_parser = number::finite, allow_hyphen_values = true)]
    holding_cost: f64,
    /// Price of a unit.
    #[arg(long, value_name = "R", default_value = "8", value_parser = number::finite, allow_hyphen_values = true)]
    price: f64,
    /// Discount factor γ, in [0, 1).
    #[arg(long, value_name = "G", default_value = "0.9", value_parser = number::below_one)]
    gamma: f64,
    #[command(flatten)]
    output: Output,
}

impl Inventory {
    fn family(&self) -> Result<generate::Inventory, generate::Error> {
        let demand = self.demand_mean.map(generate::Inventory::poisson_demand);
        let inventory = generate::Inventory {
            capacity: self.capacity,
            max_order: self.max_order.unwrap_or(self.capacity),
            demand: demand.unwrap_or_else(|| Ok(self.demand.clone()))?,
            fixed_cost: self.fixed_cost,
            unit_cost: self.unit_cost,
            holding_cost: self.holding_cost,
            price: self.price,
            gamma: self.gamma,
        };
        Ok(inventory)
    }
}

impl Arguments for Inventory {
    on_demand!();
}
