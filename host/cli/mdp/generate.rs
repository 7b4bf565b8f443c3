//! `warpkov mdp generate`.

use std::io::Write;
use std::ops::ControlFlow;

use clap::{Args, Subcommand};
use warpkov_common::interrupt;
use warpkov_common::parameters::Parameters;
use warpkov_mdp::generate::{self, WetFloor};
use warpkov_mdp::io::Format;
use warpkov_mdp::model::Mdp;
use warpkov_mdp::model::whole::Described;
use warpkov_runtime as runtime;

use super::file::{output_format, write};
use super::{Error, Outcome, convert};
use crate::common::family::{FamilyOptions, ModelFile, Plain, named};
use crate::common::file::FileOrStd;
use crate::common::interrupts::handle_interrupts;
use crate::common::progress::Fraction;
use crate::common::ranks;

/// Generates a model of a known family.
#[derive(Subcommand)]
pub enum Family {
    /// Generates a grid world in which moves slip sideways.
    ///
    /// A move succeeds with probability 1 − slip and goes to either side with probability slip / 2. Walls cannot be entered. A step into
    /// an obstacle costs a penalty, and a step into the goal, the last cell, earns a reward. Equal seeds give equal grids on every machine.
    #[command(after_help = "\
Examples:
  warpkov mdp generate grid --width 64 --height 64 --out grid.json
  warpkov mdp generate grid --width 1024 --height 1024 --walls 0.3 --obstacles 0.1 --out g4.safetensors
  warpkov mdp generate grid --width 16 --height 16 --out - | warpkov mdp solve -")]
    #[command(
        mut_arg("width", |option| option.requires("height")),
        mut_arg("height", |option| option.requires("width"))
    )]
    Grid(Plain<generate::SlipGrid, Output>),
    /// Generates a grid world with scattered rewards.
    ///
    /// Actions are up, right, down and left. With one successor, moves are certain; with two, the next direction clockwise has probability
    /// .1; with four, each of the other three directions has probability .1. A step into a reward state earns its reward, a whole number
    /// from 2 to 20. --domain names a grid of Jóhannsson (2009), Table 6.1, from GW-64x64x1 to GW-1024x1024x4.
    #[command(after_help = "\
Examples:
  warpkov mdp generate wetfloor --domain GW-1024x1024x4 --out gw.safetensors
  warpkov mdp generate wetfloor --domain GW-256x256x1 --redirected 0.15 --out locality.safetensors
  warpkov mdp generate wetfloor --width 100 --height 50 --successors 2 --reward-states 7 --out gw.json")]
    #[command(
        mut_arg("width", |option| option.requires("height")),
        mut_arg("height", |option| option.requires("width"))
    )]
    Wetfloor(Wetfloor),
    /// Generates Sutton and Barto's 5 × 5 grid, in which any move from two special cells jumps to another cell and earns a reward.
    #[command(after_help = "\
Examples:
  warpkov mdp generate sutton-grid --out grid.json
  warpkov mdp generate sutton-grid --out - | warpkov mdp solve -")]
    SuttonGrid(Plain<generate::SuttonGrid, Output>),
    /// Generates a random model.
    ///
    /// Every action has the same number of successors, drawn from all states. Their probabilities are the gaps between uniform random
    /// numbers, and rewards are uniform in [0, 1). Equal seeds give equal models on every machine.
    #[command(after_help = "\
Examples:
  warpkov mdp generate garnet --states 100000 --actions 8 --branching 6 --out garnet.safetensors
  warpkov mdp generate garnet --states 5000 --branching 1000 --power-law --ragged --out irregular.safetensors
  warpkov mdp generate garnet --states 1000000 --window 64 --out local.safetensors")]
    Garnet(Plain<generate::Garnet, Output>),
    /// Generates queues in tandem with controlled servers.
    ///
    /// Jobs arrive at the first queue and pass through all queues. Fast servers, waiting jobs and lost jobs cost. The bits of an action
    /// select the fast servers. The process never ends. Near critical load it mixes slowly, so that a γ close to 1 is hard.
    #[command(after_help = "\
Examples:
  warpkov mdp generate queueing --gamma 0.9999 --out queues.safetensors
  warpkov mdp generate queueing --queues 3 --capacity 20 --arrival-rate 0.9 --out queues.safetensors")]
    Queueing(Plain<generate::QueueNetwork, Output>),
    /// Generates the forest management model of the MDP toolbox.
    ///
    /// A forest ages by one year unless it burns down. Waiting earns a reward in the oldest forest; cutting earns one in all but the
    /// youngest.
    #[command(after_help = "\
Examples:
  warpkov mdp generate forest --out forest.json
  warpkov mdp generate forest --ages 1000 --fire 0.05 --gamma 0.99 --out forest.safetensors")]
    Forest(Plain<generate::Forest, Output>),
    /// Generates the gambler's problem of Sutton and Barto.
    ///
    /// A state is a capital, an action a stake on the toss of a coin. V is the probability of reaching the goal, undiscounted by default. The
    /// capital 0 and the goal are terminal.
    #[command(after_help = "\
Examples:
  warpkov mdp generate gambler --out gambler.json
  warpkov mdp generate gambler --goal 1000 --heads 0.25 --out gambler.safetensors")]
    Gambler(Plain<generate::Gambler, Output>),
    /// Generates Jack's car rental of Sutton and Barto.
    ///
    /// Two locations rent out cars. An action is the number of cars moved overnight from the first location to the second.
    #[command(after_help = "\
Examples:
  warpkov mdp generate car-rental --out cars.safetensors
  warpkov mdp generate car-rental --max-cars 10 --move-cost 4 --out cars.json")]
    CarRental(Plain<generate::CarRental, Output>),
    /// Generates a stochastic inventory control model, as in Puterman's section 3.2.
    ///
    /// A state is the number of units in stock, an action the number of units ordered. Orders and stock cost; sales earn revenue.
    #[command(after_help = "\
Examples:
  warpkov mdp generate inventory --out inventory.json
  warpkov mdp generate inventory --capacity 500 --demand-mean 20 --gamma 0.99 --out inventory.safetensors")]
    #[command(mut_arg("demand_mean", |option| option.conflicts_with("demand")))]
    Inventory(Plain<generate::Inventory, Output>),
    /// Generates the shared coin of randomised consensus.
    ///
    /// Every step earns 1 until all processes have decided. Labels: finished, agree, all_coins_equal_0, all_coins_equal_1.
    #[command(after_help = "\
Examples:
  warpkov mdp generate consensus --out consensus.json
  warpkov mdp generate consensus --processes 4 --bound 2 --out consensus.safetensors")]
    Consensus(Plain<generate::Consensus, Output>),
    /// Generates the root contention protocol of IEEE 1394, FireWire.
    ///
    /// Every unit of time earns 1 until a root is elected. Label: elected.
    #[command(after_help = "\
Examples:
  warpkov mdp generate firewire --out firewire.safetensors
  warpkov mdp generate firewire --delay 36 --fast 0.6 --out firewire.safetensors")]
    Firewire(Plain<generate::Firewire, Output>),
    /// Generates carrier sense multiple access with collision detection, IEEE 802.3.
    ///
    /// Every unit of time earns 1 until all messages are delivered. Labels: all_delivered, one_delivered, early,
    /// collision_max_backoff.
    #[command(after_help = "\
Examples:
  warpkov mdp generate csma --out csma.json
  warpkov mdp generate csma --stations 3 --backoff 2 --out csma.safetensors")]
    Csma(Plain<generate::Csma, Output>),
    /// Generates the address configuration of IPv4 Zeroconf.
    ///
    /// Every unit of time earns 1 until the host uses an address. Labels: configured, and collision if another host has the address, too.
    #[command(after_help = "\
Examples:
  warpkov mdp generate zeroconf --out zeroconf.json
  warpkov mdp generate zeroconf --hosts 1000 --probes 8 --no-reset --out zeroconf.safetensors")]
    Zeroconf(Plain<generate::Zeroconf, Output>),
}

/// Examples of the command that lists the families.
pub const EXAMPLES: &str = "\
Examples:
  warpkov mdp generate grid --width 64 --height 64 --out grid.json
  warpkov mdp generate wetfloor --domain GW-256x256x4 --out gw.safetensors
  warpkov mdp generate garnet --states 100000 --actions 8 --branching 6 --out garnet.safetensors";

/// The destination of the model, and the ranks that write it.
#[derive(Args)]
#[command(mut_arg("out", |out| out.help(OUT)))]
pub struct Output {
    #[command(flatten)]
    destination: ModelFile<Format>,
    #[command(flatten)]
    ranks: ranks::Arguments,
}

const OUT: &str = "Write the model to this file, or with - to the standard output. Rows of .safetensors are written as they are made, \
    in parts by several ranks; in other formats, and of the protocols, the first rank makes the whole model";

/// A family of the library.
trait Generate {
    /// Generates the model.
    fn generate(&self) -> Result<Mdp, generate::Error>;

    /// The model as a source of rows, if they are made on demand.
    fn source(&self) -> Result<Option<Box<dyn Described>>, generate::Error>;
}

/// Implements [`Generate`] for families of the library.
macro_rules! families {
    ($($family:ident),+ => |$this:pat_param| $source:expr) => {
        $(impl Generate for generate::$family {
            fn generate(&self) -> Result<Mdp, generate::Error> {
                self.generate()
            }

            fn source(&self) -> Result<Option<Box<dyn Described>>, generate::Error> {
                let $this = self;
                Ok($source)
            }
        })+
    };
}

families!(SlipGrid, WetFloor, SuttonGrid, Garnet, QueueNetwork, Forest, Gambler, CarRental, Inventory => |family| {
    Some(Box::new(family.source()?))
});
// A search finds their states, all or none.
families!(Consensus, Firewire, Csma, Zeroconf => |_| None);

/// The arguments of a family.
trait Arguments {
    fn family(&self) -> Box<dyn Generate>;

    fn output(&self) -> &Output;
}

impl<P: Parameters + Generate> Arguments for Plain<P, Output> {
    fn family(&self) -> Box<dyn Generate> {
        Box::new(self.options.family())
    }

    fn output(&self) -> &Output {
        &self.output
    }
}

// `--domain` is the grid that other options change.
#[derive(Args)]
pub struct Wetfloor {
    /// Domain of Table 6.1, in place of --width, --height and --successors.
    #[arg(long, value_name = "NAME", value_parser = domain, required_unless_present = "width",
        conflicts_with_all = ["width", "height", "successors"])]
    domain: Option<WetFloor>,
    #[command(flatten)]
    options: FamilyOptions<WetFloor>,
    #[command(flatten)]
    output: Output,
}

fn domain(name: &str) -> Result<WetFloor, String> {
    WetFloor::named(name).ok_or_else(|| {
        "the domains are GW-64x64, GW-256x256, GW-512x512 and GW-1024x1024, each with x1, x2 or x4 at the end"
            .to_owned()
    })
}

impl Arguments for Wetfloor {
    fn family(&self) -> Box<dyn Generate> {
        Box::new(self.options.over(self.domain.unwrap_or_default()))
    }

    fn output(&self) -> &Output {
        &self.output
    }
}

impl Family {
    fn arguments(&self) -> &dyn Arguments {
        match self {
            Self::Grid(arguments) => arguments,
            Self::Wetfloor(arguments) => arguments,
            Self::SuttonGrid(arguments) => arguments,
            Self::Garnet(arguments) => arguments,
            Self::Queueing(arguments) => arguments,
            Self::Forest(arguments) => arguments,
            Self::Gambler(arguments) => arguments,
            Self::CarRental(arguments) => arguments,
            Self::Inventory(arguments) => arguments,
            Self::Consensus(arguments) => arguments,
            Self::Firewire(arguments) => arguments,
            Self::Csma(arguments) => arguments,
            Self::Zeroconf(arguments) => arguments,
        }
    }

    /// The options of ranks.
    pub fn ranks(&self) -> &ranks::Arguments {
        &self.arguments().output().ranks
    }

    /// The family that a text names, with its options as those of `mdp generate`, without those of the output.
    pub fn parse(text: &str) -> Result<Self, Error> {
        named(text.split_whitespace()).map_err(|message| Error::Usage(format!("--generate: {message}")))
    }

    /// Generates the model.
    pub fn generate(&self) -> Result<Mdp, Error> {
        Ok(self.arguments().family().generate()?)
    }

    /// The model as a source of rows, if they are made on demand.
    pub fn source(&self) -> Result<Option<Box<dyn Described>>, Error> {
        Ok(self.arguments().family().source()?)
    }
}

/// Generates the model, writes it.
pub fn run(family: Family, out: impl Write) -> Result<Outcome, Error> {
    let (to, format) = family.arguments().output().destination.file(output_format)?;
    let ranks = family.ranks().join()?;
    if let (FileOrStd::At(path), Format::Safetensors) = (&to, format)
        && let Some(source) = ranks.agree(family.source())?
    {
        handle_interrupts();
        let progress = Fraction::new(!ranks.is_first());
        let observe = |done| {
            progress.set(done);
            if interrupt::requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        match ranks.write_model(path, &*source, observe) {
            Ok(true) => return Ok(Outcome::Success),
            Ok(false) => {}
            Err(_) if interrupt::requested() => return Err(runtime::Error::Interrupted.into()),
            Err(error) => return Err(error),
        }
    }
    // The other ranks are done.
    if ranks.is_first() {
        let model = family.generate()?;
        convert::note_losses(format, &model);
        write(&to, format, &model, out)?;
    }
    Ok(Outcome::Success)
}
