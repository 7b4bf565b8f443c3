//! `warpkov bench hmm`.

use std::io::Write;

use clap::Args;
use warpkov::backend::cuda::Gpu;
use warpkov::hmm::bench::{BenchError, CASES, Case, Measured, Operation, measure};
use warpkov::mdp::SolveError;

use super::{Error, Outcome};
use crate::progress::Steps;

/// Measures the recursions of hidden Markov models on a GPU, with models and sequences there.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov bench hmm
  warpkov bench hmm --case 512x512x16 --runs 1000 --json > results.json")]
pub struct Arguments {
    /// States, sequences and steps, as 64x64x16; may be repeated [default: four].
    #[arg(long, value_name = "NxMxT", value_parser = case)]
    case: Vec<Case>,
    /// The number of the GPU.
    #[arg(long, value_name = "N", default_value_t = 0)]
    gpu: u32,
    /// Runs, of which times are medians.
    #[arg(long, value_name = "N", default_value_t = 51, value_parser = clap::value_parser!(u32).range(1..100_000))]
    runs: u32,
    /// Print JSON: one array.
    #[arg(long)]
    json: bool,
}

fn case(text: &str) -> Result<Case, String> {
    let numbers: Option<Vec<u32>> = text.split('x').map(|part| part.parse().ok().filter(|&n| n > 0)).collect();
    match numbers.as_deref() {
        Some(&[states, sequences, steps]) => Ok(Case { states, sequences, steps }),
        _ => Err("expected three positive numbers, as 64x64x16".to_owned()),
    }
}

impl From<BenchError> for Error {
    fn from(error: BenchError) -> Self {
        match error {
            BenchError::Generate(error) => Self::Usage(error.to_string()),
            BenchError::Sample(error) => Self::Usage(error.to_string()),
            BenchError::Gpu(error) => SolveError::from(error).into(),
        }
    }
}

/// Measures case by case, and prints each line when it is there.
pub fn run(arguments: &Arguments, mut out: impl Write) -> Result<Outcome, Error> {
    let gpu = Gpu::open(arguments.gpu).map_err(BenchError::from)?;
    let cases = if arguments.case.is_empty() { &CASES[..] } else { &arguments.case };
    let steps = Steps::new(6 * cases.len(), arguments.json);
    let mut all: Vec<Measured> = Vec::new();
    for &case in cases {
        for operation in [Operation::Forward, Operation::Viterbi, Operation::BaumWelch] {
            for wide in [false, true] {
                let runs = arguments.runs as usize;
                let measured = match wide {
                    false => measure::<f32>(&gpu, case, operation, runs)?,
                    true => measure::<f64>(&gpu, case, operation, runs)?,
                };
                steps.next();
                if !arguments.json {
                    if all.is_empty() {
                        writeln!(
                            out,
                            "{:>6} {:>9} {:>6}  {:<10} {:<4} {:>10} {:>10} {:>7}",
                            "states", "sequences", "steps", "operation", "type", "median ms", "least ms", "growth"
                        )?;
                    }
                    let Measured { milliseconds, least_milliseconds, growth_bytes, precision, .. } = measured;
                    writeln!(
                        out,
                        "{:>6} {:>9} {:>6}  {:<10} {precision:<4} {milliseconds:>10.4} {least_milliseconds:>10.4} \
                         {growth_bytes:>7}",
                        case.states,
                        case.sequences,
                        case.steps,
                        format!("{operation:?}"),
                    )?;
                    out.flush()?;
                }
                all.push(measured);
            }
        }
    }
    if arguments.json {
        serde_json::to_writer(&mut out, &all).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        writeln!(out, "\nMeasured on {}.", gpu.name())?;
    }
    Ok(Outcome::Success)
}
