//! `warpkov mdp verify`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use warpkov_common::numbers::Number;
use warpkov_common::report::{Report, write_object};
use warpkov_common::terminal::escaped;
use warpkov_mdp::criterion::Criterion;
use warpkov_mdp::io::SolutionFile;
use warpkov_mdp::model::Mdp;
use warpkov_runtime as runtime;
use warpkov_verify::mdp::{Arithmetic, Claim, Finding, Quantity, Verdict, Verification, VerifyError, verify};
use warpkov_verify::rational::TooLarge;

use super::accuracy::Discount;
use super::file::Input;
use super::{Error, Outcome, criterion};
use crate::common::file::reads;
use crate::common::interrupts::handle_interrupts;
use crate::common::number;
use crate::common::output::print;
use crate::common::progress::Waiting;
use crate::common::verdict;

/// Proves or refutes a solution.
///
/// Encloses V* and the value of the policy between proved bounds, by code that shares nothing with the solvers: intervals with outward
/// rounding, and rational numbers where these do not suffice and the model is small. Any program may have written the solution. Exit code
/// 0 if its values are proved to be within ε of V*, and its policy to lose at most --loss; 1 if that is refuted or cannot be decided.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    /// Solution or plan, as `warpkov mdp solve` writes it with --out or --all-steps: JSON with `values` and `policy`, CSV, text, or .npy.
    #[arg(value_name = "SOLUTION")]
    solution: PathBuf,
    #[command(flatten)]
    discount: Discount,
    #[command(flatten)]
    criterion: criterion::Arguments,
    /// ε: largest error of a value.
    #[arg(long, value_name = "E", default_value = "1e-6", value_parser = number::positive)]
    epsilon: f64,
    /// Largest loss of the policy against an optimal one [default: 2ε].
    #[arg(long, value_name = "L", value_parser = number::non_negative)]
    loss: Option<f64>,
    /// Intervals alone: leave a claim undecided that they cannot decide.
    #[arg(long)]
    no_rationals: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  warpkov mdp verify forest.json solution.json
  warpkov mdp verify coin.tra solution.csv --criterion reach --goal finished --epsilon 1e-8
  warpkov mdp verify grid.safetensors theirs.txt --gamma 0.95 --json | jq .verdict";

/// The criterion as the verifier knows it.
pub fn quantity(criterion: Option<&Criterion>) -> Quantity {
    match criterion {
        None => Quantity::Discounted,
        Some(Criterion::Reach { goal }) => Quantity::Reach(goal.clone()),
        Some(Criterion::TotalReward { goal }) => Quantity::Total(goal.clone()),
        Some(Criterion::Average) => Quantity::Average,
        Some(Criterion::Horizon(steps)) => Quantity::Horizon(*steps),
    }
}

/// Reads model and solution, verifies, prints the verdict.
pub fn run(arguments: Arguments, out: impl Write) -> Result<Outcome, Error> {
    let Arguments { input, solution: path, discount, criterion, epsilon, loss, no_rationals, json } = arguments;
    if discount.gamma.is_some() && !criterion.discounts() {
        return Err(Error::Usage("--gamma is for the discounted criterion and --horizon only".to_owned()));
    }
    let objective = criterion.objective();
    let criterion = criterion.options(epsilon, None)?;
    if criterion.as_ref().is_some_and(criterion::Options::is_relative) {
        return Err(Error::Usage("--relative is not for mdp verify, whose ε is absolute".to_owned()));
    }
    reads(&path)?;
    let mut mdp = discount.apply(input.read()?)?;
    if let Some(objective) = objective {
        mdp = mdp.with_objective(objective);
    }
    let criterion = criterion.as_ref().map(|asked| asked.plain(&mdp)).transpose()?.map(|(criterion, _)| criterion);
    let solution = SolutionFile::read(&path)?;
    let claim = Claim { epsilon, loss: loss.unwrap_or(2.0 * epsilon), ..Claim::default() };
    let claim = if no_rationals { Claim { work: 0, ..claim } } else { claim };
    let quantity = quantity(criterion.as_ref());
    let found = {
        handle_interrupts();
        let _waiting = Waiting::new("verifying", json);
        verify(&mdp, &quantity, &solution.values, Some(&solution.policy), &claim)
    };
    let found = found.map_err(|error| refusal(error, &path))?;
    let report = Verified { mdp: &mdp, quantity: &quantity, solution: &solution, found: &found };
    print(&report, json, out)?;
    Ok(if found.verdict() == Verdict::Proved { Outcome::Success } else { Outcome::Negative })
}

/// The error of a command, which names the file of the solution.
pub fn refusal(error: VerifyError, path: &Path) -> Error {
    match error {
        VerifyError::TooLarge(TooLarge::Interrupted) => runtime::Error::Interrupted.into(),
        VerifyError::Length { .. } | VerifyError::Nan(_) | VerifyError::Action { .. } => {
            Error::Usage(format!("{}: {error}", path.display()))
        }
        error => Error::Usage(error.to_string()),
    }
}

/// The result of a verification.
struct Verified<'a> {
    mdp: &'a Mdp,
    quantity: &'a Quantity,
    solution: &'a SolutionFile,
    found: &'a Verification,
}

/// The result as JSON.
#[derive(Serialize)]
struct VerifiedJson {
    verdict: Verdict,
    criterion: &'static str,
    states: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    gamma: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    horizon: Option<u32>,
    values: FindingJson,
    policy: Option<FindingJson>,
    verify_seconds: f64,
}

/// The largest error of the values, or the largest loss of the policy.
#[derive(Serialize)]
struct FindingJson {
    verdict: Verdict,
    limit: Number,
    lower: Number,
    upper: Number,
    worst: String,
    arithmetic: Arithmetic,
}

impl Verified<'_> {
    /// A state, with its step in a plan.
    fn place(&self, place: usize) -> String {
        let states = self.mdp.states() as usize;
        let name = self.mdp.state_name((place % states.max(1)) as u32);
        match self.solution.steps {
            0 => name,
            _ => format!("{name}, step {}", place / states.max(1)),
        }
    }

    fn finding(&self, found: Finding) -> FindingJson {
        let Finding { verdict, limit, lower, upper, worst, arithmetic } = found;
        let [limit, lower, upper] = [limit, lower, upper].map(Number);
        FindingJson { verdict, limit, lower, upper, worst: self.place(worst), arithmetic }
    }

    fn line(&self, what: &str, found: &Finding) -> String {
        let Finding { verdict, limit, lower, upper, worst, arithmetic } = *found;
        let near = format!(", near state {}", escaped(&self.place(worst)));
        let by = match arithmetic {
            Arithmetic::Intervals => " (by intervals)",
            Arithmetic::Rationals => " (by rational numbers)",
        };
        verdict::line(what, verdict, [limit, lower, upper], &near, by)
    }
}

impl Report for Verified<'_> {
    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let found = self.found;
        write_object(
            out,
            &VerifiedJson {
                verdict: found.verdict(),
                criterion: self.quantity.name(),
                states: self.mdp.states(),
                gamma: self.quantity.discounts().then(|| self.mdp.gamma()),
                horizon: self.quantity.horizon(),
                values: self.finding(found.values),
                policy: found.policy.map(|policy| self.finding(policy)),
                verify_seconds: found.elapsed.as_secs_f64(),
            },
        )
    }

    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let lost = verdict::minus(self.mdp.objective(), "V*", "V^π");
        writeln!(out, "{}", self.line("|V − V*|", &self.found.values))?;
        if let Some(policy) = &self.found.policy {
            writeln!(out, "{}", self.line(&lost, policy))?;
        }
        writeln!(out, "{}", verdict::conclusion("solution", self.found.verdict()))
    }
}
