//! A model of the time of work on several GPUs, and what it says of machines that nobody measured.
//!
//! *Grids*. P GPUs divide a grid of W columns into strips of rows. A Jacobi sweep of a GPU with S cells takes
//!
//! > t(1) = λ + c·S
//! >
//! > t(P) = max(λ + c·S, x) + λ, x = 2λ + ℓ + h·max(log₂(min(P, N)) − 1, 0) + n·8W/B + \[P > N\]·(h′·(1 + 2 log₂(P/N)) + n·8W/B′)
//!
//! with the launch λ, the time c of a cell, the NCCL operations ℓ between two GPUs (exchange of the ghosts and maximum of the changes),
//! n = 1 neighbour for P = 2 and else n = 2, the bandwidth B and the hop h of NVLink in a node of N GPUs, and the bandwidth B′ and the hop
//! h′ of the network between nodes. The path x of the border, two launches and the exchange, overlaps with the sweep of the
//! interior, and a launch joins both. A strip at the border of a node waits for both links, and all others wait for it.
//!
//! It holds for all models whose ghosts are the cells beside a strip, with every state swept each time. Runs of few sweeps take longer: the
//! model has no term for what is done once.
//!
//! *Other work*. A step of t(1) that divides evenly, after which each GPU waits for what the others send:
//!
//! > t(P) = t(1)/P + x·log₂ P + y + b·(P − 1)/P / (B if P ≤ N, else B′)
//!
//! with b bytes that each GPU has in the end, short messages x of the hosts, and sums y to which each rank adds a part; x or y is
//! max(t(2) − t(1)/2, 0) as measured on two GPUs. It holds
//! while every GPU has enough of its own: as many beliefs or sequences as multiprocessors, and memory for b.

use serde::Serialize;

/// Parameters of a machine, in seconds and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Machine {
    /// λ, launch of a kernel in a graph.
    pub launch: f64,
    /// c, time of a cell in a sweep.
    pub cell: f64,
    /// ℓ, exchange of a short message with another GPU and a maximum over both, in a graph.
    pub exchange: f64,
    /// B, bandwidth between two GPUs of a node, in bytes per second.
    pub nvlink: f64,
    /// h, time that a maximum takes longer if there are twice as many GPUs in the node.
    pub nvlink_hop: f64,
    /// B′, bandwidth of a GPU to another node, in bytes per second.
    pub network: f64,
    /// h′, time of a short message to another node.
    pub network_hop: f64,
    /// N, GPUs of a node.
    pub node: u32,
}

/// NVIDIA H200 with value iteration in f64 on slip grids, stored as patterns.
///
/// Measured: λ (`benches/results/2026-11-21-h200-scaling.json`); c, from one GPU and 10,000² cells, ℓ and B, from messages of 1,024 and of
/// 16,777,216 numbers (`benches/results/2026-11-23-h200-x2.md`). Assumed: nodes of 8 GPUs, 400 Gb/s and 5 µs between nodes for each GPU,
/// 2 µs for h.
pub const H200: Machine = Machine {
    launch: 3.81e-6,
    cell: (1659e-3 / 1770.0 - 3.81e-6) / 1e8,
    exchange: 13.9e-6,
    nvlink: 8.0 * (16_777_216.0 - 1024.0) / (474.3e-6 - 13.9e-6),
    nvlink_hop: 2e-6,
    network: 50e9,
    network_hop: 5e-6,
    node: 8,
};

/// A grid of cells.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Grid {
    /// W, cells of a row.
    pub width: u64,
    /// Rows.
    pub height: u64,
}

impl Grid {
    fn cells(self) -> f64 {
        self.width as f64 * self.height as f64
    }
}

impl Machine {
    /// t(P), the seconds of a sweep on this number of GPUs.
    #[must_use]
    pub fn sweep(&self, grid: Grid, gpus: u32) -> f64 {
        let Self { launch, cell, exchange, nvlink, nvlink_hop, network, network_hop, node } = *self;
        let alone = launch + cell * grid.cells() / f64::from(gpus);
        if gpus == 1 {
            return alone;
        }
        let doublings = |count: f64| count.log2().max(0.0);
        let ghosts = 8.0 * grid.width as f64 * f64::from(gpus.min(3) - 1);
        let inside = exchange + nvlink_hop * (doublings(f64::from(gpus.min(node))) - 1.0).max(0.0) + ghosts / nvlink;
        let nodes = f64::from(gpus) / f64::from(node);
        let between = network_hop * (1.0 + 2.0 * doublings(nodes)) + ghosts / network;
        alone.max(2.0 * launch + inside + if gpus > node { between } else { 0.0 }) + launch
    }
}

/// A measured run beside the model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Checked {
    /// The grid.
    pub grid: Grid,
    /// Whether it was made on the GPUs and solved in mixed precision.
    pub mixed: bool,
    /// GPUs.
    pub gpus: u32,
    /// Measured milliseconds of all sweeps.
    pub measured_ms: f64,
    /// Milliseconds by the model.
    pub model_ms: f64,
}

/// Sweeps of the measured runs in f64, and of the computed ones: γ = 0.99, ε = 1e-6.
pub const SWEEPS: u32 = 1770;

/// Sweeps of the measured runs in mixed precision.
const MIXED_SWEEPS: u32 = 1652;

/// [`H200`] with grids that are made on the GPUs and solved in mixed precision: c from one GPU and 45,000² cells
/// (`benches/results/2026-11-26-h200-x4.md`).
pub const H200_MIXED: Machine = Machine { cell: (4.03 / MIXED_SWEEPS as f64 - H200.launch) / 2.025e9, ..H200 };

/// Side of a grid, GPUs, and milliseconds, the middle of what `benches/results/2026-11-23-h200-x2.md` lists without skipping, and of what
/// `benches/results/2026-11-26-h200-x4.md` lists for four GPUs, and for weak scaling.
const MEASURED: [(u64, u32, f64); 11] = [
    (2_048, 1, 74.1),
    (2_048, 2, 56.45),
    (2_048, 4, 55.7),
    (6_000, 1, 604.6),
    (6_000, 2, 306.3),
    (6_000, 4, 178.0),
    (10_000, 1, 1659.0),
    (10_000, 2, 825.35),
    (10_000, 4, 429.85),
    (14_142, 2, 1622.1),
    (20_000, 4, 1641.6),
];

/// Side of a grid, GPUs, and seconds in mixed precision, as `benches/results/2026-11-26-h200-x4.md` lists them.
const MEASURED_MIXED: [(u64, u32, f64); 4] =
    [(45_000, 1, 4.03), (45_000, 2, 2.03), (45_000, 4, 0.97), (100_000, 4, 4.96)];

/// The measured runs on grids beside the model.
#[must_use]
pub fn checked() -> Vec<Checked> {
    let run = |mixed: bool, (side, gpus, measured_ms): (u64, u32, f64)| {
        let (machine, sweeps) = if mixed { (H200_MIXED, MIXED_SWEEPS) } else { (H200, SWEEPS) };
        let grid = Grid { width: side, height: side };
        Checked { grid, mixed, gpus, measured_ms, model_ms: 1e3 * f64::from(sweeps) * machine.sweep(grid, gpus) }
    };
    let mixed = MEASURED_MIXED.map(|(side, gpus, seconds)| (side, gpus, 1e3 * seconds));
    MEASURED.into_iter().map(|of| run(false, of)).chain(mixed.into_iter().map(|of| run(true, of))).collect()
}

/// Work other than sweeps of grids, as measured: milliseconds of a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DividedStep {
    /// What a step is.
    pub step: &'static str,
    /// t(1), on one GPU.
    pub one_ms: f64,
    /// x, the messages of the hosts.
    pub messages_ms: f64,
    /// y, the sums of the hosts.
    pub sums_ms: f64,
    /// b, the bytes that each GPU has after a step.
    pub bytes: f64,
    /// States, beliefs or sequences, which are divided.
    pub parts: f64,
    /// Another measurement, which the parameters above do not use: GPUs, and milliseconds.
    pub measured: (u32, f64),
}

/// What two GPUs take longer than half of the time of one.
const fn longer(one_ms: f64, two_ms: f64) -> f64 {
    if two_ms > one_ms / 2.0 { two_ms - one_ms / 2.0 } else { 0.0 }
}

/// Work on so many parts, with messages.
const fn work(step: &'static str, parts: f64, one_ms: f64, two_ms: f64, measured: (u32, f64)) -> DividedStep {
    DividedStep { step, one_ms, messages_ms: longer(one_ms, two_ms), sums_ms: 0.0, bytes: 0.0, parts, measured }
}

/// Work on so many parts, with sums.
const fn summed(step: &'static str, parts: f64, one_ms: f64, two_ms: f64, measured: (u32, f64)) -> DividedStep {
    DividedStep { messages_ms: 0.0, sums_ms: longer(one_ms, two_ms), ..work(step, parts, one_ms, two_ms, measured) }
}

/// Work whose parts are all of a vector of this many numbers, through NCCL.
const fn gathered(step: &'static str, numbers: f64, one_ms: f64, measured: (u32, f64)) -> DividedStep {
    DividedStep {
        step,
        one_ms,
        messages_ms: 1e3 * H200.exchange,
        sums_ms: 0.0,
        bytes: 8.0 * numbers,
        parts: numbers,
        measured,
    }
}

/// From `benches/results/2026-11-26-h200-x4.md` and `2026-11-27-h200-x4.md`.
pub const WORK: [DividedStep; 11] = [
    gathered("sweep, garnet, 8·10⁷ states", 8e7, 2480.6 / 24.0, (4, 714.5 / 24.0)),
    gathered("sweep, model as code, 4·10⁸ states", 4e8, 237.0 / 108.0, (2, 756.0 / 108.0)),
    gathered("sweep, model as code, 4·10⁸ states", 4e8, 237.0 / 108.0, (4, 830.0 / 108.0)),
    work("product, krylov, 3.4·10⁶ states", 3.4e6, 6660.0 / 30_324.0, 6030.0 / 38_696.0, (4, 3930.0 / 31_002.0)),
    work("product, krylov, 1.6·10⁷ states", 1.6e7, 0.852, 0.470, (4, 0.288)),
    // x of the line before.
    work("product, krylov, 4·10⁷ states", 4e7, 1.95, 1.95 / 2.0 + 0.470 - 0.852 / 2.0, (4, 0.57)),
    work("16,384 backups, 65,536 states, f16", 16_384.0, 179.7, 87.5, (4, 44.4)),
    work("16,384 backups, 65,536 states, 3 × tf32", 16_384.0, 539.4, 270.9, (4, 135.6)),
    work("16,384 backups, Tag, sparse", 16_384.0, 8.99, 4.72, (4, 2.60)),
    summed("Baum-Welch, 512 states, 16,384 × 16", 16_384.0, 16.05, 10.75, (4, 7.46)),
    summed("Baum-Welch, 16 states, 131,072 × 1024", 131_072.0, 24.3, 15.3, (4, 7.79)),
];

/// Multiprocessors of a GPU.
const PROCESSORS: f64 = 132.0;

impl DividedStep {
    /// Whether each of so many GPUs has a part for each of its multiprocessors: with fewer, a step is not as much shorter.
    #[must_use]
    pub fn divides(&self, gpus: u32) -> bool {
        self.parts >= PROCESSORS * f64::from(gpus)
    }

    /// t(P), the milliseconds of a step on this number of GPUs.
    #[must_use]
    pub fn on(&self, machine: &Machine, gpus: u32) -> f64 {
        let count = f64::from(gpus);
        let bandwidth = if gpus <= machine.node { machine.nvlink } else { machine.network };
        let hosts = if gpus > 1 { self.messages_ms * count.log2() + self.sums_ms } else { 0.0 };
        self.one_ms / count + hosts + 1e3 * self.bytes * (count - 1.0) / count / bandwidth
    }
}

/// What the model says of a number of GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Computed {
    /// GPUs.
    pub gpus: u32,
    /// The grid.
    pub grid: Grid,
    /// Microseconds of a sweep.
    pub sweep_us: f64,
    /// Seconds of [`SWEEPS`] sweeps.
    pub seconds: f64,
    /// Time of the cells alone as part of the sweep: 1 is perfect scaling.
    pub efficiency: f64,
}

/// Numbers of GPUs.
pub const GPUS: [u32; 4] = [8, 64, 512, 4096];

impl Computed {
    fn new(grid: Grid, gpus: u32) -> Self {
        let sweep = H200.sweep(grid, gpus);
        let alone = H200.launch + H200.cell * grid.cells() / f64::from(gpus);
        Self { gpus, grid, sweep_us: 1e6 * sweep, seconds: f64::from(SWEEPS) * sweep, efficiency: alone / sweep }
    }
}

/// Weak scaling: 10,000² cells on each GPU, in strips one below the other.
#[must_use]
pub fn weak() -> Vec<Computed> {
    GPUS.map(|gpus| Computed::new(Grid { width: 10_000, height: 10_000 * u64::from(gpus) }, gpus)).to_vec()
}

/// Strong scaling: 100,000² cells on all GPUs together.
#[must_use]
pub fn strong() -> Vec<Computed> {
    GPUS.map(|gpus| Computed::new(Grid { width: 100_000, height: 100_000 }, gpus)).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULTS: &str = include_str!("../../benches/results/2026-11-23-h200-x2.md");
    const FOUR: &str = include_str!("../../benches/results/2026-11-26-h200-x4.md");
    const LATER: &str = include_str!("../../benches/results/2026-11-27-h200-x4.md");

    /// Ends of a range such as `604.8 to 606.6`.
    fn ends(text: &str) -> (f64, f64) {
        let numbers: Vec<f64> = text.split(" to ").map(|number| number.trim().parse().unwrap()).collect();
        (numbers[0], numbers[numbers.len() - 1])
    }

    #[test]
    fn the_model_predicts_the_measured_times() {
        for Checked { grid, gpus, measured_ms, model_ms, .. } in checked() {
            let ratio = model_ms / measured_ms;
            assert!((0.8..=1.2).contains(&ratio), "{grid:?} on {gpus}: {model_ms} ms, measured {measured_ms} ms");
        }
        // Of a sweep with a message of this many numbers, ℓ and the transfer, in µs.
        for (numbers, measured) in [(1.0, 12.6), (1024.0, 13.9), (131_072.0, 21.0), (16_777_216.0, 474.3)] {
            assert!(RESULTS.contains(&format!(" {measured:.1} µs |")), "{measured}");
            let model = 1e6 * (H200.exchange + 8.0 * numbers / H200.nvlink);
            assert!((0.8..=1.2).contains(&(model / measured)), "{numbers}: {model} µs, measured {measured} µs");
        }
    }

    #[test]
    fn the_model_predicts_other_work() {
        for of in WORK {
            let (gpus, measured) = of.measured;
            let model = of.on(&H200, gpus);
            assert!((0.8..=1.2).contains(&(model / measured)), "{of:?}: {model} ms, measured {measured} ms");
        }
    }

    #[test]
    fn the_measured_times_are_those_of_the_results() {
        assert!(RESULTS.contains(&format!("{SWEEPS} sweeps")) && FOUR.contains(&format!("{MIXED_SWEEPS} sweeps")));
        let cells = |line: &'static str| -> Option<(u64, Vec<&str>)> {
            let cells: Vec<_> = line.split('|').map(str::trim).collect();
            Some((cells.get(1)?.strip_suffix('²')?.replace(',', "").parse().ok()?, cells[2..].to_vec()))
        };
        // Columns: skipping, one GPU, two GPUs; and one, two and four GPUs.
        let without = RESULTS.lines().filter_map(cells).filter(|(_, cells)| cells[0] == "no");
        let two: Vec<_> = without.flat_map(|(side, cells)| [(side, 1, cells[1]), (side, 2, cells[2])]).collect();
        let section = |name: &str| FOUR.split("## ").find(|section| section.starts_with(name)).unwrap();
        let four = section("Value iteration").lines().filter_map(cells).map(|(side, cells)| (side, 4, cells[2]));
        let weak = [(14_142, 2, "1622.1"), (20_000, 4, "1641.6")];
        assert!(section("Weak").contains("1622.1 ms on two (14,142² cells), 1641.6 ms on four (20,000² cells)"));
        let listed: Vec<_> = two.into_iter().chain(four).chain(weak).collect();
        assert_eq!(listed.len(), MEASURED.len());
        for (side, gpus, time) in MEASURED {
            let (.., times) = listed.iter().find(|row| (row.0, row.1) == (side, gpus)).unwrap();
            let (least, most) = ends(times);
            assert!((least..=most).contains(&time), "{side}² on {gpus}: {time}, measured {least} to {most}");
        }
        // Columns: states, GPUs, memory, generation, solution.
        let huge =
            section("Huge").lines().filter_map(cells).map(|(side, cells)| format!("{side} {} {}", cells[1], cells[4]));
        assert!(huge.eq(MEASURED_MIXED.map(|(side, gpus, seconds)| format!("{side} {gpus} {seconds} s"))));
        for line in [
            "| 80,000,000 | 24 | 2480.6 ms | | 714.5 ms |",
            "| 6.66 s, 30,324 sweeps | 6.03 s, 38,696 | 3.93 s, 31,002 |",
            "takes 0.852, 0.470 and 0.288 ms",
            "| dense, f16, f32 | 179.7 ms | 87.5 ms | 44.4 ms |",
            "| dense, 3 × tf32, f32 | 539.4 ms | 270.9 ms | 135.6 ms |",
            "| sparse, f64 | 8.99 ms | 4.72 ms | 2.60 ms |",
        ] {
            assert!(FOUR.contains(line), "{line}");
        }
        for line in [
            "108 sweeps, second of two solutions: 0.237 s on one GPU, 0.756 on two, 0.830 on four",
            "| 512 × 16,384 × 16 | 16.05 ms | 8.5 ms | 4.9 ms | 10.75 ms | 7.46 ms | 2.15 |",
            "| 16 × 131,072 × 1024 | 24.3 ms | 13.0 ms | 7.2 ms | 15.3 ms | 7.79 ms | 3.12 |",
            "| 73.9 | 1.95 |",
            "| 17.6 | 0.57 |",
        ] {
            assert!(LATER.contains(line), "{line}");
        }
    }

    #[test]
    fn more_gpus_are_faster_and_not_more_efficient() {
        let (weak, strong) = (weak(), strong());
        assert!(weak.is_sorted_by(|a, b| a.seconds <= b.seconds && a.efficiency >= b.efficiency));
        assert!(strong.is_sorted_by(|a, b| a.seconds > b.seconds && a.efficiency >= b.efficiency));
        // One node measured with 2 GPUs, and nothing but cells: the limits of the formula.
        let fast = Machine { launch: 0.0, exchange: 0.0, nvlink_hop: 0.0, network_hop: 0.0, ..H200 };
        let grid = Grid { width: 1, height: 1 << 30 };
        assert!((fast.sweep(grid, 1) / fast.sweep(grid, 4096) / 4096.0 - 1.0).abs() < 1e-3);
    }
}
