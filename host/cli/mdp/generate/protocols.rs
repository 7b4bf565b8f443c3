//! Randomised protocols, as in the Quantitative Verification Benchmark Set; undiscounted.

use clap::Args;
use warpkov_mdp::generate;
use warpkov_mdp::model::Mdp;

use super::{Arguments, Output};
use crate::common::number;

/// Generates the shared coin of randomised consensus.
///
/// Every step earns 1 until all processes have decided. Labels: finished, agree, all_coins_equal_0, all_coins_equal_1.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov mdp generate consensus --out consensus.json
  warpkov mdp generate consensus --processes 4 --bound 2 --out consensus.safetensors")]
pub struct Consensus {
    /// Number of processes, N.
    #[arg(long, value_name = "N", default_value_t = 2)]
    processes: u32,
    /// Bound of the random walk, K.
    #[arg(long, value_name = "K", default_value_t = 2)]
    bound: u32,
    #[command(flatten)]
    output: Output,
}

impl Arguments for Consensus {
    fn generate(&self) -> Result<Mdp, generate::Error> {
        generate::Consensus { processes: self.processes, bound: self.bound }.generate()
    }

    fn output(&self) -> &Output {
        &self.output
    }
}

/// Generates the root contention protocol of IEEE 1394, FireWire.
///
/// Every unit of time earns 1 until a root is elected. Label: elected.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov mdp generate firewire --out firewire.safetensors
  warpkov mdp generate firewire --delay 36 --fast 0.6 --out firewire.safetensors")]
pub struct Firewire {
    /// Maximum delay of a signal.
    #[arg(long, value_name = "TIME", default_value_t = 3)]
    delay: u32,
    /// Probability of choosing the fast time.
    #[arg(long, value_name = "P", default_value = "0.5", value_parser = number::probability)]
    fast: f64,
    #[command(flatten)]
    output: Output,
}

impl Arguments for Firewire {
    fn generate(&self) -> Result<Mdp, generate::Error> {
        generate::Firewire { delay: self.delay, fast: self.fast }.generate()
    }

    fn output(&self) -> &Output {
        &self.output
    }
}

/// Generates carrier sense multiple access with collision detection, IEEE 802.3.
///
/// Every unit of time earns 1 until all messages are delivered. Labels: all_delivered, one_delivered, early,
/// collision_max_backoff.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov mdp generate csma --out csma.json
  warpkov mdp generate csma --stations 3 --backoff 2 --out csma.safetensors")]
pub struct Csma {
    /// Number of stations, N.
    #[arg(long, value_name = "N", default_value_t = 2)]
    stations: u32,
    /// Maximum exponent of the backoff, K.
    #[arg(long, value_name = "K", default_value_t = 2)]
    backoff: u32,
    #[command(flatten)]
    output: Output,
}

impl Arguments for Csma {
    fn generate(&self) -> Result<Mdp, generate::Error> {
        generate::Csma { stations: self.stations, backoff: self.backoff }.generate()
    }

    fn output(&self) -> &Output {
        &self.output
    }
}

/// Generates the address configuration of IPv4 Zeroconf.
///
/// Every unit of time earns 1 until the host uses an address. Labels: configured, and collision if another host has the address, too.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov mdp generate zeroconf --out zeroconf.json
  warpkov mdp generate zeroconf --hosts 1000 --probes 8 --no-reset --out zeroconf.safetensors")]
pub struct Zeroconf {
    /// Number of configured hosts, N.
    #[arg(long, value_name = "N", default_value_t = 20)]
    hosts: u32,
    /// Number of probes, K.
    #[arg(long, value_name = "K", default_value_t = 2)]
    probes: u32,
    /// Keep waiting messages when the host chooses another address.
    #[arg(long)]
    no_reset: bool,
    #[command(flatten)]
    output: Output,
}

impl Arguments for Zeroconf {
    fn generate(&self) -> Result<Mdp, generate::Error> {
        let Self { hosts, probes, no_reset, .. } = *self;
        generate::Zeroconf { hosts, probes, reset: !no_reset }.generate()
    }

    fn output(&self) -> &Output {
        &self.output
    }
}
