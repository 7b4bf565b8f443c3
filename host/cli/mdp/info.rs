//! `warpkov mdp info`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use clap::Args;
use serde::Serialize;
use warpkov::common::terminal::escaped;
use warpkov::mdp::model::{Csr, Mdp, Objective};

use crate::cli::common::file::Input;
use crate::cli::error::{Error, Outcome};

/// Describes a model.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  warpkov mdp info grid.safetensors
  warpkov mdp info grid.json --json | jq .transitions";

/// What there is to say about a model.
#[derive(Serialize)]
struct Info {
    states: u32,
    /// Of the states that have most.
    actions: u32,
    rows: usize,
    /// States without actions.
    terminal: usize,
    gamma: f64,
    objective: Objective,
    /// States of each label.
    labels: BTreeMap<String, usize>,
    transitions: Rows,
    rewards: Rewards,
    grid: Option<Geometry>,
    bytes: usize,
}

/// The rows of a matrix, which are distributions.
#[derive(Serialize)]
pub struct Rows {
    pub nnz: usize,
    shortest_row: usize,
    mean_row: f64,
    pub longest_row: usize,
    /// Largest |1 − Σ|.
    row_sum_error: f64,
}

impl From<&Csr> for Rows {
    fn from(matrix: &Csr) -> Self {
        let rows = || (0..matrix.rows()).map(|row| matrix.row(row).1);
        Self {
            nnz: matrix.nnz(),
            shortest_row: rows().map(<[f64]>::len).min().unwrap_or(0),
            mean_row: matrix.nnz() as f64 / matrix.rows().max(1) as f64,
            longest_row: rows().map(<[f64]>::len).max().unwrap_or(0),
            row_sum_error: rows().map(|row| (1.0 - row.iter().sum::<f64>()).abs()).fold(0.0, f64::max),
        }
    }
}

impl Rows {
    /// Three lines, of which the first begins with `what` and ends with `kind`.
    pub fn write(&self, out: &mut impl Write, what: &str, kind: &str) -> io::Result<()> {
        let Self { nnz, shortest_row, mean_row, longest_row, row_sum_error } = self;
        writeln!(out, "{what:<16} {nnz} nonzeros{kind}")?;
        writeln!(out, "  row lengths    {shortest_row} to {longest_row}, {mean_row:.2} on average")?;
        writeln!(out, "  row sums       1 within {row_sum_error:.1e}")
    }
}

#[derive(Serialize)]
struct Rewards {
    nnz: usize,
    /// Least and largest stored reward.
    range: Option<[f64; 2]>,
    /// Rewards for taking an action, whatever follows: how many are not 0.
    actions_nnz: usize,
    /// Least and largest of them.
    actions_range: Option<[f64; 2]>,
}

#[derive(Serialize)]
struct Geometry {
    width: u32,
    height: u32,
    goal: u32,
    walls: usize,
    obstacles: usize,
}

impl From<&Mdp> for Info {
    fn from(mdp: &Mdp) -> Self {
        let (p, r) = (mdp.transitions(), mdp.rewards());
        let rewards = Rewards {
            nnz: r.nnz(),
            range: range(r.val()),
            actions_nnz: mdp.action_rewards().iter().filter(|&&reward| reward != 0.0).count(),
            actions_range: range(mdp.action_rewards()),
        };
        let grid = mdp.grid().map(|grid| Geometry {
            width: grid.width,
            height: grid.height,
            goal: grid.goal,
            walls: grid.walls.len(),
            obstacles: grid.obstacles.len(),
        });
        let counts = || (0..mdp.states() as usize).map(|state| mdp.choices().count(state));
        Self {
            states: mdp.states(),
            actions: mdp.choices().max(),
            rows: mdp.rows(),
            terminal: counts().filter(|&count| count == 0).count(),
            gamma: mdp.gamma(),
            objective: mdp.objective(),
            labels: mdp.labels().iter().map(|(label, states)| (label.clone(), states.len())).collect(),
            transitions: Rows::from(p),
            rewards,
            grid,
            bytes: bytes(p) + bytes(r) + size_of_val(&mdp.ends()[..]) + size_of_val(&mdp.action_rewards()[..]),
        }
    }
}

/// The least and the largest.
pub fn range(values: &[f64]) -> Option<[f64; 2]> {
    let bound = |f: fn(f64, f64) -> f64| values.iter().copied().reduce(f);
    bound(f64::min).zip(bound(f64::max)).map(|(least, largest)| [least, largest])
}

/// Bytes of a matrix.
pub fn bytes(matrix: &Csr) -> usize {
    size_of_val(&matrix.row_ptr()[..]) + size_of_val(&matrix.col()[..]) + size_of_val(&matrix.val()[..])
}

/// Reads, then prints.
pub fn run(arguments: &Arguments, mut out: impl Write) -> Result<Outcome, Error> {
    let info = Info::from(&arguments.input.read()?);
    if arguments.json {
        serde_json::to_writer(&mut out, &info).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        write(&info, &mut out)?;
    }
    Ok(Outcome::Success)
}

fn write(info: &Info, out: &mut impl Write) -> io::Result<()> {
    let Info { states, actions, rows, terminal, gamma, objective, labels, transitions, rewards, grid, bytes } = info;
    writeln!(out, "States (S)       {states}")?;
    if *rows == *states as usize * *actions as usize {
        writeln!(out, "Actions (A)      {actions}")?;
    } else {
        writeln!(out, "Actions (A)      up to {actions}, {rows} in all, {terminal} states have none")?;
    }
    writeln!(out, "Discount (γ)     {gamma}")?;
    if *objective == Objective::Minimize {
        writeln!(out, "Objective        minimize")?;
    }
    for (label, count) in labels {
        writeln!(out, "Label            {}, {count} states", escaped(label))?;
    }
    transitions.write(out, "Transitions", "")?;
    if let Some([least, largest]) = rewards.range {
        writeln!(out, "Rewards          {} nonzeros, {least} to {largest}", rewards.nnz)?;
    }
    if let Some([least, largest]) = rewards.actions_range {
        writeln!(out, "Action rewards   {} nonzeros, {least} to {largest}", rewards.actions_nnz)?;
    }
    if rewards.range.or(rewards.actions_range).is_none() {
        writeln!(out, "Rewards          none")?;
    }
    if let Some(Geometry { width, height, goal, walls, obstacles }) = grid {
        let (column, row) = (goal % width, goal / width);
        writeln!(out, "Grid             {width} × {height}, goal in column {column}, row {row} (state {goal})")?;
        writeln!(out, "  walls          {walls}")?;
        writeln!(out, "  obstacles      {obstacles}")?;
    }
    writeln!(out, "Memory           {:.1} MiB", *bytes as f64 / (1u64 << 20) as f64)
}
