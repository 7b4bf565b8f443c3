//! Limits on what the emulator counts: how performance is checked without a GPU.

use warpkov_device::emulator::profile::{Counts, KernelProfile, Operation, Profile};

/// What a budget limits, for one kernel.
type Measure = Box<dyn Fn(&KernelProfile) -> f64>;

/// The count of a line by which the line to look at is found.
type Blame = (Operation, fn(&Counts) -> f64);

/// A limit on a count of a kernel.
pub struct Budget {
    /// What is limited, such as `sectors per load`.
    pub what: String,
    /// Name of the kernel's entry point, such as `transpose`, or `axpy_f32` for an instance of a generic kernel.
    kernel: &'static str,
    /// The largest permitted value.
    pub limit: f64,
    measure: Measure,
    line: Option<Blame>,
}

/// What became of a budget.
pub struct Finding {
    /// The value found.
    pub found: f64,
    /// The source line with the highest count: file and line.
    pub line: Option<(&'static str, u32)>,
}

impl Budget {
    /// A limit on any measure of a kernel's counts.
    pub fn new(
        what: impl Into<String>,
        kernel: &'static str,
        limit: f64,
        measure: impl Fn(&KernelProfile) -> f64 + 'static,
    ) -> Self {
        Self { what: what.into(), kernel, limit, measure: Box::new(measure), line: None }
    }

    /// Sectors of 32 bytes per request of a warp, averaged over all requests with `operation`.
    pub fn sectors_per_request(kernel: &'static str, operation: Operation, limit: f64) -> Self {
        let what = format!("sectors per {} of {kernel}", name(operation));
        let budget = Self::new(what, kernel, limit, move |profile| profile.total(operation).sectors_per_request());
        Self { line: Some((operation, Counts::sectors_per_request)), ..budget }
    }

    /// Sectors of 32 bytes that all requests with `operation` touch.
    pub fn sectors(kernel: &'static str, operation: Operation, limit: f64) -> Self {
        let what = format!("sectors of {}s of {kernel}", name(operation));
        let budget = Self::new(what, kernel, limit, move |profile| profile.total(operation).sectors as f64);
        Self { line: Some((operation, |counts| counts.sectors as f64)), ..budget }
    }

    /// Requests of warps with `operation`.
    pub fn requests(kernel: &'static str, operation: Operation, limit: f64) -> Self {
        let what = format!("{}s of {kernel}", name(operation));
        let budget = Self::new(what, kernel, limit, move |profile| profile.total(operation).requests as f64);
        Self { line: Some((operation, |counts| counts.requests as f64)), ..budget }
    }

    /// Passes through the banks of shared memory beyond the least possible.
    pub fn bank_conflicts(kernel: &'static str, limit: f64) -> Self {
        let all = |profile: &KernelProfile| {
            let kinds = [Operation::SharedLoad, Operation::SharedStore, Operation::SharedAtomic];
            kinds.map(|operation| profile.total(operation).bank_conflicts as f64).iter().sum()
        };
        let budget = Self::new(format!("bank conflicts of {kernel}"), kernel, limit, all);
        Self { line: Some((Operation::SharedLoad, |counts| counts.bank_conflicts as f64)), ..budget }
    }

    /// Lanes of the requests with `operation` that take no part, as a part of all lanes.
    pub fn idle_lanes(kernel: &'static str, operation: Operation, limit: f64) -> Self {
        fn idle(counts: &Counts) -> f64 {
            1.0 - counts.lanes as f64 / (32 * counts.requests.max(1)) as f64
        }
        let what = format!("idle lanes of {}s of {kernel} (part of all)", name(operation));
        let budget = Self::new(what, kernel, limit, move |profile| idle(&profile.total(operation)));
        Self { line: Some((operation, idle)), ..budget }
    }

    /// Atomic operations of lanes on the most wanted address of global memory.
    pub fn atomics_per_address(kernel: &'static str, limit: f64) -> Self {
        let most = |profile: &KernelProfile| profile.atomics_per_address.first().copied().unwrap_or(0) as f64;
        let budget = Self::new(format!("atomic operations on one address by {kernel}"), kernel, limit, most);
        Self { line: Some((Operation::Atomic, |counts| counts.lanes as f64)), ..budget }
    }

    /// Branches that divide a warp.
    pub fn divergent_branches(kernel: &'static str, limit: f64) -> Self {
        let what = format!("divergent branches of {kernel}");
        Self::new(what, kernel, limit, |profile| profile.divergent_branches as f64)
    }

    /// Times that warps wait for others: barriers of a block, of a warp, shuffles, votes and reductions of a warp.
    pub fn waits(kernel: &'static str, limit: f64) -> Self {
        let kinds =
            [Operation::Barrier, Operation::WarpSync, Operation::Shuffle, Operation::Vote, Operation::Reduction];
        let all =
            move |profile: &KernelProfile| kinds.map(|operation| profile.total(operation).requests as f64).iter().sum();
        Self::new(format!("barriers and exchanges of warps in {kernel}"), kernel, limit, all)
    }

    /// Launches of the kernel.
    pub fn launches(kernel: &'static str, limit: f64) -> Self {
        Self::new(format!("launches of {kernel}"), kernel, limit, |profile| profile.launches as f64)
    }

    /// The value in these counts. `None` if the kernel was never launched, which fails any budget.
    pub fn measure(&self, profile: &Profile) -> Option<Finding> {
        let kernel = profile.kernels.get(self.kernel)?;
        let line = self.line.and_then(|(operation, count)| {
            let lines = kernel.lines.iter().filter(|line| line.operation == operation);
            lines.max_by(|a, b| count(&a.counts).total_cmp(&count(&b.counts))).map(|line| (line.file, line.line))
        });
        Some(Finding { found: (self.measure)(kernel), line })
    }
}

/// An operation in the words of reports.
pub fn name(operation: Operation) -> &'static str {
    match operation {
        Operation::Load => "load",
        Operation::Store => "store",
        Operation::Atomic => "atomic operation",
        Operation::SharedLoad => "shared load",
        Operation::SharedStore => "shared store",
        Operation::SharedAtomic => "shared atomic operation",
        Operation::Barrier => "barrier",
        Operation::WarpSync => "warp barrier",
        Operation::Shuffle => "shuffle",
        Operation::Vote => "vote",
        Operation::Reduction => "warp reduction",
        Operation::TensorProduct => "tensor product",
        Operation::Fence => "fence",
    }
}
