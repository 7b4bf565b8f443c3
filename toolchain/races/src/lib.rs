//! Proves that no two threads of a kernel race, for all sizes and shapes.
//!
//! | module | task |
//! | --- | --- |
//! | `shape`, `contract` | what launchers check, and how it is read from the sources |
//! | `program` | basic blocks, dominators and loops of a kernel's PTX |
//! | `poly` | polynomials over threads, blocks and sizes; proofs that they are not negative |
//! | `trace`, `arithmetic`, `memory`, `loops` | symbolic execution: the offset of each access, and when it happens |
//! | `solve` | shows that two accesses of different threads touch no common byte |
//! | `replay` | runs small launches, to refute |
//! | `page` | the table of the book |
//!
//! `book/races.md` says what is proven and under which assumptions. Two arbitrary threads are compared, with barriers as bounds of intervals, as in
//! GPUVerify (Betts et al., OOPSLA 2012) and, without data, in Faial (Cogumbreiro et al., CAV 2021).

mod arithmetic;
pub mod contract;
mod loops;
mod memory;
pub mod page;
mod poly;
pub mod program;
pub mod replay;
pub mod shape;
mod solve;
mod trace;

use std::collections::{BTreeMap, BTreeSet};

use program::{Program, Reason, describe, number};
use replay::Race;
use shape::{Extent, Shape};
use solve::{Scope, Solver};
use trace::{Access, Kind, Trace};
use warpkov_build::ptx::Entry;

/// What a proof assumes beyond what launchers check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Assumption {
    /// The extents of a launch in y and z are 1 where the kernel does not read the index.
    Dimensions,
    /// Blocks have one dimension.
    FlatBlocks,
    /// Sums and products of indices of 32 bits do not wrap.
    NoWrap,
}

/// The outcome for an entry point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No two threads race, under these assumptions.
    Proven(Vec<Assumption>),
    /// Two threads race.
    Race(Race),
    /// Not proven.
    Undecided(Reason),
}

/// Decides for one entry point. The PTX may be any text: what is not understood is a reason.
pub fn check(entry: &Entry<'_>, shape: &Shape) -> Verdict {
    let program = match Program::new(entry) {
        Ok(program) => program,
        Err(reason) => return Verdict::Undecided(reason),
    };
    let Some(reason) = undecided(&program, shape) else { return Verdict::Proven(Vec::new()) };
    // With all assumptions, and then with fewer.
    let unread = shape.clone().unread(&program);
    let mut flat = unread.clone();
    let axes = [1, 2].map(|axis| (Extent::Block(axis), 1));
    flat.numbers.extend(axes.into_iter().filter(|(extent, _)| !shape.numbers.contains_key(extent)));
    let holds = |no_wrap, candidate: &Shape| undecided(&program, &Shape { no_wrap, ..candidate.clone() }).is_none();
    if !holds(true, &flat) {
        // A launch that the contract may forbid refutes nothing.
        let race = if shape.complete { replay::race(&program, &unread) } else { None };
        return race.map_or(Verdict::Undecided(reason), Verdict::Race);
    }
    for (no_wrap, candidate) in [(false, &unread), (false, &flat), (true, shape), (true, &unread), (true, &flat)] {
        if (no_wrap || candidate.numbers != shape.numbers) && holds(no_wrap, candidate) {
            let dimensions = match candidate.numbers.len() {
                count if count == shape.numbers.len() => None,
                count if count == unread.numbers.len() => Some(Assumption::Dimensions),
                _ => Some(Assumption::FlatBlocks),
            };
            return Verdict::Proven(dimensions.into_iter().chain(no_wrap.then_some(Assumption::NoWrap)).collect());
        }
    }
    Verdict::Undecided(reason)
}

/// Why the kernel is not proven for a shape; `None` if it is.
fn undecided(program: &Program<'_>, shape: &Shape) -> Option<Reason> {
    let mut trace = match Trace::new(program, shape) {
        Ok(trace) => trace,
        Err(reason) => return Some(reason),
    };
    let accesses = std::mem::take(&mut trace.accesses);
    let by_block = together(program, &accesses, false);
    let has_warp_barriers = program.instructions.iter().any(|instruction| instruction.opcode == "bar.warp.sync");
    let by_warp = if has_warp_barriers { together(program, &accesses, true) } else { by_block.clone() };
    for (at, a) in accesses.iter().enumerate() {
        for (other, b) in accesses.iter().enumerate().skip(at) {
            if a.base != b.base {
                continue;
            }
            let conflict = |cta_is_enough: bool| match (a.kind, b.kind) {
                _ if !a.writes && !b.writes => false,
                (Kind::Atomic(one), Kind::Atomic(two)) => a.width != b.width || !cta_is_enough && (one || two),
                _ => true,
            };
            let mut scopes = Vec::new();
            if !a.shared && conflict(false) {
                scopes.push(Scope::Blocks);
            }
            let key = (at, other);
            if conflict(true) && by_block.contains(&key) {
                scopes.push(match (a.collective || b.collective, by_warp.contains(&key)) {
                    (true, _) => Scope::All,
                    (_, true) => Scope::Block,
                    (_, false) => Scope::Warps,
                });
            }
            for scope in scopes {
                if !Solver::disjoint(&mut trace, a, b, scope) {
                    let [one, two] = [a, b].map(|access| describe(&program.instructions[access.instruction]));
                    let data = [a, b].iter().any(|access| trace.is_data(&access.offset));
                    let class = match (data, a.shared) {
                        (true, true) => {
                            "an index of shared memory depends on data or on a loop that the proof does not follow"
                        }
                        (true, false) => {
                            "an index of a buffer depends on data or on a loop that the proof does not follow"
                        }
                        (false, true) => "two indices of shared memory are not shown to differ",
                        (false, false) => "two indices of a buffer are not shown to differ",
                    };
                    let [at_one, at_two] = [a, b].map(|access| trace.atoms.text(&access.offset));
                    let place = format!("{one} at {at_one} and {two} at {at_two}, {scope:?}");
                    return Some(Reason { class: class.to_owned(), place });
                }
            }
        }
    }
    None
}

/// The pairs of accesses that may happen between the same two barriers of a block, or of a warp.
fn together(program: &Program<'_>, accesses: &[Access], warp: bool) -> BTreeSet<(usize, usize)> {
    let is_barrier = |at: usize| {
        let instruction = &program.instructions[at];
        let opcode = |start: &str| instruction.opcode.starts_with(start);
        let is_number = |at: usize| instruction.operands.get(at).is_some_and(|operand| number(operand).is_some());
        // Of all threads: without a number of threads.
        let of_block = opcode("bar.red") && instruction.operands.len() == 3 && is_number(1)
            || (opcode("bar.sync") || opcode("barrier.sync")) && instruction.operands.len() == 1 && is_number(0);
        let all = instruction.operands.first().and_then(|mask| number(mask)) == Some(-1);
        instruction.guard.is_none() && (of_block || warp && instruction.opcode == "bar.warp.sync" && all)
    };
    let mut at_instruction: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, access) in accesses.iter().enumerate() {
        at_instruction.entry(access.instruction).or_default().push(at);
    }
    // The barriers that an asynchronous write may outlast.
    let waits = |at: usize| {
        let instruction = &program.instructions[at];
        let zero = instruction.operands.first().and_then(|count| number(count)) == Some(0);
        let all = instruction.opcode == "cp.async.wait_all" || instruction.opcode == "cp.async.wait_group" && zero;
        all && instruction.guard.is_none()
    };
    let mut outlasting: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (number, access) in accesses.iter().enumerate().filter(|(_, access)| access.asynchronous) {
        let (mut seen, mut open) = (BTreeSet::new(), vec![(access.block, access.instruction + 1)]);
        while let Some((block, first)) = open.pop() {
            let end = program.blocks[block].end;
            let stop = (first..end).find(|&at| waits(at));
            for at in (first..stop.unwrap_or(end)).filter(|&at| is_barrier(at)) {
                outlasting.entry(at + 1).or_default().push(number);
            }
            if stop.is_none() {
                let next = program.blocks[block].next.iter().map(|(next, _)| *next);
                open.extend(next.filter(|next| seen.insert(*next)).map(|next| (next, program.blocks[next].first)));
            }
        }
    }
    let mut pairs = BTreeSet::new();
    let barriers = program.order.iter().flat_map(|&block| {
        let block_range = program.blocks[block].first..program.blocks[block].end;
        block_range.filter(|&at| is_barrier(at)).map(move |at| (block, at + 1))
    });
    let starts: Vec<(usize, usize)> = std::iter::once((0, 0)).chain(barriers).collect();
    for start in starts {
        let (mut seen, mut open, mut reached) = (BTreeSet::new(), vec![start], BTreeSet::new());
        reached.extend(outlasting.get(&start.1).into_iter().flatten().copied());
        while let Some((block, first)) = open.pop() {
            let end = program.blocks[block].end;
            let stop = (first..end).find(|&at| is_barrier(at));
            for at in first..stop.unwrap_or(end) {
                reached.extend(at_instruction.get(&at).into_iter().flatten().copied());
            }
            if stop.is_none() {
                let next = program.blocks[block].next.iter().map(|(next, _)| *next);
                open.extend(next.filter(|next| seen.insert(*next)).map(|next| (next, program.blocks[next].first)));
            }
        }
        pairs.extend(reached.iter().flat_map(|&a| reached.range(a..).map(move |&b| (a, b))));
    }
    pairs
}
