//! `warpkov pomdp verify`.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use warpkov_common::numbers::Number;
use warpkov_common::report::{Report, write_object};
use warpkov_mdp::certificate::rounded_up;
use warpkov_mdp::model::Objective;
use warpkov_pomdp::io as formats;
use warpkov_pomdp::model::Pomdp;
use warpkov_runtime as runtime;
use warpkov_verify::interval::Interval;
use warpkov_verify::mdp::Verdict;
use warpkov_verify::pomdp::{Decision, Enclosure, Tolerance, Unverifiable, verify};

use super::file::Input;
use super::{Error, Outcome};
use crate::common::file::reads;
use crate::common::interrupts::handle_interrupts;
use crate::common::number;
use crate::common::output::print;
use crate::common::progress::Waiting;

/// Proves or refutes the alpha vectors of a policy.
///
/// Encloses V*(b₀), and the value of the policy that acts by the best vector, between proved bounds, by code that shares nothing with the
/// solvers: intervals with outward rounding. Any program may have written the vectors. Exit code 0 if V(b₀) is proved to be at most ε better
/// than V*(b₀) and than what the policy earns, and the policy to lose at most --loss; 1 if that is refuted or cannot be decided.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov pomdp verify tiger.json tiger.alpha
  warpkov pomdp verify tiger.json tiger.alpha --loss 0.02
  warpkov pomdp verify tag.pomdp theirs.policy --epsilon 1e-3 --json | jq .optimal")]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    /// Policy: alpha vectors in .alpha, or in SARSOP's XML.
    #[arg(value_name = "POLICY")]
    policy: PathBuf,
    /// ε: how much better V(b₀) may be than the optimal value and the value of the policy.
    #[arg(long, value_name = "E", default_value = "1e-6", value_parser = number::positive)]
    epsilon: f64,
    /// Largest loss of the policy against an optimal one at the start [default: none is claimed].
    #[arg(long, value_name = "L", value_parser = number::non_negative)]
    loss: Option<f64>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Reads model and policy, verifies, prints the verdict.
pub fn run(arguments: Arguments, out: impl Write) -> Result<Outcome, Error> {
    let Arguments { input, policy: path, epsilon, loss, json } = arguments;
    reads(&path)?;
    let model = input.read()?;
    let vectors = formats::read_vectors(&path, None, Some(&model))?;
    let claim = Tolerance { epsilon, loss, ..Tolerance::default() };
    let found = {
        handle_interrupts();
        let _waiting = Waiting::new("verifying", json);
        verify(&model, &vectors, &claim)
    };
    let found = found.map_err(|error| match error {
        Unverifiable::Interrupted => runtime::Error::Interrupted.into(),
        Unverifiable::Discount(_) => Error::Usage(error.to_string()),
        error => Error::Usage(format!("{}: {error}", path.display())),
    })?;
    print(&Verdicts { model: &model, vectors: vectors.len(), found }, json, out)?;
    Ok(if found.verdict() == Verdict::Proved { Outcome::Success } else { Outcome::Negative })
}

/// The result of a verification.
struct Verdicts<'a> {
    model: &'a Pomdp,
    vectors: usize,
    found: Enclosure,
}

/// The result as JSON.
#[derive(Serialize)]
struct VerdictsJson {
    verdict: Verdict,
    objective: Objective,
    states: u32,
    gamma: f64,
    vectors: usize,
    claimed: f64,
    optimal: [Number; 2],
    attained: [Number; 2],
    value: DecisionJson,
    policy: DecisionJson,
    loss: Option<DecisionJson>,
    residual: Number,
    worst: usize,
    points: usize,
    verify_seconds: f64,
}

/// A number between proved bounds, and its limit.
#[derive(Serialize)]
struct DecisionJson {
    verdict: Verdict,
    limit: Number,
    lower: Number,
    upper: Number,
}

impl From<Decision> for DecisionJson {
    fn from(Decision { verdict, limit, lower, upper }: Decision) -> Self {
        let [limit, lower, upper] = [limit, lower, upper].map(Number);
        Self { verdict, limit, lower, upper }
    }
}

fn line(what: &str, found: &Decision) -> String {
    let Decision { verdict, limit, lower, upper } = *found;
    match verdict {
        Verdict::Proved => format!("Proved: {what} ≤ {}, at most {limit:e} asked", rounded_up(upper)),
        Verdict::Refuted => format!("Refuted: {what} > {limit:e}: at least {lower:.3e}"),
        Verdict::Undecided => {
            format!("Undecided: {what} is between {lower:.3e} and {upper:.3e}, at most {limit:e} asked")
        }
    }
}

impl Report for Verdicts<'_> {
    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { model, vectors, found } = self;
        let ends = |x: Interval| [x.lo, x.hi].map(Number);
        write_object(
            out,
            &VerdictsJson {
                verdict: found.verdict(),
                objective: model.process().objective(),
                states: model.states(),
                gamma: model.gamma(),
                vectors: *vectors,
                claimed: found.claimed,
                optimal: ends(found.optimal),
                attained: ends(found.attained),
                value: found.value.into(),
                policy: found.policy.into(),
                loss: found.loss.map(DecisionJson::from),
                residual: Number(found.residual),
                worst: found.worst,
                points: found.points,
                verify_seconds: found.elapsed.as_secs_f64(),
            },
        )
    }

    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let found = &self.found;
        let minus = |better: &str, worse: &str| match self.model.process().objective() {
            Objective::Maximize => format!("{better} − {worse}"),
            Objective::Minimize => format!("{worse} − {better}"),
        };
        writeln!(out, "V(b₀) of the vectors: {:.6}", found.claimed)?;
        writeln!(out, "V*(b₀) is between {:.6} and {:.6}", found.optimal.lo, found.optimal.hi)?;
        writeln!(out, "{}", line(&minus("V(b₀)", "V*(b₀)"), &found.value))?;
        writeln!(out, "{}", line(&minus("V(b₀)", "V^π(b₀)"), &found.policy))?;
        if let Some(loss) = &found.loss {
            writeln!(out, "{}", line(&minus("V*(b₀)", "V^π(b₀)"), loss))?;
        }
        let verdict = match found.verdict() {
            Verdict::Proved => "The policy is proved.",
            Verdict::Refuted => "The policy is refuted.",
            Verdict::Undecided => "The policy is neither proved nor refuted.",
        };
        writeln!(out, "{verdict}")
    }
}
