//! `warpkov mdp solve --exact`.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use serde::Serialize;
use warpkov_common::numbers::{Number, Numbers};
use warpkov_common::terminal::escaped;
use warpkov_mdp::ask::evaluate::{Options as Solve, bounds};
use warpkov_mdp::certificate::rounded_up;
use warpkov_mdp::criterion::{Criterion, Observe};
use warpkov_mdp::model::whole::Named;
use warpkov_mdp::model::{Mdp, NO_ACTION, Objective};
use warpkov_mdp::report::{Extent, Summary};
use warpkov_mdp::solution::Status;
use warpkov_runtime::comm::Column;
use warpkov_verify::mdp::{
    Claim, ExactSolution, Quantity, Verdict, Verification, VerifyError, solve_exactly as by_fractions, verify,
};
use warpkov_verify::rational::{TooLarge, WORK};

use super::solve::{Common, observer};
use super::verify::{quantity, refusal};
use super::{Error, Outcome};
use crate::common::progress::Waiting;

/// What was proved.
enum Proof {
    /// V* as fractions.
    Fractions(ExactSolution),
    /// Bounds around the values of a solve in f64, and the reason why there are no fractions.
    Enclosure(Verification, TooLarge),
}

/// An exact or proved solution.
pub struct ExactReport<'a> {
    mdp: &'a Mdp,
    quantity: Quantity,
    proof: Proof,
    /// V*, or a proposal of it.
    pub values: Vec<f64>,
    /// Proved bounds of V*.
    pub lower: Vec<f64>,
    /// See `lower`.
    pub upper: Vec<f64>,
    /// An optimal policy, or the one of the proposal.
    pub policy: Vec<u32>,
    /// The device of the solve in f64; its automatic choices, and the reason why there are no fractions; its sweeps.
    pub origin: (String, Vec<String>, u64),
    /// Time of the solve in f64, and of the proof.
    elapsed: [Duration; 2],
}

/// The report as JSON.
#[derive(Serialize)]
struct ExactJson<'a> {
    status: Status,
    converged: bool,
    arithmetic: &'static str,
    criterion: &'static str,
    objective: Objective,
    states: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    gamma: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    horizon: Option<u32>,
    error: Number,
    loss: Number,
    compute_seconds: f64,
    proof_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<Vec<Option<u32>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    values: Option<Numbers<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exact: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lower: Option<Numbers<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upper: Option<Numbers<'a>>,
}

/// Solves, writes the files, prints the report.
pub fn run(
    mdp: &Mdp,
    criterion: Option<&Criterion>,
    solve: &Solve,
    common: &Common,
    out: impl Write,
) -> Result<Outcome, Error> {
    let mut observe = observer(mdp.states().into(), common.quiet);
    let Some(report) = solve_exactly(mdp, criterion, solve, common.quiet, &mut observe)? else {
        return Ok(Outcome::Interrupted);
    };
    let written = common.write_solution(&report);
    common.print(&report, out)?;
    written?;
    Ok(if report.is_proved() { Outcome::Success } else { Outcome::Negative })
}

/// Solves in f64, then exactly from that policy; of a large model, proves bounds around the solution. `None` if `observe` stopped the solve.
///
/// # Errors
/// Those of the solve, or an undefined criterion.
pub fn solve_exactly<'m>(
    mdp: &'m Mdp,
    criterion: Option<&Criterion>,
    solve: &Solve,
    quiet: bool,
    observe: &mut Observe,
) -> Result<Option<ExactReport<'m>>, Error> {
    let quantity = quantity(criterion);
    let epsilon = solve.accuracy.epsilon;
    let begun = Instant::now();
    let found = bounds(mdp, criterion, solve, observe)?;
    if found.status == Status::Interrupted {
        return Ok(None);
    }
    let solved = begun.elapsed();
    let _waiting = Waiting::new("proving", quiet);
    let mut origin = (found.device, found.notes, found.sweeps);
    let proof = match by_fractions(mdp, &quantity, &found.values, Some(&found.policy), WORK) {
        Ok(exact) => Proof::Fractions(exact),
        Err(VerifyError::TooLarge(reason)) if reason != TooLarge::Interrupted => {
            let claim = Claim { epsilon, loss: 2.0 * epsilon, work: 0, ..Claim::default() };
            let proved = verify(mdp, &quantity, &found.values, Some(&found.policy), &claim);
            origin.1.push(format!("no fractions: {reason}"));
            Proof::Enclosure(proved.map_err(refused)?, reason)
        }
        Err(error) => return Err(refused(error)),
    };
    let (values, policy, intervals) = match &proof {
        Proof::Fractions(exact) => (
            exact.values.iter().map(|value| value.nearest()).collect(),
            exact.policy.clone(),
            exact.values.iter().map(|value| value.enclosure()).collect(),
        ),
        Proof::Enclosure(proved, _) => (found.values, found.policy, proved.optimal.clone()),
    };
    let (lower, upper) = intervals.iter().map(|x| (x.lo, x.hi)).unzip();
    let elapsed = [solved, begun.elapsed() - solved];
    Ok(Some(ExactReport { mdp, quantity, proof, values, lower, upper, policy, origin, elapsed }))
}

fn refused(error: VerifyError) -> Error {
    refusal(error, "the solution".as_ref())
}

impl ExactReport<'_> {
    /// V* of each state, as `p/q`, an integer, `inf` or `-inf`; `None` for a large model.
    pub fn fractions(&self) -> Option<Vec<String>> {
        match &self.proof {
            Proof::Fractions(exact) => Some(exact.values.iter().map(ToString::to_string).collect()),
            Proof::Enclosure(..) => None,
        }
    }

    fn is_proved(&self) -> bool {
        match &self.proof {
            Proof::Fractions(_) => true,
            Proof::Enclosure(proved, _) => proved.verdict() == Verdict::Proved,
        }
    }

    /// Upper bounds of the error of the values and of the loss of the policy.
    fn errors(&self) -> [f64; 2] {
        match &self.proof {
            // The values are the nearest numbers.
            Proof::Fractions(_) => {
                let width = |(lower, upper): (&f64, &f64)| if lower == upper { 0.0 } else { upper - lower };
                [self.lower.iter().zip(&self.upper).map(width).fold(0.0, f64::max), 0.0]
            }
            Proof::Enclosure(proved, _) => {
                [proved.values.upper, proved.policy.map_or(f64::INFINITY, |policy| policy.upper)]
            }
        }
    }
}

impl Summary for ExactReport<'_> {
    fn values(&self) -> Column<'_, f64> {
        Column::Here(&self.values)
    }

    fn policy(&self) -> Column<'_, u32> {
        Column::Here(&self.policy)
    }

    fn names(&self) -> Option<&dyn Named> {
        self.mdp.names()
    }

    fn write_json(&self, out: &mut dyn Write, with_solution: bool) -> io::Result<()> {
        let [error, loss] = self.errors().map(Number);
        let [solved, proved] = self.elapsed.map(|time| time.as_secs_f64());
        let policy = || self.policy.iter().map(|&action| (action != NO_ACTION).then_some(action)).collect();
        let arithmetic = match &self.proof {
            Proof::Fractions(_) => "rationals",
            Proof::Enclosure(..) => "intervals",
        };
        let record = ExactJson {
            status: if self.is_proved() { Status::Solved } else { Status::Stalled },
            converged: self.is_proved(),
            arithmetic,
            criterion: self.quantity.name(),
            objective: self.mdp.objective(),
            states: self.mdp.states(),
            gamma: self.quantity.discounts().then(|| self.mdp.gamma()),
            horizon: self.quantity.horizon(),
            error,
            loss,
            compute_seconds: solved,
            proof_seconds: proved,
            policy: with_solution.then(policy),
            values: with_solution.then_some(Numbers(&self.values)),
            exact: with_solution.then(|| self.fractions()).flatten(),
            lower: with_solution.then_some(Numbers(&self.lower)),
            upper: with_solution.then_some(Numbers(&self.upper)),
        };
        serde_json::to_writer(&mut *out, &record)?;
        writeln!(out)
    }

    fn write_summary(&self, out: &mut dyn Write) -> io::Result<()> {
        let [solved, proved] = self.elapsed.map(|time| 1e3 * time.as_secs_f64());
        if let Proof::Enclosure(_, reason) = &self.proof {
            writeln!(out, "Note: no fractions: {reason}")?;
        }
        writeln!(out, "Computation time: {solved:.2} ms in f64, {proved:.2} ms for the proof")?;
        writeln!(out, "{}", self.guarantee())
    }

    fn guarantee(&self) -> String {
        match &self.proof {
            Proof::Fractions(_) => "Exact: V* as fractions, and a policy without loss (rational arithmetic)".to_owned(),
            Proof::Enclosure(..) => {
                let [error, loss] = self.errors().map(rounded_up);
                let proved = if self.is_proved() { "Proved" } else { "Not proved to ε" };
                format!("{proved}: |V − V*| ≤ {error}, and the policy loses at most {loss} (intervals)")
            }
        }
    }

    fn write_solution(&self, out: &mut dyn Write, extent: Extent) -> io::Result<()> {
        /// States that are shown where not all are.
        const SHOWN: usize = 20;

        let Proof::Fractions(exact) = &self.proof else {
            return writeln!(out, "Values of {} states; --json or --out has all with their bounds", self.values.len());
        };
        let most = if matches!(extent, Extent::All) { self.values.len() } else { SHOWN };
        for (state, (value, &action)) in (0..).zip(exact.values.iter().zip(&self.policy)).take(most) {
            let action = if action == NO_ACTION { "-".to_owned() } else { self.mdp.action_name(state, action) };
            let name = self.mdp.state_name(state);
            writeln!(out, "{}: {value} ≈ {}, action {}", escaped(&name), value.nearest(), escaped(&action))?;
        }
        let rest = self.values.len().saturating_sub(most);
        if rest > 0 { writeln!(out, "… and {rest} more states (--json has all)") } else { Ok(()) }
    }
}
