//! Figures 11 to 13 of Brändle and Haubenstock, *Bayesian Network Inference with Cuda* (2016): times in milliseconds of
//! the forward, Viterbi and Baum-Welch algorithms for N states and M = N sequences. The figures quote times of Liu, *A
//! CUDA Implementation of Hidden Markov Models* (2009), for comparison.

use serde::Serialize;

use super::{Case, Measured, Operation, Times, case};
use warpkov_common::choice::Choice;
use warpkov_common::plot::panels::{Panel, Panels};
use warpkov_hmm::backends::device::ForwardMethod;

/// T of all figures (section 3.1).
pub const STEPS: u32 = 16;

/// The paper's hardware (Figure 10). It does not name Liu's.
pub const HARDWARE: &str = "GeForce GTX 860M and i7-4710HQ; Liu's columns are those of 2009, as quoted";

/// The sizes of the figures, the size that [they omit](LINES), sizes up to 4096, and size 512 with longer sequences.
pub const CASES: [Case; 12] = [
    case(64, 64, STEPS),
    case(128, 128, STEPS),
    case(192, 192, STEPS),
    case(256, 256, STEPS),
    case(320, 320, STEPS),
    case(384, 384, STEPS),
    case(448, 448, STEPS),
    case(512, 512, STEPS),
    case(512, 512, 512),
    case(1024, 1024, STEPS),
    case(2048, 2048, STEPS),
    case(4096, 4096, STEPS),
];

/// A line of a figure, in milliseconds, in double precision; `None` where the figure has no number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Line {
    /// Number of the figure: 11, 12 or 13.
    pub figure: u32,
    /// N = M.
    pub size: u32,
    /// Liu's time on a CPU.
    pub liu_cpu_ms: Option<f64>,
    /// Liu's time on a GPU.
    pub liu_gpu_ms: Option<f64>,
    /// The paper's time on the CPU.
    pub cpu_ms: Option<f64>,
    /// The paper's time on the GPU; in Figure 13, whose counts the authors found wrong, on both.
    pub gpu_ms: Option<f64>,
}

const fn forward(size: u32, liu_cpu: f64, liu_gpu: f64, gpu_ms: Option<f64>) -> Line {
    Line { figure: 11, size, liu_cpu_ms: Some(liu_cpu), liu_gpu_ms: Some(liu_gpu), cpu_ms: None, gpu_ms }
}

const fn baum_welch(size: u32, liu_cpu_ms: Option<f64>, liu_gpu: f64, gpu_ms: Option<f64>) -> Line {
    Line { figure: 13, size, liu_cpu_ms, liu_gpu_ms: Some(liu_gpu), cpu_ms: None, gpu_ms }
}

/// All lines, as printed. The source has two defects. Figure 13 prints `7891.1.9` for Liu's CPU at 128 × 128,
/// which is not a number. Liu's times per multiplication show that his times printed for 448 were measured at 384.
pub const LINES: [Line; 15] = [
    forward(64, 687.7, 10.2, Some(13.6)),
    forward(128, 5621.9, 19.74, Some(18.15)),
    forward(192, 18_990.5, 40.93, Some(35.93)),
    forward(256, 45_031.6, 71.77, Some(47.20)),
    forward(320, 88_090.8, 128.44, Some(77.09)),
    forward(448, 152_374.8, 208.08, Some(124.99)),
    forward(512, 360_899.3, 410.17, None),
    Line { figure: 12, size: 64, liu_cpu_ms: None, liu_gpu_ms: None, cpu_ms: Some(208.53), gpu_ms: Some(902.71) },
    baum_welch(64, Some(2138.4), 35.9, Some(115.43)),
    baum_welch(128, None, 142.6, Some(297.26)),
    baum_welch(192, Some(57_681.3), 339.1, Some(722.38)),
    baum_welch(256, Some(136_694.2), 903.3, None),
    baum_welch(320, Some(267_038.8), 1328.6, None),
    baum_welch(448, Some(461_297.6), 2479.6, None),
    baum_welch(512, Some(1_094_036.4), 6054.8, None),
];

/// The published line of a case and an operation.
#[must_use]
pub fn published(case: Case, operation: Operation) -> Option<Line> {
    let figure = match operation {
        Operation::Forward => 11,
        Operation::Viterbi => 12,
        Operation::EStep => return None,
        Operation::BaumWelch => 13,
    };
    let of_case = |line: &&Line| line.figure == figure && case == self::case(line.size, line.size, STEPS);
    LINES.iter().find(of_case).copied()
}

/// A chart per operation: Figures 11 to 13 with the measured times, or the times of other sizes.
#[must_use]
pub fn figures<'a>(all: impl IntoIterator<Item = (&'a Measured, Option<Line>)>) -> Panels {
    let panel = |operation: &Operation| {
        let figure = match operation {
            Operation::Forward => " (Figure 11)",
            Operation::Viterbi => " (Figure 12)",
            Operation::EStep => "",
            Operation::BaumWelch => " (Figure 13)",
        };
        Panel::new(&format!("{operation}, ms{figure}"), true)
    };
    let mut panels: Vec<Panel> = Operation::ALL.iter().map(panel).collect();
    for (Measured { case, operation, method, scan, precision, times, .. }, line) in all {
        let Some(at) = Operation::ALL.iter().position(|other| other == operation) else { continue };
        let name = format!("{}x{}x{}", case.states, case.sequences, case.steps);
        let by = match (method, scan) {
            (ForwardMethod::Slices, _) => format!("{precision}, slices"),
            (ForwardMethod::Fused, true) => format!("{precision}, scan"),
            (ForwardMethod::Fused, false) => precision.to_string(),
        };
        if let Times::Measured { milliseconds, .. } = times {
            panels[at].add(&by, false, &name, *milliseconds);
        }
        let Some(Line { liu_cpu_ms, liu_gpu_ms, cpu_ms, gpu_ms, .. }) = line else { continue };
        for (by, published) in [
            ("CPU, Liu (2009)", liu_cpu_ms),
            ("GPU, Liu (2009)", liu_gpu_ms),
            ("CPU (2016)", cpu_ms),
            ("GPU (2016)", gpu_ms),
        ] {
            if let Some(milliseconds) = published {
                panels[at].add(by, true, &name, milliseconds);
            }
        }
    }
    let title = "Recursions and training; thin: figures of Brändle and Haubenstock (2016)".to_owned();
    Panels { title, panels }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lines_are_measured() {
        let found = |operation| CASES.iter().filter_map(|&case| published(case, operation)).collect::<Vec<_>>();
        assert_eq!(found(Operation::Forward), LINES[..7]);
        assert_eq!(found(Operation::Viterbi), LINES[7..8]);
        assert_eq!(found(Operation::BaumWelch), LINES[8..]);
        assert!(found(Operation::EStep).is_empty());
        assert_eq!(CASES.last(), Some(&case(4096, 4096, 16)));
    }

    #[test]
    fn lines_are_those_of_their_case() {
        let line = published(case(448, 448, 16), Operation::BaumWelch);
        assert_eq!(line.and_then(|line| line.liu_gpu_ms), Some(2479.6));
        // The figure prints "-".
        assert_eq!(published(case(512, 512, 16), Operation::Forward).map(|line| line.gpu_ms), Some(None));
        for other in [case(512, 512, 512), case(512, 64, 16), case(384, 384, 16), case(1024, 1024, 16)] {
            assert_eq!(published(other, Operation::Forward), None);
        }
    }

    /// Liu's time per multiplication is the same at all sizes, provided that 448 stands for 384.
    #[test]
    fn liu_needs_the_same_time_for_each_product() {
        for (line, time) in LINES.iter().filter_map(|line| Some((line, line.liu_cpu_ms?))) {
            let size = if line.size == 448 { 384 } else { line.size };
            let nanoseconds = 1e6 * time / (f64::from(size).powi(3) * f64::from(STEPS));
            let expected = if line.figure == 11 { 167.5 } else { 509.5 };
            assert!((nanoseconds / expected - 1.0).abs() < 0.025, "{line:?}: {nanoseconds} ns, expected {expected}");
        }
    }
}
