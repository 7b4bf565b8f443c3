//! Q-factors with the error bound that a certificate of V implies.
//!
//! Q(s, a) = r(s, a) + γ Σ P(s'|s, a)·V(s'). Since Q*(s, a) is the same with V*, |Q − Q*| ≤ γ'·‖V − V*‖∞, where γ' is γ
//! times the largest row sum of P. The computed Q adds rounding errors of at most 2·(N + 4)·(u·M + m), in the notation of
//! the [certificate](crate::certificate).

use std::io::{self, Write};

use rayon::prelude::*;
use serde::Serialize;

use super::table::{NamedColumns, TableFormat, write_line};
use crate::certificate::{q_factor, rounded_up};
use crate::io::write_npy_rows;
use crate::model::{CHUNK, Mdp, Objective};
use crate::report::Number;
use crate::solution::Solution;
use warpkov_common::report::{Report, Results, write_object};

/// Unit roundoff of `f64`.
const UNIT: f64 = f64::EPSILON / 2.0;

/// Q-factors of all state-action pairs.
#[derive(Clone, Debug, PartialEq)]
pub struct QFactors {
    /// Q, one number per row of the model.
    pub q: Vec<f64>,
    /// The advantage Q(s, a) − best Q(s, ·): at most 0 when maximising, at least 0 when minimising.
    pub advantages: Vec<f64>,
    /// Upper bound on ‖Q − Q*‖∞, rounding errors included; `None` if V has none.
    pub bound: Option<f64>,
}

/// The Q-factors of `values`, whose distance from V* is at most `bound`. Runs on all cores.
#[must_use]
pub fn q_factors(mdp: &Mdp, values: &[f64], bound: Option<f64>) -> QFactors {
    let of_row = |row: usize| {
        let (successors, probs) = mdp.transitions().row(row);
        let earned: f64 = mdp.rewards_of(row).zip(probs).map(|(reward, p)| p * reward.abs()).sum();
        let next: f64 = successors.iter().zip(probs).map(|(&next, p)| p * values[next as usize].abs()).sum();
        let size = mdp.action_reward(row).abs() + earned + mdp.gamma() * next;
        let slack = 2.0 * (probs.len() + 4) as f64 * (UNIT * size + f64::MIN_POSITIVE);
        (q_factor(mdp, values, row), slack, probs.iter().sum::<f64>())
    };
    let rows: Vec<_> = (0..mdp.rows()).into_par_iter().with_min_len(CHUNK).map(of_row).collect();
    let (slack, sum) = rows.iter().fold((0.0, 0.0), |(slack, sum): (f64, f64), row| (slack.max(row.1), sum.max(row.2)));
    // The sum of a row, and the products, have relative errors far below that of the factor.
    let bound = bound.map(|bound| (mdp.gamma() * sum * bound + slack) * (1.0 + 1e-6)).filter(|bound| bound.is_finite());
    let q: Vec<f64> = rows.into_iter().map(|row| row.0).collect();
    let sign = mdp.objective().sign();
    let of_state = |state: usize| {
        let rows = mdp.choices().rows(state);
        let best = q[rows.clone()].iter().map(|q| sign * q).fold(f64::NEG_INFINITY, f64::max);
        q[rows].iter().map(|q| q - sign * best).collect::<Vec<_>>()
    };
    let advantages = (0..mdp.states() as usize).into_par_iter().with_min_len(CHUNK).flat_map_iter(of_state).collect();
    QFactors { q, advantages, bound }
}

/// The Q-factors of a solved model.
pub struct QReport<'a> {
    /// The model.
    pub mdp: &'a Mdp,
    /// The solution that V comes from.
    pub solution: &'a Solution,
    /// Whether the solution meets its target.
    pub converged: bool,
    /// Q.
    pub factors: &'a QFactors,
}

impl QReport<'_> {
    /// The state, and the number of the action there, of each row.
    fn rows(&self) -> impl Iterator<Item = (u32, u32)> {
        (0..self.mdp.states())
            .flat_map(|state| (0..self.mdp.choices().count(state as usize) as u32).map(move |a| (state, a)))
    }

    fn table(&self) -> NamedColumns<'_> {
        let mut table = NamedColumns::default();
        table.texts("state", self.rows().map(|(state, _)| Some(self.mdp.state_name(state))).collect());
        table.texts("action", self.rows().map(|(state, action)| Some(self.mdp.action_name(state, action))).collect());
        table.numbers("q", &self.factors.q);
        table.numbers("advantage", &self.factors.advantages);
        table
    }
}

impl Report for QReport<'_> {
    fn guarantee(&self) -> Option<String> {
        Some(match self.factors.bound {
            Some(bound) => format!("Certified: |Q − Q*| ≤ {}", rounded_up(bound)),
            None => "Not certified".to_owned(),
        })
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        #[derive(Serialize)]
        struct Row {
            action: String,
            q: Number,
            advantage: Number,
        }
        #[derive(Serialize)]
        struct State {
            state: String,
            value: Number,
            actions: Vec<Row>,
        }
        #[derive(Serialize)]
        struct Record {
            converged: bool,
            objective: Objective,
            gamma: f64,
            /// Bound of |V − V*|.
            value_bound: Option<f64>,
            /// Bound of |Q − Q*|.
            bound: Option<f64>,
            states: Vec<State>,
        }
        let Self { mdp, solution, factors, .. } = self;
        let row = |state: u32, row: usize, action: u32| Row {
            action: mdp.action_name(state, action),
            q: Number(factors.q[row]),
            advantage: Number(factors.advantages[row]),
        };
        let state = |state: u32| State {
            state: mdp.state_name(state),
            value: Number(solution.values[state as usize]),
            actions: mdp.choices().rows(state as usize).zip(0..).map(|(at, action)| row(state, at, action)).collect(),
        };
        let record = Record {
            converged: self.converged,
            objective: mdp.objective(),
            gamma: mdp.gamma(),
            value_bound: solution.certificate.bound,
            bound: factors.bound,
            states: (0..mdp.states()).map(state).collect(),
        };
        write_object(out, &record)
    }

    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let (mdp, solution) = (self.mdp, self.solution);
        write_line(out, "Criterion", format_args!("discounted, gamma {}, {}", mdp.gamma(), mdp.objective()))?;
        write_line(out, "Device", format_args!("{}, method {}", solution.device, solution.method))?;
        match self.factors.bound {
            Some(bound) => write_line(out, "Certified", format_args!("|Q − Q*| ≤ {}", rounded_up(bound)))?,
            None => write_line(out, "Certified", "no")?,
        }
        if !self.converged {
            write_line(out, "Note", "not converged: V is not within ε of V*")?;
        }
        writeln!(out)?;
        self.table().write_text(out)
    }
}

impl Results for QReport<'_> {
    type Format = TableFormat;

    /// As a NumPy array, Q has the shape S × A, with NaN for actions that a state lacks.
    fn write_as(&self, format: TableFormat, out: &mut dyn Write) -> io::Result<()> {
        match format {
            TableFormat::Csv => self.table().write_csv(out),
            TableFormat::Json => self.write_json(out),
            TableFormat::Npy => {
                let (states, actions) = (self.mdp.states() as usize, self.mdp.choices().max() as usize);
                let mut all = vec![f64::NAN; states * actions];
                for (state, all) in all.chunks_mut(actions.max(1)).enumerate() {
                    let rows = self.mdp.choices().rows(state);
                    all[..rows.len()].copy_from_slice(&self.factors.q[rows]);
                }
                write_npy_rows(out, &all, actions)
            }
        }
    }
}
