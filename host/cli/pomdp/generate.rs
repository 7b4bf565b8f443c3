//! `warpkov pomdp generate`.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use warpkov_common::io::input::Input;
use warpkov_common::parameters::Value;
use warpkov_pomdp::generate::{self, Layout, Map};
use warpkov_pomdp::io::{Format, Kind};
use warpkov_pomdp::model::Pomdp;

use super::convert::note_losses;
use super::file::{output_format, write};
use super::{Error, Outcome};
use crate::common::choice::choice;
use crate::common::family::{FamilyOptions, ModelFile, Plain};
use crate::common::file::reads;

pub const EXAMPLES: &str = "\
Examples:
  warpkov pomdp generate tiger --out tiger.json
  warpkov pomdp generate hallway2 --out hallway2.pomdp
  warpkov pomdp generate rock-sample --layout 7,8 --out rocks.json
  warpkov pomdp generate maze --map hall.txt --out hall.json";

/// Generates a model of a known family.
#[derive(Subcommand)]
pub enum Family {
    /// Generates the tiger of Kaelbling, Littman and Cassandra.
    ///
    /// One of two doors hides a tiger, the other a treasure. Listening gives a noisy observation of the tiger's door.
    #[command(after_help = "Examples:\n  warpkov pomdp generate tiger --out tiger.json")]
    Tiger(Plain<generate::Tiger, ModelFile<Format>>),
    /// Generates the 4 × 3 grid of Russell and Norvig, with observations by Parr and Russell.
    ///
    /// Moves slip to either side. An observation shows which sides of the cell are walls.
    #[command(after_help = "Examples:\n  warpkov pomdp generate four-by-three --out 4x3.json")]
    FourByThree(Plain<generate::FourByThree, ModelFile<Format>>),
    /// Generates the corridor of Littman, Cassandra and Kaelbling: 60 states.
    ///
    /// A robot starts at a random place and looks for one of four niches. Its observations of walls and openings are noisy.
    #[command(after_help = "Examples:\n  warpkov pomdp generate hallway --show --out hallway.pomdp")]
    Hallway(Known),
    /// Generates the block of corridors of Littman, Cassandra and Kaelbling: 92 states.
    ///
    /// A robot starts at a random place and looks for the only exit. Its observations of walls and openings are noisy.
    #[command(after_help = "Examples:\n  warpkov pomdp generate hallway2 --show --out hallway2.pomdp")]
    Hallway2(Known),
    /// Generates the tiger grid of Littman, Cassandra and Kaelbling: 36 states.
    ///
    /// A robot starts in one of two rooms. The moves that lead to the goal from one room lead to the tiger from the other.
    #[command(after_help = "Examples:\n  warpkov pomdp generate tiger-grid --show --out tiger-grid.pomdp")]
    TigerGrid(Known),
    /// Generates a maze for a robot that turns and sees walls around it.
    ///
    /// The robot knows the maze, but not its own place. In a map, '#' and ' ' are walls, '.' is free, 'G' is a goal, 'T' a tiger, and '1' to
    /// '9' are landmarks, visible to a robot that faces south. '^', '>', 'v' and '<' are starts with a direction; without any, the robot
    /// starts in any cell that is no goal. The default map is the hallway.
    #[command(after_help = "\
Examples:
  warpkov pomdp generate maze --map hall.txt --out hall.json
  warpkov pomdp generate maze --width 12 --height 8 --seed 7 --show --out maze.json")]
    Maze(Maze),
    /// Generates the game of tag of Pineau, Gordon and Thrun: 870 states.
    ///
    /// A robot chases an opponent that flees. It sees the opponent only in its own cell.
    #[command(after_help = "Examples:\n  warpkov pomdp generate tag --out tag.json")]
    Tag(Plain<generate::Tag, ModelFile<Format>>),
    /// Generates RockSample(n,k) of Smith and Simmons.
    ///
    /// A rover on n × n cells checks k rocks from a distance, samples good rocks, and leaves to the east.
    #[command(after_help = "\
Examples:
  warpkov pomdp generate rock-sample --layout 7,8 --out rocks.json
  warpkov pomdp generate rock-sample --size 3 --rock 0,0 --rock 2,1 --start 0,1 --out small.json")]
    #[command(
        mut_arg("size", |option| option.requires("start")),
        mut_arg("start", |option| option.requires("size"))
    )]
    RockSample(RockSample),
    /// Generates the search for a source of odour in the wind.
    ///
    /// An agent knows the place of the source on the grid, but not its own. It moves from cell to cell and sometimes smells the plume of
    /// the source. Moves are certain. The default grid has 13,585 states.
    #[command(after_help = "\
Examples:
  warpkov pomdp generate olfactory --out plume.json
  warpkov pomdp generate olfactory --width 60 --height 31 --source 8,15 --spread 0.2 --out small.json")]
    Olfactory(Plain<generate::Olfactory, ModelFile<Format>>),
    /// Generates the maintenance of a machine by Smallwood and Sondik, with any number of parts.
    ///
    /// Parts wear in operation, unobserved. The product is good or bad; an inspection is a noisy observation of each part as fine or worn; a
    /// repair improves each part; a new machine has a price.
    #[command(after_help = "\
Examples:
  warpkov pomdp generate maintenance --out machine.json
  warpkov pomdp generate maintenance --parts 4 --levels 4 --gamma 0.9999 --out machine.pomdp")]
    Maintenance(Plain<generate::Maintenance, ModelFile<Format>>),
    /// Generates the inspection of a machine that wears and fails unseen: 3 states.
    ///
    /// The machine is good, worn or failed. Every step gives a noisy observation of its state, an inspection a better one; a repair may mend a
    /// worn machine, a replacement always gives a good one. Costs are minimised.
    #[command(after_help = "\
Examples:
  warpkov pomdp generate inspection --out machine.json
  warpkov pomdp generate inspection --monitoring 0.34 --downtime 40 --gamma 0.99 --out machine.pomdp")]
    Inspection(Plain<generate::Inspection, ModelFile<Format>>),
    /// Generates slotted Aloha: stations that share a channel.
    ///
    /// Packets that collide wait to be sent again. The action is the probability of sending in a slot, chosen without knowledge of the number
    /// of waiting packets.
    #[command(after_help = "\
Examples:
  warpkov pomdp generate aloha --out aloha.json
  warpkov pomdp generate aloha --backlogs 30 --gamma 0.99 --out aloha.pomdp")]
    Aloha(Plain<generate::Aloha, ModelFile<Format>>),
}

// A maze with a map of its own.
#[derive(Args)]
pub struct Known {
    #[command(flatten)]
    options: FamilyOptions<generate::Maze>,
    /// Print the map to the standard error.
    #[arg(long)]
    show: bool,
    #[command(flatten)]
    output: ModelFile<Format>,
}

impl Known {
    /// The model of this maze, with the options that were given.
    fn generate(&self, maze: generate::Maze) -> Result<Pomdp, Error> {
        if self.show {
            eprint!("{}", maze.map);
        }
        Ok(self.options.over(maze).generate()?)
    }
}

// A maze with any map.
#[derive(Args)]
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
    #[command(flatten)]
    known: Known,
}

impl Maze {
    fn generate(&self) -> Result<Pomdp, Error> {
        let of_file = |path: &PathBuf| {
            reads(path)?;
            let text = Input::open(path).and_then(Input::read_text).map_err(warpkov_common::io::Error::read(path))?;
            text.parse().map_err(|error| Error::Usage(format!("{}: {error}", path.display())))
        };
        let maze = generate::Maze::default();
        let map = match (&self.map, self.width, self.height) {
            (Some(path), ..) => of_file(path)?,
            (None, Some(width), Some(height)) => Map::random(width, height, self.seed)?,
            _ => maze.map.clone(),
        };
        self.known.generate(generate::Maze { map, ..maze })
    }
}

// A published layout, or places of one's own.
#[derive(Args)]
pub struct RockSample {
    /// Published layout of rocks and start, as n,k.
    #[arg(long, value_parser = choice::<Layout>(), value_name = "N,K", required_unless_present = "size",
        conflicts_with_all = ["size", "rock", "start"])]
    layout: Option<Layout>,
    /// Column and row, from 0, of a rock; may be repeated.
    #[arg(long, value_name = "X,Y", value_parser = <(u32, u32)>::read)]
    rock: Vec<(u32, u32)>,
    #[command(flatten)]
    options: FamilyOptions<generate::RockSample>,
    #[command(flatten)]
    output: ModelFile<Format>,
}

impl RockSample {
    fn generate(&self) -> Result<Pomdp, Error> {
        let places = match self.layout {
            Some(layout) => generate::RockSample::new(layout),
            None => generate::RockSample { rocks: self.rock.clone(), ..generate::RockSample::default() },
        };
        Ok(self.options.over(places).generate()?)
    }
}

impl Family {
    fn output(&self) -> &ModelFile<Format> {
        match self {
            Self::Hallway(known) | Self::Hallway2(known) | Self::TigerGrid(known) => &known.output,
            Self::Tiger(arguments) => &arguments.output,
            Self::FourByThree(arguments) => &arguments.output,
            Self::Maze(arguments) => &arguments.known.output,
            Self::Tag(arguments) => &arguments.output,
            Self::RockSample(arguments) => &arguments.output,
            Self::Olfactory(arguments) => &arguments.output,
            Self::Maintenance(arguments) => &arguments.output,
            Self::Inspection(arguments) => &arguments.output,
            Self::Aloha(arguments) => &arguments.output,
        }
    }

    /// Generates the model.
    pub fn generate(&self) -> Result<Pomdp, Error> {
        Ok(match self {
            Self::Hallway(known) => known.generate(generate::Maze::hallway())?,
            Self::Hallway2(known) => known.generate(generate::Maze::hallway2())?,
            Self::TigerGrid(known) => known.generate(generate::Maze::tiger_grid())?,
            Self::Tiger(arguments) => arguments.options.family().generate()?,
            Self::FourByThree(arguments) => arguments.options.family().generate()?,
            Self::Maze(arguments) => arguments.generate()?,
            Self::Tag(arguments) => arguments.options.family().generate()?,
            Self::RockSample(arguments) => arguments.generate()?,
            Self::Olfactory(arguments) => arguments.options.family().generate()?,
            Self::Maintenance(arguments) => arguments.options.family().generate()?,
            Self::Inspection(arguments) => arguments.options.family().generate()?,
            Self::Aloha(arguments) => arguments.options.family().generate()?,
        })
    }
}

/// Generates the model, writes it.
pub fn run(family: Family, out: impl Write) -> Result<Outcome, Error> {
    let (file, format) = family.output().file(|file, to| output_format(file, to, &[Kind::Model], Format::Json))?;
    let model = family.generate()?;
    note_losses(format, &model);
    write(&file, format, &model, out)?;
    Ok(Outcome::Success)
}
