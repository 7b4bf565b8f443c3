//! `warpkov bench hmm`.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Serialize;
use warpkov_bench::hmm::figures::{self, Line, published};
use warpkov_bench::hmm::{BenchError, CASES, Case, LONG, Measured, Operation, Times, Trial, Work};
use warpkov_bench::{Used, used};
use warpkov_common::choice::Choice;
use warpkov_hmm::backends::device::{ForwardMethod, Scan};
use warpkov_hmm::options::Precision;
use warpkov_hmm::place::Error as HmmError;
use warpkov_runtime::choose::{DeviceChoice, Place};

use super::{Error, Metering, Outcome, factor, measured_on, note, or_default, print_json, write_kernels};
use crate::common::choice::choice;
use crate::common::output::{draw_panels, plots};
use crate::common::progress::Steps;

/// Measures the recursions and the training of hidden Markov models.
///
/// On a GPU, models and sequences are in its memory before a run begins.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov bench hmm
  warpkov bench hmm --case 512x512x16 --runs 1000 --json > results.json
  warpkov bench hmm --suite figures --runs 11 --plot figures.svg
  warpkov bench hmm --suite long --runs 5
  warpkov bench hmm --device cpu --runs 11
  warpkov bench hmm --method fused --method slices --operation forward
  warpkov bench hmm --device cuda:1 --case 64x64x16
  warpkov bench hmm --suite figures --operation baum-welch --precision f64")]
pub struct Arguments {
    /// Sizes, and the publication to compare with.
    #[arg(long, value_enum, default_value = "cases")]
    suite: HmmSuite,
    /// Whether a GPU cuts sequences into chunks; may be repeated [default: auto; in long, never and always].
    #[arg(long, value_parser = choice::<Scan>(), value_name = "WHEN")]
    scan: Vec<Scan>,
    /// Kernels of the forward recursion on a GPU or the emulator; may be repeated. slices has the operation forward alone.
    #[arg(long, value_parser = choice::<ForwardMethod>(), value_name = "METHOD", default_values_t = [ForwardMethod::Fused])]
    method: Vec<ForwardMethod>,
    /// Numbers of states, sequences and steps, as 64x64x16; may be repeated [default: the cases of the suite].
    #[arg(long, value_name = "NxMxT", value_parser = case)]
    case: Vec<Case>,
    /// Operation; may be repeated [default: all; with --method slices, forward].
    #[arg(long, value_parser = choice::<Operation>())]
    operation: Vec<Operation>,
    /// Floating-point type; may be repeated [default: f32 and f64].
    #[arg(long, value_parser = choice::<Precision>())]
    precision: Vec<Precision>,
    /// Device: auto (a GPU, else the CPU), cpu (with RAYON_NUM_THREADS threads, else all), cuda:N or emulated.
    #[arg(long, value_name = "DEVICE", default_value_t = DeviceChoice::Auto)]
    device: DeviceChoice,
    /// Number of runs; times are medians.
    #[arg(long, value_name = "N", default_value_t = 51, value_parser = clap::value_parser!(u32).range(1..100_000))]
    runs: u32,
    #[command(flatten)]
    metering: Metering,
    /// Draw the times, and those of the figures, to this file, .svg or .png; may be repeated.
    #[arg(long, value_name = "FILE")]
    plot: Vec<PathBuf>,
    /// Print JSON: one array.
    #[arg(long)]
    json: bool,
}

/// Sizes of models and sequences.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum HmmSuite {
    /// Four sizes that `benches/peers/hmm_gpu.py` measures in PyTorch and Triton.
    Cases,
    /// Sizes of Figures 11 to 13 in Brändle and Haubenstock, Bayesian Network Inference with Cuda (2016), and up to 4096 states, beside
    /// the milliseconds of these figures, in double precision.
    Figures,
    /// One sequence of 10⁶ steps, and 8, 32 or 64 states: step by step, and by the scan.
    Long,
}

/// A measurement, and the time of a publication.
#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    measured: Measured,
    #[serde(skip_serializing_if = "Option::is_none")]
    published: Option<Published>,
    #[serde(skip_serializing_if = "Option::is_none")]
    used: Option<Used>,
}

impl Row {
    /// The measurement in words.
    fn name(&self) -> String {
        let Measured { case: Case { states, sequences, steps }, operation, method, scan, precision, .. } =
            &self.measured;
        let by = recursion(*method, *scan);
        format!("{states}x{sequences}x{steps}, {operation}, {by}, {precision}")
    }
}

/// A line of a figure, and the hardware of its publication.
#[derive(Serialize)]
struct Published {
    #[serde(flatten)]
    line: Line,
    hardware: &'static str,
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
            BenchError::Runtime(error) => error.into(),
        }
    }
}

/// Measures case by case, and prints each line when its measurement ends.
pub fn run(arguments: Arguments, mut out: impl Write) -> Result<Outcome, Error> {
    let plots = plots(&arguments.plot)?;
    let (place, reason) = Place::open(arguments.device, None)?;
    note(reason);
    let on_cpu = matches!(place, Place::Cpu);
    if on_cpu && arguments.precision.contains(&Precision::Tf32) {
        return Err(Error::Usage("--precision tf32 needs a GPU".to_owned()));
    }
    if on_cpu && arguments.scan.contains(&Scan::Always) {
        return Err(Error::Usage("--scan always needs a GPU: on a CPU it would only add work".to_owned()));
    }
    let slices = arguments.method.contains(&ForwardMethod::Slices);
    if slices {
        check_slices(&arguments, &place)?;
    }
    let (suite, runs) = (arguments.suite, arguments.runs as usize);
    let (cases, scans): (&[Case], &[Scan]) = match suite {
        HmmSuite::Cases => (&CASES, &[Scan::Auto]),
        HmmSuite::Figures => (&figures::CASES, &[Scan::Auto]),
        HmmSuite::Long => (&LONG, &[Scan::Never, Scan::Always]),
    };
    let cases = or_default(&arguments.case, cases);
    let operations = or_default(&arguments.operation, if slices { &[Operation::Forward] } else { Operation::ALL });
    let precisions = or_default(&arguments.precision, &[Precision::F32, Precision::F64]);
    let scans = if on_cpu { vec![Scan::Never] } else { or_default(&arguments.scan, scans) };
    // Slices are not cut, so a scan makes no difference.
    let fused = scans.iter().filter(|_| arguments.method.contains(&ForwardMethod::Fused));
    let mut methods: Vec<_> = fused.map(|&scan| (ForwardMethod::Fused, scan)).collect();
    methods.extend(slices.then_some((ForwardMethod::Slices, Scan::Never)));
    let steps = Steps::new(methods.len() * cases.len() * operations.len() * precisions.len(), arguments.json);
    let mut all = Vec::new();
    for &case in &cases {
        let Case { states, sequences, steps: length } = case;
        steps.say(format!("generating {states}x{sequences}x{length}"));
        let work = Work::new(case)?;
        for &operation in &operations {
            for (&precision, &(method, scan)) in
                precisions.iter().flat_map(|precision| methods.iter().map(move |method| (precision, method)))
            {
                steps.say(format!("{states}x{sequences}x{length}, {operation}, {precision}"));
                let trial = Trial { place: &place, work: &work, operation, precision, scan, method };
                let measured = trial.measure(runs)?;
                steps.next();
                let beside = suite == HmmSuite::Figures && precision == Precision::F64;
                let line = beside.then(|| published(case, operation)).flatten();
                let published = line.map(|line| Published { line, hardware: figures::HARDWARE });
                let ran = arguments.metering.kernels && matches!(measured.times, Times::Measured { .. });
                let used = used(ran, || trial.once())?;
                let row = Row { measured, published, used };
                if !arguments.json {
                    if all.is_empty() {
                        write_header(&mut out, suite)?;
                    }
                    write_line(&mut out, &row)?;
                    out.flush()?;
                }
                all.push(row);
            }
        }
    }
    let lines = all.iter().map(|row| (&row.measured, row.published.as_ref().map(|published| published.line)));
    draw_panels(&plots, &figures::figures(lines))?;
    if arguments.json {
        print_json(&all, out)?;
    } else {
        write_kernels(&mut out, all.iter().map(|row| (row.name(), &row.used)))?;
        writeln!(out, "\n{}", measured_on(&place.name()))?;
    }
    Ok(Outcome::Success)
}

/// Checks that the other arguments permit the method slices.
fn check_slices(arguments: &Arguments, place: &Place) -> Result<(), Error> {
    let on_cpu = matches!(place, Place::Cpu);
    for precision in or_default(&arguments.precision, &[Precision::F64]) {
        // The scan is for the method fused, if that is measured too.
        let fused = arguments.method.contains(&ForwardMethod::Fused);
        for scan in if fused { vec![Scan::Never] } else { or_default(&arguments.scan, &[Scan::Never]) } {
            ForwardMethod::Slices.check(on_cpu, precision, scan).map_err(HmmError::from)?;
        }
    }
    match arguments.operation.iter().find(|&&operation| operation != Operation::Forward) {
        None => Ok(()),
        Some(other) => {
            let message = format!("--method slices is for --operation forward: {other} has the method fused");
            Err(Error::Usage(message))
        }
    }
}

fn write_header(out: &mut impl Write, suite: HmmSuite) -> std::io::Result<()> {
    if suite == HmmSuite::Figures {
        writeln!(
            out,
            "Milliseconds. On the right, Figures 11 to 13 of Brändle and Haubenstock (2016), in double precision\n({}); \
             the ratio is of their GPU's time, or else Liu's, to ours here.\n",
            figures::HARDWARE
        )?;
    }
    write!(
        out,
        "{:>6} {:>9} {:>7}  {:<10} {:<9} {:<4} {:>10} {:>10} {:>7}",
        "states", "sequences", "steps", "operation", "by", "type", "median ms", "least ms", "growth"
    )?;
    if suite == HmmSuite::Figures {
        write!(
            out,
            "  {:>6} {:>10} {:>8} {:>8} {:>8} {:>9}",
            "figure", "Liu's CPU", "Liu's GPU", "CPU", "GPU", "ratio"
        )?;
    }
    writeln!(out)
}

/// How the recursion ran, in a word.
fn recursion(method: ForwardMethod, scan: bool) -> &'static str {
    match (method, scan) {
        (ForwardMethod::Slices, _) => "slices",
        (ForwardMethod::Fused, true) => "scan",
        (ForwardMethod::Fused, false) => "recursion",
    }
}

fn write_line(out: &mut impl Write, row: &Row) -> std::io::Result<()> {
    let Measured { case: Case { states, sequences, steps }, operation, method, scan, precision, times, .. } =
        &row.measured;
    let by = recursion(*method, *scan);
    write!(out, "{states:>6} {sequences:>9} {steps:>7}  {operation:<10} {by:<9} {precision:<4} ")?;
    let ours = match times {
        Times::Measured { milliseconds, least_milliseconds, growth_bytes, .. } => {
            write!(out, "{milliseconds:>10.4} {least_milliseconds:>10.4} {growth_bytes:>7}")?;
            Some(milliseconds)
        }
        Times::Lacking { out_of_memory } => {
            write!(out, "{out_of_memory}")?;
            None
        }
    };
    if let Some(Published { line, .. }) = &row.published {
        let printed = |time: Option<f64>| time.map_or_else(|| "-".to_owned(), |time| time.to_string());
        let ratio = line.gpu_ms.or(line.liu_gpu_ms).zip(ours).map(|(theirs, ours)| factor(theirs / ours));
        let [liu_cpu, liu_gpu, cpu, gpu] = [line.liu_cpu_ms, line.liu_gpu_ms, line.cpu_ms, line.gpu_ms].map(printed);
        write!(out, "  {:>6} {liu_cpu:>10} {liu_gpu:>8} {cpu:>8} {gpu:>8}", line.figure)?;
        write!(out, " {:>9}", ratio.unwrap_or_default())?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_three_positive_numbers() {
        assert_eq!(case("16x4096x1024"), Ok(Case { states: 16, sequences: 4096, steps: 1024 }));
        for text in ["", "64", "64x64", "64x64x16x2", "0x64x16", "64x-1x16", "64 x 64 x 16", "64x64x4294967296"] {
            assert!(case(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lines_have_what_is_printed_beside_what_is_measured() {
        let case = Case { states: 64, sequences: 64, steps: 16 };
        let times = Times::Measured { runs: 3, milliseconds: 0.5, least_milliseconds: 0.25, growth_bytes: 0 };
        let (operation, device) = (Operation::Forward, "none".into());
        let method = ForwardMethod::Fused;
        let measured = Measured { case, operation, method, scan: false, precision: Precision::F64, device, times };
        let line = published(case, Operation::Forward);
        let published = line.map(|line| Published { line, hardware: figures::HARDWARE });
        let mut row = Row { measured, published, used: None };
        let mut out = Vec::new();
        write_header(&mut out, HmmSuite::Figures).unwrap();
        write_line(&mut out, &row).unwrap();
        (row.measured.times, row.measured.method) =
            (Times::Lacking { out_of_memory: "too little".into() }, ForwardMethod::Slices);
        write_line(&mut out, &row).unwrap();
        let text = String::from_utf8(out).unwrap();
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
        let lines: Vec<String> = text.lines().rev().take(2).map(words).collect();
        assert_eq!(lines[1], "64 64 16 forward recursion f64 0.5000 0.2500 0 11 687.7 10.2 - 13.6 27×");
        assert_eq!(lines[0], "64 64 16 forward slices f64 too little 11 687.7 10.2 - 13.6");
        let json = serde_json::to_value(&row).unwrap();
        assert_eq!(
            (&json["states"], &json["operation"], &json["out_of_memory"]),
            (&64.into(), &"forward".into(), &"too little".into())
        );
        assert_eq!(json["published"]["gpu_ms"], 13.6);
    }
}
