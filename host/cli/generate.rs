//! `warpkov mdp generate`.

use std::io::Write;

use clap::{Args, Subcommand};
use warpkov::mdp::generate::SlipGrid;

use super::file::ModelFile;
use super::{Error, Outcome, number};

/// Generates a model of a known family.
#[derive(Subcommand)]
pub enum Family {
    Grid(Arguments),
}

/// Examples of the command that lists the families.
pub const EXAMPLES: &str = "\
Examples:
  warpkov mdp generate grid --width 64 --height 64 --out grid.json";

/// Generates a grid world in which moves slip sideways.
///
/// A move succeeds with probability 1 − slip and goes to either side with slip / 2 each. Walls cannot be entered, a step
/// that ends in an obstacle costs a penalty, and one that ends in the goal, the last cell, pays a reward. The same seed
/// gives the same grid everywhere.
#[derive(Args)]
#[command(after_help = GRID_EXAMPLES, allow_negative_numbers = true)]
pub struct Arguments {
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
    #[arg(long, value_name = "R", default_value = "1", value_parser = number::finite)]
    goal_reward: f64,
    /// Cost of a step that ends in an obstacle.
    #[arg(long, value_name = "COST", default_value = "1", value_parser = number::finite)]
    obstacle_penalty: f64,
    /// Where to write the model: .json, .safetensors, or - for JSON on the standard output.
    #[arg(long, value_name = "FILE|-")]
    out: ModelFile,
}

const GRID_EXAMPLES: &str = "\
Examples:
  warpkov mdp generate grid --width 64 --height 64 --out grid.json
  warpkov mdp generate grid --width 1024 --height 1024 --walls 0.3 --obstacles 0.1 --out g4.safetensors
  warpkov mdp generate grid --width 16 --height 16 --out - | warpkov mdp solve -";

/// What to generate, and where to.
pub struct Options {
    grid: SlipGrid,
    out: ModelFile,
}

impl TryFrom<Arguments> for Options {
    type Error = Error;

    fn try_from(arguments: Arguments) -> Result<Self, Error> {
        let Arguments { width, height, slip, walls, obstacles, gamma, seed, .. } = arguments;
        if walls + obstacles >= 1.0 {
            return Err(Error::Usage(format!(
                "--walls {walls} and --obstacles {obstacles} leave no free cell: their sum must be below 1"
            )));
        }
        let states = u64::from(width) * u64::from(height);
        if states > u64::from(u32::MAX) {
            return Err(Error::Usage(format!(
                "--width {width} and --height {height} make {states} states; at most {} can be numbered",
                u32::MAX
            )));
        }
        let grid = SlipGrid {
            width,
            height,
            slip,
            wall_fraction: walls,
            obstacle_fraction: obstacles,
            gamma,
            seed,
            goal_reward: arguments.goal_reward,
            obstacle_penalty: arguments.obstacle_penalty,
        };
        Ok(Self { grid, out: arguments.out.writable()? })
    }
}

/// Generates, then writes.
pub fn run(options: Options, out: impl Write) -> Result<Outcome, Error> {
    let mdp = options.grid.generate()?;
    options.out.write(&mdp, out)?;
    Ok(Outcome::Success)
}
