//! Grid worlds.

use clap::Args;
use warpkov_mdp::generate::{self, SlipGrid, WetFloor};

use super::{Arguments, Error, Output, on_demand};
use crate::common::number;

/// Generates a grid world in which moves slip sideways.
///
/// A move succeeds with probability 1 − slip and goes to either side with probability slip / 2. Walls cannot be entered. A step into
/// an obstacle costs a penalty, and a step into the goal, the last cell, earns a reward. Equal seeds give equal grids on every machine.
#[derive(Args)]
#[command(after_help = GRID_EXAMPLES)]
pub struct Grid {
    /// Cells in a row.
    #[arg(long, value_name = "CELLS", value_parser = clap::value_parser!(u32).range(1..))]
    width: u32,
    /// Cells in a column.
    #[arg(long, value_name = "CELLS", value_parser = clap::value_parser!(u32).range(1..))]
    height: u32,
    /// Probability of slipping sideways, in [0, 1].
    #[arg(long, value_name = "P", default_value = "0.1", value_parser = number::probability)]
    slip: f64,
    /// Fraction of cells that are walls, in [0, 1).
    #[arg(long, value_name = "FRACTION", default_value = "0", value_parser = number::below_one)]
    walls: f64,
    /// Fraction of cells that are obstacles, in [0, 1).
    #[arg(long, value_name = "FRACTION", default_value = "0", value_parser = number::below_one)]
    obstacles: f64,
    /// Discount factor γ, in [0, 1).
    #[arg(long, value_name = "G", default_value = "0.9", value_parser = number::below_one)]
    gamma: f64,
    /// Seed of the placement of walls and obstacles.
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
    /// Reward of a step that ends in the goal.
    #[arg(long, value_name = "R", default_value = "1", value_parser = number::finite, allow_hyphen_values = true)]
    goal_reward: f64,
    /// Cost of a step that ends in an obstacle.
    #[arg(long, value_name = "COST", default_value = "1", value_parser = number::finite, allow_hyphen_values = true)]
    obstacle_penalty: f64,
    #[command(flatten)]
    output: Output,
}

const GRID_EXAMPLES: &str = "\
Examples:
  warpkov mdp generate grid --width 64 --height 64 --out grid.json
  warpkov mdp generate grid --width 1024 --height 1024 --walls 0.3 --obstacles 0.1 --out g4.safetensors
  warpkov mdp generate grid --width 16 --height 16 --out - | warpkov mdp solve -";

impl Grid {
    fn family(&self) -> Result<generate::SlipGrid, generate::Error> {
        let grid = SlipGrid {
            width: self.width,
            height: self.height,
            slip: self.slip,
            wall_fraction: self.walls,
            obstacle_fraction: self.obstacles,
            gamma: self.gamma,
            seed: self.seed,
            goal_reward: self.goal_reward,
            obstacle_penalty: self.obstacle_penalty,
        };
        Ok(grid)
    }
}

impl Arguments for Grid {
    fn check(&self) -> Result<(), Error> {
        let Self { width, height, walls, obstacles, .. } = *self;
        if walls + obstacles == 0.0 {
            return Ok(());
        }
        if walls + obstacles >= 1.0 {
            return Err(Error::Usage(format!(
                "--walls {walls} and --obstacles {obstacles} leave no free cell: their sum must be below 1"
            )));
        }
        check_size(width, height)
    }

    on_demand!();
}

/// Checks that 32 bits can number the cells of a grid that is drawn at random.
fn check_size(width: u32, height: u32) -> Result<(), Error> {
    let states = u64::from(width) * u64::from(height);
    if states > u64::from(u32::MAX) {
        return Err(Error::Usage(format!(
            "--width {width} and --height {height} make {states} states; at most {} can be numbered",
            u32::MAX
        )));
    }
    Ok(())
}

/// Generates a grid world with scattered rewards.
///
/// Actions are up, right, down and left. With one successor, moves are certain; with two, the next direction clockwise has probability
/// .1; with four, each of the other three directions has probability .1. A step into a reward state earns its reward, a whole number
/// from 2 to 20. --domain names a grid of Jóhannsson (2009), Table 6.1, from GW-64x64x1 to GW-1024x1024x4.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov mdp generate wetfloor --domain GW-1024x1024x4 --out gw.safetensors
  warpkov mdp generate wetfloor --domain GW-256x256x1 --redirected 0.15 --out locality.safetensors
  warpkov mdp generate wetfloor --width 100 --height 50 --successors 2 --reward-states 7 --out gw.json")]
pub struct Wetfloor {
    /// Domain of Table 6.1, in place of --width, --height and --successors.
    #[arg(long, value_name = "NAME", value_parser = domain, required_unless_present = "width",
        conflicts_with_all = ["width", "height", "successors"])]
    domain: Option<WetFloor>,
    /// Cells in a row.
    #[arg(long, value_name = "CELLS", value_parser = clap::value_parser!(u32).range(1..), requires = "height")]
    width: Option<u32>,
    /// Cells in a column.
    #[arg(long, value_name = "CELLS", value_parser = clap::value_parser!(u32).range(1..), requires = "width")]
    height: Option<u32>,
    /// Number of successors of an action: 1, 2 or 4 [default: 1].
    #[arg(long, value_name = "N")]
    successors: Option<u32>,
    /// Number of reward states [default: that of Table 6.1, else one in a thousand].
    #[arg(long, value_name = "STATES")]
    reward_states: Option<u32>,
    /// Draw real rewards from 2 to 20, in place of whole numbers.
    #[arg(long)]
    real_rewards: bool,
    /// Fraction of successors replaced by random states: the modification of section 6.3.
    #[arg(long, value_name = "FRACTION", default_value = "0", value_parser = number::probability)]
    redirected: f64,
    /// Discount factor γ, in [0, 1).
    #[arg(long, value_name = "G", default_value = "0.9", value_parser = number::below_one)]
    gamma: f64,
    /// Seed of the rewards, the reward states and the redirected successors.
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
    #[command(flatten)]
    output: Output,
}

fn domain(name: &str) -> Result<WetFloor, String> {
    WetFloor::named(name).ok_or_else(|| {
        "the domains are GW-64x64, GW-256x256, GW-512x512 and GW-1024x1024, each with x1, x2 or x4 at the end"
            .to_owned()
    })
}

impl Wetfloor {
    fn family(&self) -> Result<generate::WetFloor, generate::Error> {
        let [width, height] = [self.width, self.height].map(Option::unwrap_or_default);
        let grid = self.domain.unwrap_or_else(|| WetFloor::new(width, height, self.successors.unwrap_or(1)));
        let grid = WetFloor {
            reward_states: self.reward_states.unwrap_or(grid.reward_states),
            whole_rewards: !self.real_rewards,
            redirected: self.redirected,
            gamma: self.gamma,
            seed: self.seed,
            ..grid
        };
        Ok(grid)
    }
}

impl Arguments for Wetfloor {
    fn check(&self) -> Result<(), Error> {
        check_size(self.width.unwrap_or_default(), self.height.unwrap_or_default())
    }

    on_demand!();
}

/// Generates Sutton and Barto's 5 × 5 grid, in which any move from two special cells jumps to another cell and earns a reward.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov mdp generate sutton-grid --out grid.json
  warpkov mdp generate sutton-grid --out - | warpkov mdp solve -")]
pub struct SuttonGrid {
    /// Discount factor γ, in [0, 1).
    #[arg(long, value_name = "G", default_value = "0.9", value_parser = number::below_one)]
    gamma: f64,
    #[command(flatten)]
    output: Output,
}

impl SuttonGrid {
    fn family(&self) -> Result<generate::SuttonGrid, generate::Error> {
        Ok(generate::SuttonGrid { gamma: self.gamma })
    }
}

impl Arguments for SuttonGrid {
    on_demand!();
}
