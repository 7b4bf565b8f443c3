//! The description of a model, for people and for programs.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use super::analysis::graph::Graph;
use super::analysis::guards::{Purpose, Warning, inspect};
use super::model::{Csr, Mdp, Objective};
use warpkov_common::guard::write_warnings;
use warpkov_common::report::{Report, write_object};
use warpkov_common::terminal::escaped;

/// Size, structure and memory of a model.
#[derive(Clone, Debug, Serialize)]
pub struct Info {
    /// S.
    states: u32,
    /// Most actions of a state.
    actions: u32,
    /// Pairs of state and action.
    rows: usize,
    /// States without actions.
    terminal: usize,
    /// γ.
    gamma: f64,
    objective: Objective,
    /// Number of states of each label.
    labels: BTreeMap<String, usize>,
    transitions: RowStatistics,
    rewards: Rewards,
    grid: Option<Geometry>,
    /// States that have no way to the goal: the states with the label "goal", else the goal of the grid. Walls do not count.
    cannot_reach_goal: Option<usize>,
    /// Bytes of the arrays in memory.
    bytes: usize,
    /// Bytes of P and R as dense matrices of `f64`, S·A × S, at most 2⁶⁴ − 1.
    dense_bytes: u64,
    /// What looks wrong, the most serious first.
    warnings: Vec<Warning>,
}

/// Statistics of a matrix whose rows are distributions.
#[derive(Clone, Debug, Serialize)]
pub struct RowStatistics {
    /// Nonzeros.
    pub nnz: usize,
    shortest_row: usize,
    mean_row: f64,
    /// Nonzeros of the longest row.
    pub longest_row: usize,
    /// Largest |1 − Σ| of a row, its end probability included.
    row_sum_error: f64,
}

impl From<&Csr> for RowStatistics {
    fn from(matrix: &Csr) -> Self {
        Self::with_ends(matrix, &[])
    }
}

impl RowStatistics {
    /// The rows of P with an end probability each, or without any.
    fn with_ends(matrix: &Csr, ends: &[f64]) -> Self {
        let rows = || (0..matrix.rows()).map(|row| matrix.row(row).1);
        let sum = |row: usize| matrix.row(row).1.iter().sum::<f64>() + ends.get(row).unwrap_or(&0.0);
        Self {
            nnz: matrix.nnz(),
            shortest_row: rows().map(<[f64]>::len).min().unwrap_or(0),
            mean_row: matrix.nnz() as f64 / matrix.rows().max(1) as f64,
            longest_row: rows().map(<[f64]>::len).max().unwrap_or(0),
            row_sum_error: (0..matrix.rows()).map(|row| (1.0 - sum(row)).abs()).fold(0.0, f64::max),
        }
    }

    /// Writes three lines. The first begins with `what` and ends with `kind`.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut dyn Write, what: &str, kind: &str) -> io::Result<()> {
        let Self { nnz, shortest_row, mean_row, longest_row, row_sum_error } = self;
        writeln!(out, "{what:<16} {nnz} nonzeros{kind}")?;
        writeln!(out, "  row lengths    {shortest_row} to {longest_row}, {mean_row:.2} on average")?;
        writeln!(out, "  row sums       1 within {row_sum_error:.1e}")
    }
}

#[derive(Clone, Debug, Serialize)]
struct Rewards {
    /// Stored rewards of transitions.
    nnz: usize,
    /// Least and largest of them.
    range: Option<[f64; 2]>,
    /// Nonzero rewards of actions, which do not depend on the successor.
    actions_nnz: usize,
    /// Least and largest of them.
    actions_range: Option<[f64; 2]>,
}

/// Extent and special cells of a grid world.
#[derive(Clone, Debug, Serialize)]
struct Geometry {
    width: u32,
    height: u32,
    goal: u64,
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
            transitions: RowStatistics::with_ends(p, mdp.ends()),
            rewards,
            grid,
            cannot_reach_goal: cannot_reach_goal(mdp),
            dense_bytes: dense_bytes(p, mdp.states()).saturating_add(match r.nnz() {
                0 => size_of_val(&mdp.action_rewards()[..]) as u64,
                _ => dense_bytes(r, mdp.states()),
            }),
            bytes: bytes(p) + bytes(r) + size_of_val(&mdp.ends()[..]) + size_of_val(&mdp.action_rewards()[..]),
            warnings: inspect(mdp, Purpose::default()),
        }
    }
}

/// Number of states without a way to the goal, walls not counted; `None` without a goal.
fn cannot_reach_goal(mdp: &Mdp) -> Option<usize> {
    let (grid, label) = (mdp.grid(), mdp.labels().get("goal"));
    let mut goal = vec![false; mdp.states() as usize + 1];
    match (label, grid) {
        (Some(states), _) => states.iter().for_each(|&state| goal[state as usize] = true),
        (None, Some(grid)) => goal[grid.goal as usize] = true,
        (None, None) => return None,
    }
    let walls = grid.map_or(0, |grid| grid.walls.len());
    let reached = Graph::new(mdp).can_reach(&goal, |_| true).contains;
    Some(reached[..goal.len() - 1].iter().filter(|&&reached| !reached).count().saturating_sub(walls))
}

/// Least and largest value; none of no values.
#[must_use]
pub fn range(values: &[f64]) -> Option<[f64; 2]> {
    let bound = |f: fn(f64, f64) -> f64| values.iter().copied().reduce(f);
    bound(f64::min).zip(bound(f64::max)).map(|(least, largest)| [least, largest])
}

/// Bytes of a matrix in memory.
#[must_use]
pub fn bytes(matrix: &Csr) -> usize {
    size_of_val(&matrix.row_ptr()[..]) + size_of_val(&matrix.col()[..]) + size_of_val(&matrix.val()[..])
}

/// Bytes of a matrix of `f64` with so many columns if its zeros were stored, at most 2⁶⁴ − 1.
#[must_use]
pub fn dense_bytes(matrix: &Csr, columns: u32) -> u64 {
    (matrix.rows() as u64).saturating_mul(u64::from(columns)).saturating_mul(size_of::<f64>() as u64)
}

/// Writes the lines of the discount factor and, of costs, of the objective.
///
/// # Errors
/// Those of `out`.
pub fn write_objective(out: &mut dyn Write, gamma: f64, objective: Objective) -> io::Result<()> {
    writeln!(out, "Discount (γ)     {gamma}")?;
    match objective {
        Objective::Maximize => Ok(()),
        Objective::Minimize => writeln!(out, "Objective        minimize"),
    }
}

/// Writes the line of the memory of a model, as it is stored and as dense matrices.
///
/// # Errors
/// Those of `out`.
pub fn write_memory(out: &mut dyn Write, bytes: usize, dense: u64) -> io::Result<()> {
    let text = |bytes: f64| match bytes / f64::from(1 << 20) {
        mebibytes if mebibytes < 1024.0 => format!("{mebibytes:.1} MiB"),
        mebibytes if mebibytes < 1024.0 * 1024.0 => format!("{:.1} GiB", mebibytes / 1024.0),
        mebibytes => format!("{:.1} TiB", mebibytes / (1024.0 * 1024.0)),
    };
    writeln!(out, "Memory           {}; dense, {}", text(bytes as f64), text(dense as f64))
}

impl Report for Info {
    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        write_object(out, self)
    }

    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self {
            states,
            actions,
            rows,
            terminal,
            gamma,
            objective,
            labels,
            transitions,
            rewards,
            grid,
            cannot_reach_goal,
            bytes,
            dense_bytes,
            warnings,
        } = self;
        writeln!(out, "States (S)       {states}")?;
        if *rows == *states as usize * *actions as usize {
            writeln!(out, "Actions (A)      {actions}")?;
        } else {
            writeln!(out, "Actions (A)      up to {actions}, {rows} in all, {terminal} states have none")?;
        }
        write_objective(out, *gamma, *objective)?;
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
            let (column, row) = (goal % u64::from(*width), goal / u64::from(*width));
            writeln!(out, "Grid             {width} × {height}, goal in column {column}, row {row} (state {goal})")?;
            writeln!(out, "  walls          {walls}")?;
            writeln!(out, "  obstacles      {obstacles}")?;
        }
        if let Some(count @ 1..) = cannot_reach_goal {
            let states = *states as usize - grid.as_ref().map_or(0, |grid| grid.walls);
            writeln!(out, "Goal             {count} of {states} states have no way to it")?;
        }
        write_memory(out, *bytes, *dense_bytes)?;
        write_warnings(out, warnings)
    }
}
