//! `warpkov pomdp verify`.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use warpkov_common::numbers::Number;
use warpkov_common::report::{Report, write_object};
use warpkov_mdp::model::Objective;
use warpkov_pomdp::controller::Controller;
use warpkov_pomdp::io::{self as formats, AnyPolicy};
use warpkov_pomdp::model::Pomdp;
use warpkov_runtime as runtime;
use warpkov_verify::interval::Interval;
use warpkov_verify::mdp::Verdict;
use warpkov_verify::pomdp::{
    Comparison, Decision, Enclosure, Nodes, Promise, Tolerance, Unverifiable, verify, verify_controller,
    verify_first_step,
};

use super::file::Input;
use super::{Error, Outcome};
use crate::common::file::reads;
use crate::common::interrupts::handle_interrupts;
use crate::common::number;
use crate::common::output::print;
use crate::common::progress::Waiting;
use crate::common::verdict::{self, conclusion};

/// Proves or refutes alpha vectors, a controller or a plan.
///
/// Encloses V*(b₀), and what the policy earns, between proved bounds, by code that shares nothing with the solvers: intervals with outward
/// rounding. Any program may have written the policy. Exit code 0 if all claims are proved; 1 if one is refuted or cannot be decided. Vectors
/// claim that V(b₀) is at most ε better than V*(b₀) and than what they earn, by the action of the best vector in each belief. A controller
/// claims what --value and --loss say.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov pomdp verify tiger.json tiger.alpha
  warpkov pomdp verify tiger.json tiger.alpha --loss 0.02
  warpkov pomdp verify tag.pomdp theirs.policy --epsilon 1e-3 --json | jq .optimal
  warpkov pomdp verify tiger.json tiger.pg --value 19.3713 --epsilon 1e-3
  warpkov pomdp verify tiger.json plan.pg --horizon 10 --loss 1e-3")]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    /// Policy: alpha vectors in .alpha or SARSOP's XML, or a controller in .pg or .dot.
    #[arg(value_name = "POLICY")]
    policy: PathBuf,
    /// Node in which a controller begins [default: the best at the start of the model, among those that a .dot marks, or those of a plan
    /// with the most steps].
    #[arg(long, value_name = "N")]
    node: Option<u32>,
    /// Number of rewards that count; γ may then be 1. Vectors are those of the first step, which claim V(b₀) ≤ V*(b₀) + ε, and with --loss
    /// V*(b₀) ≤ V(b₀) + L [default: all rewards; of a plan, those of its steps].
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    horizon: Option<u32>,
    /// What a controller earns, up to ε.
    #[arg(long, value_name = "V", value_parser = number::finite, allow_hyphen_values = true)]
    value: Option<f64>,
    /// ε: how much better V(b₀) may be than the optimal value and the value of the policy, or --value than what a controller earns.
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
    let Arguments { input, policy: path, node, horizon, value, epsilon, loss, json } = arguments;
    reads(&path)?;
    let model = input.read()?;
    let policy = formats::read_policy(&path, None, &model, node)?;
    let tolerance = Tolerance { epsilon, loss, ..Tolerance::default() };
    let refused = |error| match error {
        Unverifiable::Interrupted => runtime::Error::Interrupted.into(),
        Unverifiable::Discount(_) => Error::Usage(format!("{error}, or --horizon")),
        error => Error::Usage(format!("{}: {error}", path.display())),
    };
    handle_interrupts();
    let waiting = Waiting::new("verifying", json);
    let found = match policy {
        AnyPolicy::Vectors(_) if value.is_some() => {
            return Err(Error::Usage("--value is for controllers: alpha vectors say what they claim".to_owned()));
        }
        AnyPolicy::Vectors(vectors) => match horizon {
            None => {
                let found = verify(&model, &vectors, &tolerance).map_err(refused)?;
                Found::Vectors(Verdicts { model: &model, vectors: vectors.len(), found })
            }
            Some(steps) => {
                let found = verify_first_step(&model, &vectors, steps, &tolerance).map_err(refused)?;
                let size = Size::Vectors(vectors.len());
                Found::Other(Compared { model: &model, size, horizon, found })
            }
        },
        AnyPolicy::Controller(_) if value.is_none() && loss.is_none() => {
            let message = "a controller claims nothing by itself: expected --value, what it earns, or --loss";
            return Err(Error::Usage(format!("{}: {message}", path.display())));
        }
        AnyPolicy::Controller(controller) => {
            // The steps of a plan.
            let horizon = horizon.or(controller.depth());
            let nodes = nodes(&controller, model.observation_count());
            let promise = Promise { horizon, value, tolerance };
            let found = verify_controller(&model, &nodes, &promise).map_err(refused)?;
            Found::Other(Compared { model: &model, size: Size::Nodes(controller.len()), horizon, found })
        }
    };
    drop(waiting);
    let verdict = match found {
        Found::Vectors(report) => {
            print(&report, json, out)?;
            report.found.verdict()
        }
        Found::Other(report) => {
            print(&report, json, out)?;
            report.found.verdict()
        }
    };
    Ok(if verdict == Verdict::Proved { Outcome::Success } else { Outcome::Negative })
}

/// The result of a verification.
enum Found<'a> {
    Vectors(Verdicts<'a>),
    Other(Compared<'a>),
}

/// The controller as the verifier knows it.
fn nodes(controller: &Controller, observations: u32) -> Nodes {
    let all = 0..controller.len() as u32;
    let next = |node: u32| (0..observations).map(move |observation| controller.next(node, observation));
    Nodes {
        numbers: all.clone().map(|node| controller.number(node)).collect(),
        actions: all.clone().map(|node| controller.action(node)).collect(),
        next: all.flat_map(next).collect(),
        starts: controller.starts().to_vec(),
    }
}

/// What a policy consists of.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
enum Size {
    Vectors(usize),
    Nodes(usize),
}

/// The result for a controller, or for a horizon.
struct Compared<'a> {
    model: &'a Pomdp,
    size: Size,
    horizon: Option<u32>,
    found: Comparison,
}

/// That result as JSON. `attained` is what a controller earns, `claimed` V(b₀) of vectors.
#[derive(Serialize)]
struct ComparedJson {
    verdict: Verdict,
    objective: Objective,
    states: u32,
    gamma: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    horizon: Option<u32>,
    #[serde(flatten)]
    size: Size,
    #[serde(skip_serializing_if = "Option::is_none")]
    claimed: Option<Number>,
    optimal: [Number; 2],
    #[serde(skip_serializing_if = "Option::is_none")]
    attained: Option<[Number; 2]>,
    value: Option<DecisionJson>,
    loss: Option<DecisionJson>,
    points: usize,
    verify_seconds: f64,
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

fn line(what: &str, &Decision { verdict, limit, lower, upper }: &Decision) -> String {
    verdict::line(what, verdict, [limit, lower, upper], "", "")
}

/// A difference that is not negative for a good policy.
fn minus(model: &Pomdp, better: &str, worse: &str) -> String {
    verdict::minus(model.process().objective(), better, worse)
}

fn ends(x: Interval) -> [Number; 2] {
    [x.lo, x.hi].map(Number)
}

impl Report for Compared<'_> {
    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { model, size, horizon, found } = self;
        let is_controller = matches!(size, Size::Nodes(_));
        write_object(
            out,
            &ComparedJson {
                verdict: found.verdict(),
                objective: model.process().objective(),
                states: model.states(),
                gamma: model.gamma(),
                horizon: *horizon,
                size: *size,
                claimed: (!is_controller).then_some(Number(found.own.lo / 2.0 + found.own.hi / 2.0)),
                optimal: ends(found.optimal),
                attained: is_controller.then(|| ends(found.own)),
                value: found.value.map(DecisionJson::from),
                loss: found.loss.map(DecisionJson::from),
                points: found.points,
                verify_seconds: found.elapsed.as_secs_f64(),
            },
        )
    }

    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { model, size, horizon, found } = self;
        if let Some(steps) = horizon {
            writeln!(out, "Horizon: {steps}")?;
        }
        let (own, off) = match size {
            Size::Vectors(_) => ("V(b₀)", minus(model, "V(b₀)", "V*(b₀)")),
            Size::Nodes(_) => ("V^π(b₀)", "|V − V^π(b₀)|".to_owned()),
        };
        for (name, x) in [(own, found.own), ("V*(b₀)", found.optimal)] {
            writeln!(out, "{name} is between {:.6} and {:.6}", x.lo, x.hi)?;
        }
        for (what, found) in [(off, found.value), (minus(model, "V*(b₀)", own), found.loss)] {
            if let Some(found) = found {
                writeln!(out, "{}", line(&what, &found))?;
            }
        }
        writeln!(out, "{}", conclusion("policy", found.verdict()))
    }
}

impl Report for Verdicts<'_> {
    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { model, vectors, found } = self;
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
        let minus = |better, worse| minus(self.model, better, worse);
        writeln!(out, "V(b₀) of the vectors: {:.6}", found.claimed)?;
        writeln!(out, "V*(b₀) is between {:.6} and {:.6}", found.optimal.lo, found.optimal.hi)?;
        writeln!(out, "{}", line(&minus("V(b₀)", "V*(b₀)"), &found.value))?;
        writeln!(out, "{}", line(&minus("V(b₀)", "V^π(b₀)"), &found.policy))?;
        if let Some(loss) = &found.loss {
            writeln!(out, "{}", line(&minus("V*(b₀)", "V^π(b₀)"), loss))?;
        }
        writeln!(out, "{}", conclusion("policy", found.verdict()))
    }
}
