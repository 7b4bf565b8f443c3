//! `warpkov pomdp trace`.

use std::io::Write;
use std::path::PathBuf;
use warpkov_runtime::device::{AnyDevice, DeviceError};

use clap::{Args, ValueEnum};
use warpkov_mdp::SolveError;
use warpkov_pomdp::io as formats;
use warpkov_pomdp::reference::{Operands, full_backup, one_step_lookahead};
use warpkov_pomdp::report::Traced;
use warpkov_pomdp::trace::Trace;
use warpkov_runtime::Precise;
use warpkov_runtime::choose::DeviceChoice;

use super::{Error, Outcome};
use crate::common::output::print;

/// Shows a full backup tensor by tensor, and one step of lookahead from a belief.
///
/// The kernels are the plain ones, with one thread per element; tests compare the fast kernels with them. Rows of O need not sum
/// to 1: the definitions of the tensors hold for any numbers. Costs are negative rewards here.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// File of the model.
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// File of the vectors Γ, .alpha.
    #[arg(long, value_name = "FILE")]
    alphas: PathBuf,
    /// File of the beliefs B: one line per belief, with the probability of every state.
    #[arg(long, value_name = "FILE")]
    beliefs: PathBuf,
    /// Derive an element, in place of the tensors: g_ao[i][o][a][s], or g_ao[l]; may be repeated.
    #[arg(long = "element", value_name = "ELEMENT")]
    elements: Vec<String>,
    /// Also look one step ahead from this belief, numbered from 0: by T, and, if T is deterministic without an inverse, by the T_inv of
    /// the source too.
    #[arg(long, value_name = "J")]
    lookahead: Option<usize>,
    /// Device of the kernels: auto (a GPU, else the emulator), cuda:N or emulated.
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

/// Floating-point type of the tensors.
#[derive(Clone, Copy, ValueEnum)]
enum Type {
    F32,
    F64,
}

/// Reads the operands, runs the kernels, prints the tensors.
pub fn run(arguments: Arguments, out: impl Write) -> Result<Outcome, Error> {
    let operands = arguments.operands()?;
    let (device, reason) = arguments.device.open_kernels(true)?;
    if let Some(reason) = reason {
        eprintln!("note: {reason}");
    }
    let trace = arguments.trace(&device, operands).map_err(SolveError::from)?;
    let element = |text: &String| {
        let element = trace.element(text).map_err(|error| Error::Usage(error.to_string()))?;
        Ok::<_, Error>((text.clone(), element))
    };
    let elements = arguments.elements.iter().map(element).collect::<Result<Vec<_>, _>>()?;
    print(&Traced { trace: &trace, elements: &elements, device: &device.name() }, arguments.json, out)?;
    Ok(Outcome::Success)
}

impl Arguments {
    /// Reads model, vectors and beliefs.
    fn operands(&self) -> Result<Operands, Error> {
        let model = formats::read_arrays(&self.model, None)?;
        let sign = model.process().objective().sign();
        let vectors = formats::read_vectors(&self.alphas, None, Some(&model))?.times(sign);
        let beliefs = formats::beliefs::read(&self.beliefs, model.states())?;
        if vectors.is_empty() {
            return Err(Error::Usage(format!("{}: no vector, expected at least one", self.alphas.display())));
        }
        if let Some(j) = self.lookahead.filter(|&j| j >= beliefs.len()) {
            let count = beliefs.len();
            return Err(Error::Usage(format!("--lookahead {j}: expected a number below {count}, as many beliefs")));
        }
        Ok(Operands::new(&model.to_maximize(), &vectors, &beliefs))
    }

    fn trace(&self, device: &AnyDevice, operands: Operands) -> Result<Trace, DeviceError> {
        match self.precision {
            Type::F32 => traced::<f32>(device, self.lookahead, operands),
            Type::F64 => traced::<f64>(device, self.lookahead, operands),
        }
    }
}

fn traced<T: Precise>(device: &AnyDevice, from: Option<usize>, operands: Operands) -> Result<Trace, DeviceError> {
    let tensors = full_backup::<T>(device, &operands)?;
    let states = operands.states as usize;
    let inverse = operands.inverse();
    let ahead = |j: usize, inverse: Option<&[u32]>| {
        one_step_lookahead::<T>(device, &operands, &operands.beliefs[j * states..(j + 1) * states], inverse)
    };
    let lookahead = from.map(|j| Ok::<_, DeviceError>((j, ahead(j, inverse.as_deref())?))).transpose()?;
    let without = from.filter(|_| inverse.is_none()).zip(operands.last_predecessors());
    let by_inverse = without.map(|(j, last)| ahead(j, Some(&last)).map(|found| (last, found))).transpose()?;
    Ok(Trace { operands, tensors, lookahead, by_inverse })
}
