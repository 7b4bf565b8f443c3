//! The table of all kernels for the book.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::contract::Sources;
use crate::shape::Shape;
use crate::{Assumption, Verdict, check};
use warpkov_build::ptx;

/// The outcome for a kernel: of all its entry points.
#[derive(Clone, Debug)]
pub struct Row {
    /// The kernel's name in the source.
    pub kernel: String,
    /// The outcome for the first entry point that is not proven; else all assumptions.
    pub verdict: Verdict,
    /// What a failure needs to be understood: the entry point and the place.
    pub detail: String,
}

/// The entry points of a kernel: name, PTX and shape.
type EntryPoints = (String, Vec<(String, String, Shape)>);

/// Decides for all kernels of the sources, on all processors. `text` returns the PTX of an entry point; kernels without are left out.
pub fn rows(sources: &Sources, text: impl Fn(&str) -> Option<String>) -> Vec<Row> {
    let entry = |name: String| {
        let text = text(&name)?;
        let module = ptx::parse(&text).ok()?;
        let shape = sources.shape(module.entries.iter().find(|entry| entry.name == name)?);
        Some((name, text, shape))
    };
    let jobs =
        sources.kernels().into_iter().map(|(kernel, names)| (kernel, names.into_iter().filter_map(entry).collect()));
    let jobs: Vec<EntryPoints> = jobs.collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut rows = Vec::new();
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            rows.extend(row(job));
        }
        rows
    };
    let count = thread::available_parallelism().map_or(1, usize::from);
    let mut rows: Vec<Row> = thread::scope(|scope| {
        let running: Vec<_> = (0..count).map(|_| scope.spawn(work)).collect();
        running.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    });
    rows.sort_by(|a, b| a.kernel.cmp(&b.kernel));
    rows
}

fn row((kernel, entries): &EntryPoints) -> Option<Row> {
    let mut assumptions = Vec::new();
    for (name, text, shape) in entries {
        let module = ptx::parse(text).ok()?;
        let entry = module.entries.iter().find(|entry| entry.name == name)?;
        let (verdict, detail) = match check(entry, shape) {
            Verdict::Proven(more) => {
                assumptions.extend(more);
                continue;
            }
            Verdict::Race(race) => {
                let detail = format!("{name}: {}, in {}", race.accesses, race.launch.text(shape));
                (Verdict::Race(race), detail)
            }
            Verdict::Undecided(reason) => {
                let detail = format!("{name}: {}: {}", reason.class, reason.place);
                (Verdict::Undecided(reason), detail)
            }
        };
        return Some(Row { kernel: kernel.clone(), verdict, detail });
    }
    assumptions.sort_unstable();
    assumptions.dedup();
    (!entries.is_empty()).then(|| Row {
        kernel: kernel.clone(),
        verdict: Verdict::Proven(assumptions),
        detail: String::new(),
    })
}

/// The rows as a table in Markdown, and the number of kernels for each reason.
pub fn markdown(rows: &[Row]) -> String {
    let mut table = String::from("| kernel | outcome | assumptions, or the reason |\n| --- | --- | --- |\n");
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for Row { kernel, verdict, .. } in rows {
        let (outcome, why) = match verdict {
            Verdict::Proven(assumptions) => {
                let names = assumptions.iter().map(|assumption| match assumption {
                    Assumption::Dimensions => "D",
                    Assumption::FlatBlocks => "B",
                    Assumption::NoWrap => "W",
                });
                ("proven", names.collect::<Vec<_>>().join(", "))
            }
            Verdict::Race(race) => {
                let [x, y, _] = race.launch.block;
                ("refuted", format!("a launch that its contract allows: {x} × {y} threads per block"))
            }
            Verdict::Undecided(reason) => ("undecided", reason.class.clone()),
        };
        let of = match verdict {
            Verdict::Proven(assumptions) if assumptions.is_empty() => "proven".to_owned(),
            Verdict::Proven(_) => "proven under assumption D, B or W".to_owned(),
            Verdict::Race(_) => "refuted".to_owned(),
            Verdict::Undecided(reason) => format!("undecided: {}", reason.class),
        };
        *reasons.entry(of).or_default() += 1;
        table += &format!("| `{kernel}` | {outcome} | {why} |\n");
    }
    let mut counts: Vec<_> = reasons.into_iter().collect();
    counts.sort_by(|(one, a), (other, b)| {
        (!one.starts_with("proven"), b, one).cmp(&(!other.starts_with("proven"), a, other))
    });
    let total: String = counts.iter().map(|(reason, count)| format!("| {reason} | {count} |\n")).collect();
    format!("| outcome | kernels |\n| --- | --- |\n{total}| all | {} |\n\n{table}", rows.len())
}

/// The page of the book. `compiler` is the version of the compiler that made the PTX.
pub fn page(rows: &[Row], compiler: &str) -> String {
    format!("{TEXT}\nPTX for compute capability 9.0, by {compiler}.\n\n{}", markdown(rows))
}

const TEXT: &str = "\
# Races: what is proven for all sizes

The emulator finds the races of one launch. The build library also proves their absence for all launches of a kernel: of any size, any shape and any
data. It reads the PTX, in which everything is inlined, so that what is proven is what runs. The crate `toolchain/races` is the proof, and its test
compares this page with it; `WARPKOV_UPDATE_BOOK=1` writes it.

## What is proven

Two threads *race* if both access one byte, at least one of them writes, they are not both atomic, and no barrier orders them. For each pair of
accesses to a buffer or to a shared array, the proof shows that no two threads touch one byte:

1. Symbolic execution gives the offset of each access as a polynomial of thread, block, extents, parameters and rounds of loops, and
   the conditions under which it happens. Loads from buffers that the kernel does not write are functions of their offset; other loaded values may be anything.
2. Accesses between which every way has a barrier of the block do not happen at the same time in one block. Nothing orders those of two blocks. A
   `cp.async` lasts until its thread waits for all of its copies.
3. The offsets of two threads are set equal. Where M·h + l = 0 and |l| < M, both h and l are 0, as in the digits of a number. This, the
   conditions and the ranges lead to a contradiction, or to the same thread.

A kernel is *proven* if this succeeds for all pairs of all its entry points. It is *refuted* if a small launch that its contract allows has two threads
that race, whatever the data are; the test names them. Otherwise it is *undecided*, and has the first reason. Undecided kernels may well have no race: the emulator
runs all of them in several orders of threads.

A test compares random kernels with brute force over small launches: none is proven in which brute force finds a race.

## Under which assumptions

- The launcher's checks hold: block, grid, dimensions, and comparisons of parameters in `requires(…)`, which the proof reads from the sources.
  A block has at most 1024 threads, a grid at most 2³¹ − 1 × 65535 × 65535 blocks: the driver refuses others.
- Two buffers that a launch writes do not overlap, nor does one that it reads with one that it writes: the launcher borrows them as Rust does.
- Accesses are in bounds: an offset, computed without wrapping, is within its buffer or its array. The types of safe kernels and the emulator are
  responsible for that.
- Sums and products of 64-bit indices do not wrap, and parameters of 64 bits are below 2⁶³: otherwise a buffer would be larger than any memory.
- All threads of a block reach the same barriers: the audit of the PTX and the emulator check it.
- What comes before a `trap` does not count: the launch is then an error.
- **D**: extents in y and z are 1 where the kernel does not read the index.
- **B**: blocks have one dimension.
- **W**: sums and products of 32-bit indices do not wrap. In a debug build, the emulator stops where they do.

Assumptions D, B and W are named only where the proof needs them. No launcher checks them: a contract could, by `shape.block.x == shape.block`.

## What is not proven

Indices that depend on data (scattered writes, row pointers), flags between blocks, clusters, copies that an `mbarrier` completes, products of warp groups,
pipelines with several copies in flight, and loops whose index halves or alternates. Values are no subject: two threads
that write the same number to one element race here.

## Outcomes

Those of the kernels in `kernels/`, without the ones that a macro makes for a model as code.
";
