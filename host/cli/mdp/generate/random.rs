//! Random models, and queues.

use clap::Args;
use warpkov_mdp::generate::{self, QueueNetwork, RewardOf};

use super::{Arguments, Output, on_demand};
use crate::common::choice::choice;
use crate::common::number;

/// Generates a random model.
///
/// Every action has the same number of successors, drawn from all states. Their probabilities are the gaps between uniform random
/// numbers, and rewards are uniform in [0, 1). Equal seeds give equal models on every machine.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov mdp generate garnet --states 100000 --actions 8 --branching 6 --out garnet.safetensors
  warpkov mdp generate garnet --states 5000 --branching 1000 --power-law --ragged --out irregular.safetensors
  warpkov mdp generate garnet --states 1000000 --window 64 --out local.safetensors")]
pub struct Garnet {
    /// Number of states.
    #[arg(long, value_name = "S", default_value_t = 1000)]
    states: u64,
    /// Number of actions of a state, A.
    #[arg(long, value_name = "A", default_value_t = 4)]
    actions: u32,
    /// Number of successors of an action, B.
    #[arg(long, value_name = "B", default_value_t = 5)]
    branching: u32,
    /// Draw the number of actions of each state from 1 to A.
    #[arg(long)]
    ragged: bool,
    /// Fraction of terminal states, which have no action.
    #[arg(long, value_name = "FRACTION", default_value = "0", value_parser = number::below_one)]
    terminals: f64,
    /// Draw the number of successors from 1 to B, at least k with probability 1/k.
    #[arg(long)]
    power_law: bool,
    /// Draw successors at most this far away on a ring of all states [default: from all states].
    #[arg(long, value_name = "STATES")]
    window: Option<u64>,
    /// Arguments of the rewards.
    #[arg(long, value_name = "WHAT", default_value = "action", value_parser = choice::<RewardOf>())]
    reward_of: RewardOf,
    /// Fraction of nonzero rewards.
    #[arg(long, value_name = "FRACTION", default_value = "1", value_parser = number::probability)]
    reward_density: f64,
    /// Discount factor γ, in [0, 1).
    #[arg(long, value_name = "G", default_value = "0.95", value_parser = number::below_one)]
    gamma: f64,
    /// Seed of the random numbers.
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
    #[command(flatten)]
    output: Output,
}

impl Garnet {
    fn family(&self) -> Result<generate::Garnet, generate::Error> {
        let garnet = generate::Garnet {
            states: self.states,
            actions: self.actions,
            branching: self.branching,
            ragged: self.ragged,
            terminal_fraction: self.terminals,
            power_law: self.power_law,
            window: self.window,
            reward_of: self.reward_of,
            reward_density: self.reward_density,
            gamma: self.gamma,
            seed: self.seed,
        };
        Ok(garnet)
    }
}

impl Arguments for Garnet {
    on_demand!();
}

/// Generates queues in tandem with controlled servers.
///
/// Jobs arrive at the first queue and pass through all queues. Fast servers, waiting jobs and lost jobs cost. The bits of an action
/// select the fast servers. The process never ends. Near critical load it mixes slowly, so that a γ close to 1 is hard.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov mdp generate queueing --gamma 0.9999 --out queues.safetensors
  warpkov mdp generate queueing --queues 3 --capacity 20 --arrival-rate 0.9 --out queues.safetensors")]
pub struct Queueing {
    /// Number of queues, 1 to 8.
    #[arg(long, value_name = "N", default_value_t = 2)]
    queues: u32,
    /// Capacity of a queue, in jobs.
    #[arg(long, value_name = "JOBS", default_value_t = 63)]
    capacity: u32,
    /// Arrival rate, in jobs per unit of time.
    #[arg(long, value_name = "RATE", default_value = "1", value_parser = number::positive)]
    arrival_rate: f64,
    /// Service rate of a slow server, in jobs per unit of time.
    #[arg(long, value_name = "RATE", default_value = "1", value_parser = number::positive)]
    slow_rate: f64,
    /// Service rate of a fast server, in jobs per unit of time.
    #[arg(long, value_name = "RATE", default_value = "1.5", value_parser = number::positive)]
    fast_rate: f64,
    /// Cost of a job in a queue, per unit of time.
    #[arg(long, value_name = "COST", default_value = "1", value_parser = number::non_negative)]
    holding_cost: f64,
    /// Cost of a fast server, per unit of time.
    #[arg(long, value_name = "COST", default_value = "10", value_parser = number::non_negative)]
    effort_cost: f64,
    /// Cost of a lost job, which arrives at a full queue.
    #[arg(long, value_name = "COST", default_value = "100", value_parser = number::non_negative)]
    loss_cost: f64,
    /// Discount factor γ of one event, in [0, 1).
    #[arg(long, value_name = "G", default_value = "0.999", value_parser = number::below_one)]
    gamma: f64,
    #[command(flatten)]
    output: Output,
}

impl Queueing {
    fn family(&self) -> Result<generate::QueueNetwork, generate::Error> {
        let network = QueueNetwork {
            queues: self.queues,
            capacity: self.capacity,
            arrival_rate: self.arrival_rate,
            slow_rate: self.slow_rate,
            fast_rate: self.fast_rate,
            holding_cost: self.holding_cost,
            effort_cost: self.effort_cost,
            loss_cost: self.loss_cost,
            gamma: self.gamma,
        };
        Ok(network)
    }
}

impl Arguments for Queueing {
    on_demand!();
}
