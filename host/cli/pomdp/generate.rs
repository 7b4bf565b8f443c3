//! `warpkov pomdp generate`.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use warpkov_common::io::input::Input;
use warpkov_pomdp::generate::{self, Layout, Map};
use warpkov_pomdp::io::{Format, Kind};
use warpkov_pomdp::model::Pomdp;

use super::convert::note_losses;
use super::file::{output_format, write};
use super::{Error, Outcome};
use crate::common::choice::choice;
use crate::common::file::{FileOrStd, reads};
use crate::common::number;

pub const EXAMPLES: &str = "\
Examples:
  warpkov pomdp generate tiger --out tiger.json
  warpkov pomdp generate hallway2 --out hallway2.pomdp
  warpkov pomdp generate rock-sample --layout 7,8 --out rocks.json
  warpkov pomdp generate maze --map hall.txt --out hall.json";

/// Generates a model of a known family.
#[derive(Subcommand)]
pub enum Family {
    Tiger(Tiger),
    FourByThree(FourByThree),
    Hallway(Hallway),
    Hallway2(Hallway2),
    TigerGrid(TigerGrid),
    Maze(Maze),
    Tag(Tag),
    RockSample(RockSample),
    Olfactory(Olfactory),
    Maintenance(Maintenance),
    Inspection(Inspection),
    Aloha(Aloha),
}

/// The destination of the model.
#[derive(Args)]
struct Output {
    /// Write the model to this file, or with - to the standard output.
    #[arg(long, value_name = "FILE|-")]
    out: FileOrStd,
    /// Format of --out [default: that of its extension; json on the standard output].
    #[arg(long, value_parser = choice::<Format>(), value_name = "FORMAT")]
    to: Option<Format>,
}

/// Generates the tiger of Kaelbling, Littman and Cassandra.
///
/// One of two doors hides a tiger, the other a treasure. Listening gives a noisy observation of the tiger's door.
#[derive(Args)]
#[command(after_help = "Examples:\n  warpkov pomdp generate tiger --out tiger.json")]
pub struct Tiger {
    /// Probability that listening is correct.
    #[arg(long, value_name = "P", default_value = "0.85", value_parser = number::probability)]
    accuracy: f64,
    /// Reward of listening.
    #[arg(long, value_name = "R", default_value = "-1", value_parser = number::finite, allow_hyphen_values = true)]
    listen: f64,
    /// Reward of opening the door with the treasure.
    #[arg(long, value_name = "R", default_value = "10", value_parser = number::finite, allow_hyphen_values = true)]
    treasure: f64,
    /// Reward of opening the door with the tiger.
    #[arg(long, value_name = "R", default_value = "-100", value_parser = number::finite, allow_hyphen_values = true)]
    tiger: f64,
    /// Discount factor γ, in [0, 1).
    #[arg(long, value_name = "G", default_value = "0.95", value_parser = number::below_one)]
    gamma: f64,
    #[command(flatten)]
    output: Output,
}

/// Generates the 4 × 3 grid of Russell and Norvig, with observations by Parr and Russell.
///
/// Moves slip to either side. An observation shows which sides of the cell are walls.
#[derive(Args)]
#[command(after_help = "Examples:\n  warpkov pomdp generate four-by-three --out 4x3.json")]
pub struct FourByThree {
    /// Probability of slipping to a side.
    #[arg(long, value_name = "P", default_value = "0.2", value_parser = number::probability)]
    slip: f64,
    /// Reward of a step from a nonterminal cell.
    #[arg(long, value_name = "R", default_value = "-0.04", value_parser = number::finite, allow_hyphen_values = true)]
    step: f64,
    /// Discount factor γ, in [0, 1).
    #[arg(long, value_name = "G", default_value = "0.95", value_parser = number::below_one)]
    gamma: f64,
    #[command(flatten)]
    output: Output,
}

/// Generates the corridor of Littman, Cassandra and Kaelbling: 60 states.
///
/// A robot starts at a random place and looks for one of four niches. Its observations of walls and openings are noisy.
#[derive(Args)]
#[command(after_help = "Examples:\n  warpkov pomdp generate hallway --show --out hallway.pomdp")]
pub struct Hallway {
    #[command(flatten)]
    known: Known,
}

/// Generates the block of corridors of Littman, Cassandra and Kaelbling: 92 states.
///
/// A robot starts at a random place and looks for the only exit. Its observations of walls and openings are noisy.
#[derive(Args)]
#[command(after_help = "Examples:\n  warpkov pomdp generate hallway2 --show --out hallway2.pomdp")]
pub struct Hallway2 {
    #[command(flatten)]
    known: Known,
}

/// Generates the tiger grid of Littman, Cassandra and Kaelbling: 36 states.
///
/// A robot starts in one of two rooms. The moves that lead to the goal from one room lead to the tiger from the other.
#[derive(Args)]
#[command(after_help = "Examples:\n  warpkov pomdp generate tiger-grid --show --out tiger-grid.pomdp")]
pub struct TigerGrid {
    #[command(flatten)]
    known: Known,
}

/// Options of a maze with a fixed map.
#[derive(Args)]
struct Known {
    /// Discount factor γ, in [0, 1).
    #[arg(long, value_name = "G", default_value = "0.95", value_parser = number::below_one)]
    gamma: f64,
    /// Print the map to the standard error.
    #[arg(long)]
    show: bool,
    #[command(flatten)]
    output: Output,
}

/// Generates a maze for a robot that turns and sees walls around it.
///
/// The robot knows the maze, but not its own place. In a map, '#' and ' ' are walls, '.' is free, 'G' is a goal, 'T' a tiger, and '1' to
/// '9' are landmarks, visible to a robot that faces south. '^', '>', 'v' and '<' are starts with a direction; without any, the robot
/// starts in any cell that is no goal. The default map is the hallway.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov pomdp generate maze --map hall.txt --out hall.json
  warpkov pomdp generate maze --width 12 --height 8 --seed 7 --show --out maze.json")]
pub struct Maze {
    /// Text file of the map.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["width", "height"])]
    map: Option<PathBuf>,
    /// Number of rooms in a row of a random maze.
    #[arg(long, value_name = "ROOMS", value_parser = clap::value_parser!(u32).range(1..), requires = "height")]
    width: Option<u32>,
    /// Number of rooms in a column of a random maze.
    #[arg(long, value_name = "ROOMS", value_parser = clap::value_parser!(u32).range(1..), requires = "width")]
    height: Option<u32>,
    /// Seed of the random maze.
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
    /// Probability that a step forward succeeds.
    #[arg(long, value_name = "P", default_value = "0.8", value_parser = number::probability)]
    forward: f64,
    /// Probability that a turn to the right or left succeeds.
    #[arg(long, value_name = "P", default_value = "0.7", value_parser = number::probability)]
    turn: f64,
    /// Probability that a turn around succeeds.
    #[arg(long, value_name = "P", default_value = "0.6", value_parser = number::probability)]
    around: f64,
    /// Probability that the robot observes a wall as a wall.
    #[arg(long, value_name = "P", default_value = "0.9", value_parser = number::probability)]
    sees_wall: f64,
    /// Probability that the robot observes an opening as an opening.
    #[arg(long, value_name = "P", default_value = "0.95", value_parser = number::probability)]
    sees_opening: f64,
    /// Discount factor γ, in [0, 1).
    #[arg(long, value_name = "G", default_value = "0.95", value_parser = number::below_one)]
    gamma: f64,
    /// Print the map to the standard error.
    #[arg(long)]
    show: bool,
    #[command(flatten)]
    output: Output,
}

/// Generates the game of tag of Pineau, Gordon and Thrun: 870 states.
///
/// A robot chases an opponent that flees. It sees the opponent only in its own cell.
#[derive(Args)]
#[command(after_help = "Examples:\n  warpkov pomdp generate tag --out tag.json")]
pub struct Tag {
    /// Probability that the opponent tries to move.
    #[arg(long, value_name = "P", default_value = "0.8", value_parser = number::probability)]
    flees: f64,
    /// Discount factor γ, in [0, 1).
    #[arg(long, value_name = "G", default_value = "0.95", value_parser = number::below_one)]
    gamma: f64,
    #[command(flatten)]
    output: Output,
}

/// Generates RockSample[n,k] of Smith and Simmons.
///
/// A rover on n × n cells checks k rocks from a distance, samples good rocks, and leaves to the east.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov pomdp generate rock-sample --layout 7,8 --out rocks.json
  warpkov pomdp generate rock-sample --size 3 --rock 0,0 --rock 2,1 --start 0,1 --out small.json")]
pub struct RockSample {
    /// Published layout of rocks and start, as n,k.
    #[arg(long, value_parser = choice::<Layout>(), value_name = "N,K", required_unless_present = "size",
        conflicts_with_all = ["size", "rock", "start"])]
    layout: Option<Layout>,
    /// Cells in a row and in a column.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), requires = "start")]
    size: Option<u32>,
    /// Column and row, from 0, of a rock; may be repeated.
    #[arg(long, value_name = "X,Y", value_parser = place)]
    rock: Vec<(u32, u32)>,
    /// Column and row, from 0, of the start.
    #[arg(long, value_name = "X,Y", value_parser = place, requires = "size")]
    start: Option<(u32, u32)>,
    /// Distance in cells at which the efficiency of the sensor is one half [default: that of the layout, or 20].
    #[arg(long, value_name = "D", value_parser = number::positive)]
    half_efficiency_distance: Option<f64>,
    /// Discount factor γ, in [0, 1).
    #[arg(long, value_name = "G", default_value = "0.95", value_parser = number::below_one)]
    gamma: f64,
    #[command(flatten)]
    output: Output,
}

/// Generates the search for a source of odour in the wind.
///
/// An agent knows the place of the source on the grid, but not its own. It moves from cell to cell and sometimes smells the plume of
/// the source. Moves are certain. The default grid has 13,585 states.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov pomdp generate olfactory --out plume.json
  warpkov pomdp generate olfactory --width 60 --height 31 --source 8,15 --spread 0.2 --out small.json")]
pub struct Olfactory {
    /// Cells in a row.
    #[arg(long, value_name = "CELLS", default_value_t = 209, value_parser = clap::value_parser!(u32).range(1..))]
    width: u32,
    /// Cells in a column.
    #[arg(long, value_name = "CELLS", default_value_t = 65, value_parser = clap::value_parser!(u32).range(1..))]
    height: u32,
    /// Cell of the source; the wind blows to larger X.
    #[arg(long, value_name = "X,Y", default_value = "20,32", value_parser = place)]
    source: (u32, u32),
    /// Probability of smelling the source next to it.
    #[arg(long, value_name = "P", default_value = "0.9", value_parser = number::probability)]
    peak: f64,
    /// Half the width of the plume at the source, in cells.
    #[arg(long, value_name = "CELLS", default_value = "1.5", value_parser = number::positive)]
    width_at_source: f64,
    /// Growth of half the width per cell downwind.
    #[arg(long, value_name = "CELLS", default_value = "0.1", value_parser = number::non_negative)]
    spread: f64,
    /// Discount factor γ, in [0, 1).
    #[arg(long, value_name = "G", default_value = "0.99", value_parser = number::below_one)]
    gamma: f64,
    #[command(flatten)]
    output: Output,
}

/// Generates the maintenance of a machine by Smallwood and Sondik, with any number of parts.
///
/// Parts wear in operation, unobserved. The product is good or bad; an inspection is a noisy observation of each part as fine or worn; a
/// repair improves each part; a new machine has a price.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov pomdp generate maintenance --out machine.json
  warpkov pomdp generate maintenance --parts 4 --levels 4 --gamma 0.9999 --out machine.pomdp")]
pub struct Maintenance {
    /// Number of parts.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=10))]
    parts: u32,
    /// Number of levels of a part, from broken to new.
    #[arg(long, value_name = "L", default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..))]
    levels: u32,
    /// Probability that a part loses a level in operation.
    #[arg(long, value_name = "P", default_value = "0.03", value_parser = number::probability)]
    wear: f64,
    /// Probability that an inspection of a new or a broken part is correct.
    #[arg(long, value_name = "P", default_value = "0.97", value_parser = number::probability)]
    accuracy: f64,
    /// Probability that a repair improves a part by one level.
    #[arg(long, value_name = "P", default_value = "0.8", value_parser = number::probability)]
    repaired: f64,
    /// Cost of an inspection.
    #[arg(long, value_name = "C", default_value = "1", value_parser = number::finite, allow_hyphen_values = true)]
    inspection: f64,
    /// Cost of a repair.
    #[arg(long, value_name = "C", default_value = "3", value_parser = number::finite, allow_hyphen_values = true)]
    repair: f64,
    /// Cost of a new machine.
    #[arg(long, value_name = "C", default_value = "15", value_parser = number::finite, allow_hyphen_values = true)]
    replacement: f64,
    /// Discount factor γ, in [0, 1).
    #[arg(long, value_name = "G", default_value = "0.999", value_parser = number::below_one)]
    gamma: f64,
    #[command(flatten)]
    output: Output,
}

/// Generates the inspection of a machine that wears and fails unseen: 3 states.
///
/// The machine is good, worn or failed. Every step gives a noisy observation of its state, an inspection a better one; a repair may mend a
/// worn machine, a replacement always gives a good one. Costs are minimised.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov pomdp generate inspection --out machine.json
  warpkov pomdp generate inspection --monitoring 0.34 --downtime 40 --gamma 0.99 --out machine.pomdp")]
pub struct Inspection {
    /// Probability that a good machine is worn after a step.
    #[arg(long, value_name = "P", default_value = "0.1", value_parser = number::probability)]
    wear: f64,
    /// Probability that a worn machine fails in a step.
    #[arg(long, value_name = "P", default_value = "0.2", value_parser = number::probability)]
    failure: f64,
    /// Probability that the observation is correct without an inspection.
    #[arg(long, value_name = "P", default_value = "0.5", value_parser = number::probability)]
    monitoring: f64,
    /// Probability that an inspection is correct.
    #[arg(long, value_name = "P", default_value = "0.9", value_parser = number::probability)]
    accuracy: f64,
    /// Probability that a repair of a worn machine succeeds.
    #[arg(long, value_name = "P", default_value = "0.8", value_parser = number::probability)]
    repaired: f64,
    /// Cost of a step of a worn machine.
    #[arg(long, value_name = "C", default_value = "2", value_parser = number::finite, allow_hyphen_values = true)]
    loss: f64,
    /// Cost of a step of a failed machine.
    #[arg(long, value_name = "C", default_value = "10", value_parser = number::finite, allow_hyphen_values = true)]
    downtime: f64,
    /// Cost of an inspection.
    #[arg(long, value_name = "C", default_value = "1", value_parser = number::finite, allow_hyphen_values = true)]
    inspection: f64,
    /// Cost of a repair.
    #[arg(long, value_name = "C", default_value = "4", value_parser = number::finite, allow_hyphen_values = true)]
    repair: f64,
    /// Cost of a new machine.
    #[arg(long, value_name = "C", default_value = "15", value_parser = number::finite, allow_hyphen_values = true)]
    replacement: f64,
    /// Discount factor γ, in [0, 1).
    #[arg(long, value_name = "G", default_value = "0.98", value_parser = number::below_one)]
    gamma: f64,
    #[command(flatten)]
    output: Output,
}

/// Generates slotted Aloha: stations that share a channel.
///
/// Packets that collide wait to be sent again. The action is the probability of sending in a slot, chosen without knowledge of the number
/// of waiting packets.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov pomdp generate aloha --out aloha.json
  warpkov pomdp generate aloha --backlogs 30 --gamma 0.99 --out aloha.pomdp")]
pub struct Aloha {
    /// Number of backlogs: one more than the maximum number of waiting packets.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(3..=1024))]
    backlogs: u32,
    /// Mean number of packets that arrive in a slot.
    #[arg(long, value_name = "L", default_value = "0.9", value_parser = number::non_negative)]
    arrivals: f64,
    /// Discount factor γ, in [0, 1).
    #[arg(long, value_name = "G", default_value = "0.999", value_parser = number::below_one)]
    gamma: f64,
    #[command(flatten)]
    output: Output,
}

/// Two whole numbers, as in 2,0.
fn place(text: &str) -> Result<(u32, u32), String> {
    let place = text.split_once(',').and_then(|(x, y)| Some((x.trim().parse().ok()?, y.trim().parse().ok()?)));
    place.ok_or_else(|| "expected a column and a row, as in 2,0".to_owned())
}

impl Maze {
    fn map(&self) -> Result<Map, Error> {
        let of_file = |path: &PathBuf| {
            reads(path)?;
            let text = Input::open(path).and_then(Input::read_text).map_err(warpkov_common::io::Error::read(path))?;
            text.parse().map_err(|error| Error::Usage(format!("{}: {error}", path.display())))
        };
        Ok(match (&self.map, self.width, self.height) {
            (Some(path), ..) => of_file(path)?,
            (None, Some(width), Some(height)) => Map::random(width, height, self.seed)?,
            _ => generate::Maze::default().map,
        })
    }
}

impl Known {
    /// The model of this maze.
    fn of(&self, maze: generate::Maze) -> Result<Pomdp, Error> {
        if self.show {
            eprint!("{}", maze.map);
        }
        Ok(generate::Maze { gamma: self.gamma, ..maze }.generate()?)
    }
}

impl Family {
    fn output(&self) -> &Output {
        match self {
            Self::Tiger(arguments) => &arguments.output,
            Self::FourByThree(arguments) => &arguments.output,
            Self::Hallway(Hallway { known })
            | Self::Hallway2(Hallway2 { known })
            | Self::TigerGrid(TigerGrid { known }) => &known.output,
            Self::Maze(arguments) => &arguments.output,
            Self::Tag(arguments) => &arguments.output,
            Self::RockSample(arguments) => &arguments.output,
            Self::Olfactory(arguments) => &arguments.output,
            Self::Maintenance(arguments) => &arguments.output,
            Self::Inspection(arguments) => &arguments.output,
            Self::Aloha(arguments) => &arguments.output,
        }
    }

    fn generate(&self) -> Result<Pomdp, Error> {
        Ok(match *self {
            Self::Tiger(Tiger { accuracy, listen, treasure, tiger, gamma, .. }) => {
                generate::Tiger { accuracy, listen, treasure, tiger, gamma }.generate()?
            }
            Self::FourByThree(FourByThree { slip, step, gamma, .. }) => {
                generate::FourByThree { slip, step, gamma, ..generate::FourByThree::default() }.generate()?
            }
            Self::Hallway(Hallway { ref known }) => known.of(generate::Maze::hallway())?,
            Self::Hallway2(Hallway2 { ref known }) => known.of(generate::Maze::hallway2())?,
            Self::TigerGrid(TigerGrid { ref known }) => known.of(generate::Maze::tiger_grid())?,
            Self::Maze(ref arguments) => {
                let Maze { forward, turn, around, sees_wall, sees_opening, gamma, show, .. } = *arguments;
                let map = arguments.map()?;
                if show {
                    eprint!("{map}");
                }
                let rest = generate::Maze::default();
                generate::Maze { map, forward, turn, around, sees_wall, sees_opening, gamma, ..rest }.generate()?
            }
            Self::Tag(Tag { flees, gamma, .. }) => {
                generate::Tag { flees, gamma, ..generate::Tag::default() }.generate()?
            }
            Self::RockSample(ref arguments) => {
                let known = generate::RockSample::new(arguments.layout.unwrap_or(Layout::R7x8));
                let places = match (arguments.size, arguments.start) {
                    (Some(size), Some(start)) => {
                        generate::RockSample { size, start, rocks: arguments.rock.clone(), ..known }
                    }
                    _ => known,
                };
                let half_efficiency_distance =
                    arguments.half_efficiency_distance.unwrap_or(places.half_efficiency_distance);
                generate::RockSample { half_efficiency_distance, gamma: arguments.gamma, ..places }.generate()?
            }
            Self::Olfactory(Olfactory { width, height, source, peak, width_at_source, spread, gamma, .. }) => {
                generate::Olfactory { width, height, source, peak, width_at_source, spread, gamma }.generate()?
            }
            Self::Maintenance(Maintenance {
                parts,
                levels,
                wear,
                accuracy,
                repaired,
                inspection,
                repair,
                replacement,
                gamma,
                ..
            }) => {
                let costs =
                    generate::Maintenance { inspection, repair, replacement, ..generate::Maintenance::default() };
                generate::Maintenance { parts, levels, wear, accuracy, repaired, gamma, ..costs }.generate()?
            }
            Self::Inspection(ref arguments) => {
                let Inspection { wear, failure, monitoring, accuracy, repaired, .. } = *arguments;
                let Inspection { loss, downtime, inspection, repair, replacement, gamma, .. } = *arguments;
                let chances = generate::Inspection { wear, failure, monitoring, accuracy, ..Default::default() };
                let costs = generate::Inspection { loss, downtime, inspection, repair, replacement, ..chances };
                generate::Inspection { repaired, gamma, ..costs }.generate()?
            }
            Self::Aloha(Aloha { backlogs, arrivals, gamma, .. }) => {
                generate::Aloha { backlogs, arrivals, gamma }.generate()?
            }
        })
    }
}

/// The model to generate, and its destination.
pub struct Options {
    family: Family,
    out: FileOrStd,
    format: Format,
}

impl TryFrom<Family> for Options {
    type Error = Error;

    fn try_from(family: Family) -> Result<Self, Error> {
        let Output { out, to } = family.output();
        let (out, format) = (out.clone(), output_format(out, *to, &[Kind::Model], Format::Json)?);
        Ok(Self { family, out, format })
    }
}

/// Generates the model, writes it.
pub fn run(family: Family, out: impl Write) -> Result<Outcome, Error> {
    let options = Options::try_from(family)?;
    let model = options.family.generate()?;
    note_losses(options.format, &model);
    write(&options.out, options.format, &model, out)?;
    Ok(Outcome::Success)
}
