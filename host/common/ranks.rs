//! What several ranks did in a run together, and how long.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// The time of a rank in a run, in seconds: `seconds` = `sweeps` + `exchange` + `waiting`.
///
/// The clocks are those of the host. GPUs that exchange data through NCCL do so between their sweeps, which the host does not
/// see: that time counts as `sweeps`. `exchange` and `waiting` are of messages between hosts: those of ranks on CPUs, data of GPUs
/// without NCCL, and the maxima and sums by which all ranks decide together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankTime {
    /// The whole run: from the division of the work to the collected result.
    pub seconds: f64,
    /// Sweeps (of hidden Markov models the recursions, of POMDPs walks and backups), and all other work of the rank.
    pub sweeps: f64,
    /// Copying messages and submitting them.
    pub exchange: f64,
    /// Blocked until messages of other ranks had arrived: late ranks, and the transfer itself.
    pub waiting: f64,
}

/// What one of several ranks did; `W` is its work, with the counts of the model class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankShare<W> {
    /// The rank.
    pub rank: u32,
    /// Name of its node.
    pub node: String,
    /// Its device, in words.
    pub device: String,
    /// Its part of the work.
    #[serde(flatten)]
    pub work: W,
    /// Its time.
    #[serde(flatten)]
    pub time: RankTime,
}

/// The ranks in one line: `4 on 2 nodes, sweeps 1.912 to 1.934 s, exchange 0.010 to 0.012 s, waiting 0.103 to 0.125 s`. `None` for
/// one rank.
#[must_use]
pub fn summary<W>(ranks: &[RankShare<W>]) -> Option<String> {
    if ranks.len() < 2 {
        return None;
    }
    let range = |of: fn(&RankTime) -> f64| {
        let times = || ranks.iter().map(|rank| of(&rank.time));
        let (least, most) = (times().fold(f64::INFINITY, f64::min), times().fold(0.0, f64::max));
        format!("{least:.3} to {most:.3} s")
    };
    let nodes: BTreeSet<&str> = ranks.iter().map(|rank| &*rank.node).collect();
    let nodes = if nodes.len() == 1 { "1 node".to_owned() } else { format!("{} nodes", nodes.len()) };
    let (sweeps, exchange, waiting) =
        (range(|time| time.sweeps), range(|time| time.exchange), range(|time| time.waiting));
    Some(format!("{} on {nodes}, sweeps {sweeps}, exchange {exchange}, waiting {waiting}", ranks.len()))
}
