//! The options of Block Divided Iteration.

use clap::Args;
use warpkov_mdp::options::BlockDivided;

use crate::common::number;

const HEADING: &str = "Block Divided Iteration";

/// Division of the states by `--method block-divided`.
#[derive(Args, Clone, Copy)]
pub struct Blocks {
    /// Number of threads of a block; on a grid world, the tile of cells of a block.
    #[arg(long, help_heading = HEADING, value_name = "WxH", default_value = "16x8", value_parser = extent)]
    block: (u32, u32),
    /// Number of sweeps over a block before other blocks see its values.
    #[arg(long, help_heading = HEADING, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    sweeps_per_launch: u32,
    /// Copy the values that a block reads from other blocks to shared memory.
    #[arg(long, help_heading = HEADING)]
    buffering: bool,
    /// Number of states per thread. Each thread updates its state of highest priority.
    #[arg(long, help_heading = HEADING, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=5))]
    states_per_thread: u32,
    /// U_c: weight of update recency against value change in the priority.
    #[arg(long, help_heading = HEADING, value_name = "U", default_value_t = BlockDivided::default().update_constant, value_parser = number::positive)]
    update_constant: f64,
}

impl From<Blocks> for BlockDivided {
    fn from(arguments: Blocks) -> Self {
        let Blocks { block: (width, height), sweeps_per_launch, buffering, states_per_thread, .. } = arguments;
        let update_constant = arguments.update_constant;
        Self { width, height, sweeps_per_launch, buffering, states_per_thread, update_constant }
    }
}

/// Two positive counts, as in 16x8.
fn extent(text: &str) -> Result<(u32, u32), String> {
    let parts = text.split_once(['x', '×']).and_then(|(x, y)| Some((x.parse().ok()?, y.parse().ok()?)));
    parts.filter(|&(x, y)| x > 0 && y > 0).ok_or_else(|| "expected two counts, as in 16x8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_are_two_counts() {
        assert_eq!(extent("16x8"), Ok((16, 8)));
        for text in ["", "16", "x8", "0x8", "16x", "-1x8", "16x8x2"] {
            assert!(extent(text).is_err(), "{text}");
        }
    }
}
