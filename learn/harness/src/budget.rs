//! Limits on what the emulator counts: how performance is checked without a GPU.

use warpkov_device::emulator::profile::{Counts, KernelProfile, Operation, Profile};

/// What a budget limits, for one kernel.
type Measure = Box<dyn Fn(&KernelProfile) -> f64>;

/// The count of a line by which the line to look at is found.
type Blame = (Operation, fn(&Counts) -> f64);

/// What a budget limits, for all kernels together.
type Whole = Box<dyn Fn(&Profile) -> f64>;

/// A limit of a group: what it says with the value in place of `{}`, the largest permitted value, and the value.
type Member = (&'static str, f64, fn(&KernelProfile) -> f64);

/// A limit on a count of a kernel, or of all kernels together, or several limits of a kernel under one name.
pub struct Budget {
    /// What is limited, such as `sectors per load`.
    pub what: String,
    /// Name of the kernel's entry point, such as `transpose`, or `axpy_f32` for an instance of a generic kernel.
    kernel: &'static str,
    /// The largest permitted value.
    pub limit: f64,
    measure: Measure,
    /// For a budget of all kernels together: takes the place of `kernel` and `measure`.
    whole: Option<Whole>,
    /// Of a group, which measures how many of them are exceeded.
    members: Vec<Member>,
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
        Self {
            what: what.into(),
            kernel,
            limit,
            measure: Box::new(measure),
            whole: None,
            members: Vec::new(),
            line: None,
        }
    }

    /// What a kernel needs to keep a GPU busy: at least so many blocks of whole warps share its work, a launch has few
    /// blocks without any, and a block has at most so many barriers and bytes of shared memory.
    pub fn parallelism(kernel: &'static str, blocks: u32, barriers: usize, shared_bytes: u32) -> Self {
        fn memory(profile: &KernelProfile) -> f64 {
            MEMORY.map(|operation| profile.total(operation).requests as f64).iter().sum()
        }
        fn idle_lanes(profile: &KernelProfile) -> f64 {
            let [loads, stores] = [Operation::Load, Operation::Store].map(|operation| profile.total(operation));
            let lanes = 32 * (loads.requests + stores.requests).max(1);
            100.0 - 100.0 * (loads.lanes + stores.lanes) as f64 / lanes as f64
        }
        let blocks = f64::from(blocks);
        let members: Vec<Member> = vec![
            ("the last warp of a block lacks {} threads", 0.0, |profile| {
                f64::from(profile.block_threads.next_multiple_of(32) - profile.block_threads)
            }),
            ("the busiest warp makes {} times the mean's accesses", 5.0, |profile| {
                profile.busiest_warp as f64 * profile.busy_warps as f64 / memory(profile).max(1.0)
            }),
            ("one block makes {} % of all accesses", 100.0 / blocks, |profile| {
                100.0 * profile.busiest_block as f64 / memory(profile).max(1.0)
            }),
            ("one warp makes {} % of all accesses", 25.0 / blocks, |profile| {
                100.0 * profile.busiest_warp as f64 / memory(profile).max(1.0)
            }),
            ("{} % of the lanes of loads and stores are idle", 50.0, idle_lanes),
            // A grid may have a block for each multiprocessor, whatever n.
            ("{} blocks access nothing", 132.0, |profile| (profile.blocks - profile.busy_blocks) as f64),
            ("a block passes {} barriers", barriers as f64, barriers_per_block),
            ("a block has {} bytes of shared memory", f64::from(shared_bytes), |profile| profile.shared_bytes.into()),
        ];
        let count = members.clone();
        let measure =
            move |profile: &KernelProfile| count.iter().filter(|member| exceeds(member, profile)).count() as f64;
        Self { members, ..Self::new(format!("parallelism of {kernel}"), kernel, 0.0, measure) }
    }

    /// Launches beside one of each of these kernels.
    pub fn launches_beside(kernels: &[&'static str]) -> Self {
        let expected = kernels.to_vec();
        Self::of_all(format!("launches beside {}", kernels.join(", ")), 0.0, move |profile| {
            let first = expected.iter().filter(|&&kernel| profile.kernels.contains_key(kernel)).count();
            profile.kernels.values().map(|kernel| kernel.launches as f64).sum::<f64>() - first as f64
        })
    }

    /// A limit on any measure of all kernels' counts together.
    pub fn of_all(what: impl Into<String>, limit: f64, measure: impl Fn(&Profile) -> f64 + 'static) -> Self {
        Self { whole: Some(Box::new(measure)), ..Self::new(what, "", limit, |_| f64::NAN) }
    }

    /// A prediction of a kernel's count: it may be off by `factor`, 1 for an exact one.
    pub fn predicted(
        what: &str,
        kernel: &'static str,
        predicted: f64,
        factor: f64,
        count: impl Fn(&KernelProfile) -> f64 + 'static,
    ) -> Self {
        let what = format!("as factor between prediction and count: {what}");
        Self::new(what, kernel, factor, move |profile| {
            let found = count(profile);
            (found / predicted).max(predicted / found)
        })
    }

    /// Bytes of the sectors that the loads and stores of a kernel touch.
    pub fn bytes(kernel: &'static str, limit: f64) -> Self {
        let budget = Self::new(format!("bytes of sectors of {kernel}"), kernel, limit, bytes);
        Self { line: Some((Operation::Load, |counts| counts.sectors as f64)), ..budget }
    }

    /// Bytes of the sectors that the loads and stores of all kernels touch.
    pub fn bytes_of_all(limit: f64) -> Self {
        Self::of_all("bytes of sectors of all kernels", limit, |profile| profile.kernels.values().map(bytes).sum())
    }

    /// Sectors of 32 bytes per request of a warp, averaged over all requests with `operation`.
    pub fn sectors_per_request(kernel: &'static str, operation: Operation, limit: f64) -> Self {
        let what = format!("sectors per {} of {kernel}", name(operation));
        let budget = Self::new(what, kernel, limit, move |profile| profile.total(operation).sectors_per_request());
        Self { line: Some((operation, Counts::sectors_per_request)), ..budget }
    }

    /// Sectors of 32 bytes that all loads and all stores of words touch, if they load and store so many words and each
    /// sector is touched once.
    pub fn coalesced(kernel: &'static str, loaded: usize, stored: usize) -> [Self; 2] {
        let sectors = |operation, words: usize| Self::sectors(kernel, operation, words.div_ceil(8) as f64);
        [sectors(Operation::Load, loaded), sectors(Operation::Store, stored)]
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

    /// Requests of warps with `operation` per block.
    pub fn requests_per_block(kernel: &'static str, operation: Operation, limit: f64) -> Self {
        let measure =
            move |profile: &KernelProfile| profile.total(operation).requests as f64 / profile.blocks.max(1) as f64;
        let budget = Self::new(format!("{}s per block of {kernel}", name(operation)), kernel, limit, measure);
        Self { line: Some((operation, |counts| counts.requests as f64)), ..budget }
    }

    /// Barriers that a block passes, averaged over all blocks.
    pub fn barriers_per_block(kernel: &'static str, limit: f64) -> Self {
        let budget = Self::new(format!("barriers per block of {kernel}"), kernel, limit, barriers_per_block);
        Self { line: Some((Operation::Barrier, |counts| counts.requests as f64)), ..budget }
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

    /// The name of its check.
    pub fn name(&self) -> String {
        if self.members.is_empty() {
            format!("at most {} {}", number(self.limit), self.what)
        } else {
            self.what.clone()
        }
    }

    /// Whether these counts are within it.
    ///
    /// # Errors
    /// What exceeds it.
    pub fn check(&self, profile: &Profile) -> Result<(), String> {
        let Finding { found, line } = self.measure(profile).ok_or("this kernel was not launched")?;
        if found <= self.limit {
            return Ok(());
        }
        let kernel = profile.kernels.get(self.kernel);
        let member =
            kernel.and_then(|kernel| self.members.iter().find(|member| exceeds(member, kernel)).zip(Some(kernel)));
        if let Some(((text, limit, value), kernel)) = member {
            return Err(format!("{}, at most {}", text.replace("{}", &number(value(kernel))), number(*limit)));
        }
        let at = line.map(|(file, line)| format!(", most of them at {file}:{line}")).unwrap_or_default();
        Err(format!("found {}{at}", number(found)))
    }

    /// The value in these counts. `None` if the kernel was never launched, which fails any budget.
    pub fn measure(&self, profile: &Profile) -> Option<Finding> {
        if let Some(measure) = &self.whole {
            return Some(Finding { found: measure(profile), line: None });
        }
        let kernel = profile.kernels.get(self.kernel)?;
        let line = self.line.and_then(|(operation, count)| {
            let lines = kernel.lines.iter().filter(|line| line.operation == operation);
            lines.max_by(|a, b| count(&a.counts).total_cmp(&count(&b.counts))).map(|line| (line.file, line.line))
        });
        Some(Finding { found: (self.measure)(kernel), line })
    }
}

/// Operations on global and shared memory.
const MEMORY: [Operation; 6] = [
    Operation::Load,
    Operation::Store,
    Operation::Atomic,
    Operation::SharedLoad,
    Operation::SharedStore,
    Operation::SharedAtomic,
];

/// Whether a limit of a group is exceeded. NaN exceeds any.
fn exceeds(&(_, limit, value): &Member, profile: &KernelProfile) -> bool {
    let value = value(profile);
    value.is_nan() || value > limit
}

fn barriers_per_block(profile: &KernelProfile) -> f64 {
    let warps = profile.blocks.max(1) * u64::from(profile.block_threads.div_ceil(32).max(1));
    profile.total(Operation::Barrier).requests as f64 / warps as f64
}

/// A number without needless digits: integers as such, others with three decimals.
fn number(x: f64) -> String {
    if x.fract() == 0.0 { format!("{x}") } else { format!("{x:.3}") }
}

/// Bytes of the sectors that the loads and stores of a kernel touch: 32 for each sector of each request.
pub fn bytes(kernel: &KernelProfile) -> f64 {
    [Operation::Load, Operation::Store].map(|operation| 32.0 * kernel.total(operation).sectors as f64).iter().sum()
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
