//! `warpkov pomdp trace`.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::json;
use warpkov::mdp::SolveError;
use warpkov::pomdp::io as formats;
use warpkov::pomdp::reference::{Operands, full_backup, one_step_lookahead};
use warpkov::pomdp::trace::Trace;
use warpkov::runtime::Precise;
use warpkov::runtime::choose::DeviceChoice;
use warpkov::runtime::gpu;
use warpkov_device::emulator::Emulator;
use warpkov_device::launch::Device;

use super::{Error, Outcome};

/// Shows a full backup tensor by tensor, and the step of lookahead from a belief.
///
/// The kernels are those of the plain path, one thread per element, which the fast one is tested against. In the model, rows
/// of O need not sum to 1: the tensors are what their definitions make of any numbers. Costs are negative rewards here.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The model's file.
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// The vectors Γ: a .alpha file.
    #[arg(long, value_name = "FILE")]
    alphas: PathBuf,
    /// The beliefs B: a line each, with the probability of every state.
    #[arg(long, value_name = "FILE")]
    beliefs: PathBuf,
    /// Show how the index of an element leads to its number, in place of the tensors: g_ao[i][o][a][s], or g_ao[l].
    #[arg(long = "element", value_name = "ELEMENT")]
    elements: Vec<String>,
    /// Also look one step ahead from this belief, counted from 0.
    #[arg(long, value_name = "J")]
    lookahead: Option<usize>,
    /// Where the kernels run: emulated or cuda:N.
    #[arg(long, value_name = "DEVICE", default_value_t = DeviceChoice::Emulated)]
    device: DeviceChoice,
    /// Type of the tensors.
    #[arg(long, value_enum, default_value_t = Type::F64)]
    precision: Type,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  warpkov pomdp trace two-state.json --alphas two-state.alpha --beliefs two-state.beliefs
  warpkov pomdp trace two-state.json --alphas two-state.alpha --beliefs two-state.beliefs --element g_ao[1][1][0][1]
  warpkov pomdp trace two-state.json --alphas two-state.alpha --beliefs two-state.beliefs --lookahead 2 --json";

/// What numbers are.
#[derive(Clone, Copy, ValueEnum)]
enum Type {
    F32,
    F64,
}

/// Reads, runs the kernels, prints.
pub fn run(arguments: &Arguments, mut out: impl Write) -> Result<Outcome, Error> {
    let model = formats::read_arrays(&arguments.model, None)?;
    let vectors =
        formats::read_vectors(&arguments.alphas, None, Some(&model))?.times(model.process().objective().sign());
    let beliefs = formats::beliefs::read(&arguments.beliefs, model.states())?;
    let model = model.to_maximize();
    if vectors.is_empty() {
        return Err(Error::Usage(format!("{}: no vector, expected at least one", arguments.alphas.display())));
    }
    if let Some(j) = arguments.lookahead.filter(|&j| j >= beliefs.len()) {
        return Err(Error::Usage(format!(
            "--lookahead {j}: expected a number below {}, as many beliefs",
            beliefs.len()
        )));
    }
    let operands = Operands::new(&model, &vectors, &beliefs);
    let trace = match arguments.device {
        DeviceChoice::Emulated => on(&Emulator::default(), arguments, operands).map_err(SolveError::from)?,
        DeviceChoice::Cuda(ordinal) => {
            let gpu = gpu::open(ordinal).map_err(SolveError::from)?;
            on(&gpu, arguments, operands).map_err(SolveError::from)?
        }
        DeviceChoice::Auto | DeviceChoice::Cpu => {
            let device = arguments.device;
            return Err(Error::Usage(format!("--device {device}: a trace runs kernels, expected emulated or cuda:N")));
        }
    };
    let elements: Result<Vec<_>, _> = arguments.elements.iter().map(|text| trace.element(text)).collect();
    let elements = elements.map_err(|error| Error::Usage(error.to_string()))?;
    if arguments.json {
        let mut object = trace.to_json();
        let derivation = |(text, &element)| json!({ "element": text, "steps": trace.derivation(element) });
        object["elements"] = arguments.elements.iter().zip(&elements).map(derivation).collect();
        serde_json::to_writer(&mut out, &object).map_err(io::Error::from)?;
        writeln!(out)?;
    } else if elements.is_empty() {
        trace.write(&mut out)?;
    } else {
        for element in elements {
            for line in trace.derivation(element) {
                writeln!(out, "{line}")?;
            }
            writeln!(out)?;
        }
    }
    Ok(Outcome::Success)
}

fn on<D: Device>(device: &D, arguments: &Arguments, operands: Operands) -> Result<Trace, D::Error> {
    match arguments.precision {
        Type::F32 => traced::<f32, D>(device, arguments.lookahead, operands),
        Type::F64 => traced::<f64, D>(device, arguments.lookahead, operands),
    }
}

fn traced<T: Precise, D: Device>(device: &D, from: Option<usize>, operands: Operands) -> Result<Trace, D::Error> {
    let tensors = full_backup::<T, D>(device, &operands)?;
    let states = operands.states as usize;
    let lookahead = from.map(|j| {
        let belief = &operands.beliefs[j * states..(j + 1) * states];
        Ok((j, one_step_lookahead::<T, D>(device, &operands, belief, operands.inverse().as_deref())?))
    });
    let lookahead = lookahead.transpose()?;
    Ok(Trace { operands, tensors, lookahead })
}
