//! Finds barriers that the compiler has duplicated into the two sides of a divergent branch.
//!
//! All threads of a block must reach the same barrier. If a branch divides them and each side has its own barrier, the
//! block may hang. A barrier on one side only is accepted: sources contain it on purpose, where all threads return
//! early on a flag that all have read. The same rule holds for the lanes of a warp and for warp-wide operations such as
//! `mma.sync`, with one difference: a branch on a value that one lane has broadcast divides the block but not a warp.

use std::collections::{BTreeMap, BTreeSet};

use crate::ptx::Entry;

/// A basic block. The last one is the exit, the target of every `ret`.
#[derive(Default)]
struct Block<'a> {
    label: Option<&'a str>,
    /// Lines of barriers of the thread block, and of warp-wide operations; indexed by `Group`.
    barriers: [Vec<usize>; 2],
    /// Lines of all collective operations and of the exchanges of a warp's lanes; indexed by `Group`.
    collectives: [Vec<usize>; 2],
    writes: Vec<Write<'a>>,
    /// The conditional branch or indexed jump at the end of the block.
    branch: Option<Branch<'a>>,
    /// Whether it ends the whole kernel by `trap`.
    aborts: bool,
    /// Successors.
    next: Vec<usize>,
}

struct Branch<'a> {
    line: usize,
    predicate: &'a str,
}

/// The registers that an instruction writes and reads.
struct Write<'a> {
    to: Vec<&'a str>,
    from: Vec<&'a str>,
    /// Whether threads may get different values from equal operands.
    divergent: bool,
    /// Whether all lanes of a warp get the value of one lane.
    broadcast: bool,
}

/// The threads that must reach an instruction together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    Block,
    Warp,
}

/// A message for every divergent branch with a barrier on two of its sides.
pub fn duplicated_barriers(entry: &Entry<'_>) -> Vec<String> {
    let blocks = blocks(entry);
    let joins = immediate_postdominators(&blocks);
    let sides: Vec<_> = (0..blocks.len()).map(|at| sides(&blocks, at, joins[at])).collect();
    let of = |group| duplicated(entry, &blocks, &sides, group);
    [Group::Block, Group::Warp].into_iter().flat_map(of).collect()
}

/// A message for every collective operation of a safe kernel that not all threads of the block, or not all lanes of the warp, are sure to
/// reach together: on a side of a divergent branch, under a divergent guard, or with a mask of some lanes.
pub fn collectives_apart(entry: &Entry<'_>) -> Vec<String> {
    let blocks = blocks(entry);
    let joins = immediate_postdominators(&blocks);
    let sides: Vec<_> = (0..blocks.len()).map(|at| sides(&blocks, at, joins[at])).collect();
    let mut faults = Vec::new();
    for group in [Group::Block, Group::Warp] {
        let tainted = tainted(&blocks, &sides, group);
        let mut apart = BTreeMap::new();
        for (at, (block, sides)) in blocks.iter().zip(&sides).enumerate() {
            let Some(branch) = block.branch.as_ref().filter(|branch| tainted.contains(branch.predicate)) else {
                continue;
            };
            let divided: BTreeSet<_> = sides.iter().flatten().copied().collect();
            // A side that leads back to the branch is a loop, of which threads do different numbers of rounds.
            let repeated = block.next.contains(&at) || divided.iter().any(|&side| blocks[side].next.contains(&at));
            let divided = divided.into_iter().chain(repeated.then_some(at));
            for &line in divided.flat_map(|at| &blocks[at].collectives[group as usize]) {
                apart.entry(line).or_insert(branch.line);
            }
        }
        faults.extend(apart.into_iter().map(|(line, branch)| {
            format!(
                "{}: not all threads reach line {line} together: the branch at line {branch} divides them",
                entry.name
            )
        }));
    }
    let of_all_lanes = masks_of_all_lanes(entry);
    for &(line, text) in &entry.body {
        for statement in
            text.split(';').map(str::trim).filter(|statement| is_collective(statement.trim_start_matches('{').trim()))
        {
            if statement.starts_with('@') {
                faults.push(format!("{}: not all threads execute line {line}: {statement}", entry.name));
            }
            if is_barrier(statement) && statement.contains(',') {
                faults.push(format!(
                    "{}: line {line} is a barrier for some threads of the block: {statement}",
                    entry.name
                ));
            }
            let mask = statement.rsplit(',').next().unwrap_or_default().split_whitespace().last().unwrap_or_default();
            let masked = ["shfl.", "vote.", "redux.", "match.", "bar.warp", "elect."];
            let whole = ALL_LANES.contains(&mask) || of_all_lanes.contains(mask);
            if masked.iter().any(|with| statement.contains(with)) && !whole {
                faults.push(format!("{}: line {line} names some lanes of the warp: {statement}", entry.name));
            }
        }
    }
    faults
}

/// The mask of all lanes of a warp.
const ALL_LANES: [&str; 4] = ["-1", "0xffffffff", "0xFFFFFFFF", "4294967295"];

/// The registers that hold the mask of all lanes wherever they are written.
fn masks_of_all_lanes<'a>(entry: &Entry<'a>) -> BTreeSet<&'a str> {
    let (mut masks, mut others) = (BTreeSet::new(), BTreeSet::new());
    for statement in entry.body.iter().flat_map(|(_, text)| text.split(';').map(str::trim)) {
        let code = statement.trim_start_matches('{').trim();
        let unguarded = match code.strip_prefix('@') {
            Some(guarded) => guarded.split_once(char::is_whitespace).map_or("", |(_, code)| code.trim()),
            None => code,
        };
        let Some((opcode, operands)) = unguarded.split_once(char::is_whitespace) else { continue };
        let is_mask = operands.rsplit(',').next().is_some_and(|last| ALL_LANES.contains(&last.trim()));
        let known = if opcode.starts_with("mov.") && is_mask { &mut masks } else { &mut others };
        known.extend(write(opcode, operands.trim(), "").into_iter().flat_map(|write| write.to));
    }
    &masks - &others
}

/// Whether a statement, with or without a guard, is an operation in which several threads take part.
pub fn is_collective(statement: &str) -> bool {
    let code = match statement.strip_prefix('@') {
        Some(guarded) => guarded.split_once(char::is_whitespace).map_or("", |(_, code)| code.trim()),
        None => statement,
    };
    exchanges(code) || is_barrier(code) || group_of(code, "").is_some()
}

/// Whether an instruction exchanges values between the lanes of a warp, or waits for them.
fn exchanges(opcode: &str) -> bool {
    ["shfl.", "vote.", "redux.", "match.", "bar.warp", "elect."].iter().any(|start| opcode.starts_with(start))
}

/// The messages for the barriers of one group.
fn duplicated(entry: &Entry<'_>, blocks: &[Block<'_>], sides: &[Vec<BTreeSet<usize>>], group: Group) -> Vec<String> {
    let tainted = tainted(blocks, sides, group);
    let mut faults = Vec::new();
    for (block, sides) in blocks.iter().zip(sides) {
        let Some(branch) = block.branch.as_ref().filter(|branch| tainted.contains(branch.predicate)) else { continue };
        // A basic block on both sides is common code, where the threads meet again.
        let first = |side: &BTreeSet<usize>, other: &BTreeSet<usize>| {
            side.difference(other).find_map(|&at| blocks[at].barriers[group as usize].first().copied())
        };
        let mut pairs = (0..sides.len()).flat_map(|at| sides[at + 1..].iter().map(move |right| (&sides[at], right)));
        if let Some((a, b)) = pairs.find_map(|(left, right)| first(left, right).zip(first(right, left))) {
            faults.push(format!(
                "{}: the branch at line {} divides threads, which would wait at different barriers, at lines {} and {}",
                entry.name,
                branch.line,
                a.min(b),
                a.max(b)
            ));
        }
    }
    faults
}

/// The control-flow graph of a kernel.
fn blocks<'a>(entry: &Entry<'a>) -> Vec<Block<'a>> {
    let mut blocks = vec![Block::default()];
    // The jump targets of each block; `None` is the exit.
    let mut jumps: Vec<Vec<Option<&str>>> = vec![Vec::new()];
    let mut falls_through = vec![true];
    let start = |blocks: &mut Vec<Block<'a>>, jumps: &mut Vec<_>, falls: &mut Vec<bool>, label| {
        blocks.push(Block { label, ..Block::default() });
        jumps.push(Vec::new());
        falls.push(true);
    };
    // The targets of each jump table, and the name of the table being read.
    let mut tables: BTreeMap<&str, Vec<Option<&str>>> = BTreeMap::new();
    let mut open: Option<&str> = None;
    for &(line, text) in &entry.body {
        if let Some(table) = open {
            tables.entry(table).or_default().push(Some(text.trim_end_matches([',', ';'])));
            open = open.filter(|_| !text.ends_with(';'));
            continue;
        }
        open = text.strip_suffix(": .branchtargets");
        if open.is_some() {
            continue;
        }
        if let Some(label) = text.strip_suffix(':') {
            // Places for tables of lines, to which nothing jumps.
            if ["$L__tmp", "$L__func_"].iter().any(|place| label.starts_with(place)) {
                continue;
            }
            start(&mut blocks, &mut jumps, &mut falls_through, Some(label));
            continue;
        }
        for statement in text.split(';').map(|text| text.trim_matches(['{', '}', ' ', '\t'])) {
            if statement.is_empty() || statement.starts_with('.') {
                continue;
            }
            let (guard, code) = match statement.strip_prefix('@') {
                Some(guarded) => guarded.split_once(char::is_whitespace).unwrap_or((guarded, "")),
                None => ("", statement),
            };
            let guard = guard.trim_start_matches('!');
            let (opcode, operands) = code.trim().split_once(char::is_whitespace).unwrap_or((code, ""));
            let last = blocks.len() - 1;
            if let Some(group) = group_of(opcode, operands) {
                blocks[last].barriers[group as usize].push(line);
                blocks[last].collectives[group as usize].push(line);
            }
            if exchanges(opcode) {
                blocks[last].collectives[Group::Warp as usize].push(line);
            }
            if let Some((index, table)) = operands.split_once(',').filter(|_| opcode.starts_with("brx")) {
                jumps[last] = tables.get(table.trim()).cloned().unwrap_or_default();
                falls_through[last] = false;
                blocks[last].branch = Some(Branch { line, predicate: index.trim() });
                start(&mut blocks, &mut jumps, &mut falls_through, None);
            } else if matches!(opcode.split('.').next(), Some("bra" | "ret" | "exit" | "trap")) {
                jumps[last].push((!operands.is_empty()).then(|| operands.trim()));
                blocks[last].aborts = opcode == "trap" && guard.is_empty();
                falls_through[last] = !guard.is_empty();
                if !guard.is_empty() {
                    blocks[last].branch = Some(Branch { line, predicate: guard });
                }
                start(&mut blocks, &mut jumps, &mut falls_through, None);
            } else {
                blocks[last].writes.extend(write(opcode, operands, guard));
            }
        }
    }
    start(&mut blocks, &mut jumps, &mut falls_through, None);

    let end = blocks.len() - 1;
    let labels: BTreeMap<_, _> = (0..end).filter_map(|at| Some((blocks[at].label?, at))).collect();
    for at in 0..end {
        let targets = jumps[at].iter().map(|label| label.and_then(|label| labels.get(label).copied()).unwrap_or(end));
        blocks[at].next = targets.chain(falls_through[at].then_some(at + 1)).collect();
    }
    leave_out_aborts(&mut blocks);
    blocks
}

/// Removes the ways to a `trap`: it ends all threads of the kernel, so that no barrier waits for those that took another way.
fn leave_out_aborts(blocks: &mut [Block<'_>]) {
    loop {
        let aborting: BTreeSet<usize> = (0..blocks.len()).filter(|&at| blocks[at].aborts).collect();
        for block in blocks.iter_mut().filter(|block| !block.aborts) {
            let before = block.next.len();
            block.next.retain(|next| !aborting.contains(next));
            if block.next.len() < before && block.next.len() < 2 {
                block.branch = None;
                block.aborts = block.next.is_empty();
            }
        }
        if blocks.iter().filter(|block| block.aborts).count() == aborting.len() {
            return;
        }
    }
}

/// The threads that must reach an instruction together, if any. Not `bar.warp.sync`: its mask names its threads. Nor named
/// barriers, which have a number of threads: different warps may wait at different ones.
fn group_of(opcode: &str, operands: &str) -> Option<Group> {
    if is_barrier(opcode) && operands.contains(',') {
        return None;
    }
    let starts = |with: &[&str]| with.iter().any(|start| opcode.starts_with(start));
    let block = starts(&["bar.sync", "bar.red", "barrier."]).then_some(Group::Block);
    block.or_else(|| starts(&["mma.sync", "wmma.", "wgmma.", "ldmatrix"]).then_some(Group::Warp))
}

/// Whether it is a barrier of threads of a block that has no result.
fn is_barrier(opcode: &str) -> bool {
    opcode.starts_with("bar") && ["sync", "arrive"].iter().any(|kind| opcode.contains(kind)) && !opcode.contains("warp")
}

fn write<'a>(opcode: &str, operands: &'a str, guard: &'a str) -> Option<Write<'a>> {
    // The first operand is the result: a register, a pair `a|b`, or a vector `{a, b}`.
    let end = if operands.starts_with('{') { operands.find('}') } else { operands.find(',') }?;
    let (result, rest) = operands.split_at(end);
    if result.starts_with('[') || is_barrier(opcode) {
        return None;
    }
    // A reduction over the block gives every thread the same value.
    let uniform = opcode.starts_with("bar.red") || opcode.contains(".red.");
    let from: Vec<_> = if uniform { Vec::new() } else { registers(rest).chain(registers(guard)).collect() };
    let own = ["%tid", "%laneid", "%lanemask", "%warpid", "%clock", "%globaltimer"];
    let divergent = (opcode.starts_with("ld.") && !opcode.starts_with("ld.param"))
        || ["atom.", "activemask", "elect.", "mbarrier.try_wait"].iter().any(|start| opcode.starts_with(start))
        || from.iter().any(|register| own.iter().any(|special| register.starts_with(special)));
    // The source lane is the second operand after the result.
    let lane = rest.trim_start_matches(',').split(',').nth(1).map(str::trim);
    let broadcast = opcode.starts_with("shfl.sync.idx") && lane.is_some_and(|lane| lane.parse::<u32>().is_ok());
    Some(Write { to: registers(result).collect(), from, divergent, broadcast })
}

fn registers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || "%_.$".contains(c))).filter(|word| word.starts_with('%'))
}

/// The registers that may differ between the threads of a group.
fn tainted<'a>(blocks: &[Block<'a>], sides: &[Vec<BTreeSet<usize>>], group: Group) -> BTreeSet<&'a str> {
    let mut count = BTreeMap::new();
    for register in blocks.iter().flat_map(|block| &block.writes).flat_map(|write| &write.to) {
        *count.entry(*register).or_insert(0) += 1;
    }
    let mut tainted = BTreeSet::new();
    loop {
        let before = tainted.len();
        for write in blocks.iter().flat_map(|block| &block.writes) {
            let same = group == Group::Warp && write.broadcast;
            if !same && (write.divergent || write.from.iter().any(|register| tainted.contains(register))) {
                tainted.extend(&write.to);
            }
        }
        // If a register has one write on a side of a divergent branch and another elsewhere, its value depends on the
        // side.
        for (block, sides) in blocks.iter().zip(sides) {
            if block.branch.as_ref().is_some_and(|branch| tainted.contains(branch.predicate)) {
                let written = sides.iter().flatten().flat_map(|&at| &blocks[at].writes).flat_map(|write| &write.to);
                tainted.extend(written.filter(|register| count[*register] > 1));
            }
        }
        if tainted.len() == before {
            return tainted;
        }
    }
}

/// For each successor of a block with a branch, the blocks reachable from it before the sides join.
fn sides(blocks: &[Block<'_>], at: usize, join: Option<usize>) -> Vec<BTreeSet<usize>> {
    if blocks[at].branch.is_none() {
        return Vec::new();
    }
    let side = |&start: &usize| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![start]);
        while let Some(block) = open.pop() {
            if block != at && Some(block) != join && seen.insert(block) {
                open.extend(&blocks[block].next);
            }
        }
        seen
    };
    blocks[at].next.iter().map(side).collect()
}

/// The immediate postdominator of each block: the first block that every path from it to the exit contains.
fn immediate_postdominators(blocks: &[Block<'_>]) -> Vec<Option<usize>> {
    let end = blocks.len() - 1;
    let all: BTreeSet<_> = (0..=end).collect();
    let mut sets = vec![all; end + 1];
    sets[end] = BTreeSet::from([end]);
    let mut changed = true;
    while changed {
        changed = false;
        for at in (0..end).rev() {
            let common = blocks[at].next.iter().map(|&next| sets[next].clone()).reduce(|a, b| &a & &b);
            let mut set = common.unwrap_or_default();
            set.insert(at);
            changed |= set != sets[at];
            sets[at] = set;
        }
    }
    // The immediate postdominator has the largest set: all other postdominators of the block postdominate it.
    let nearest =
        |at: usize| sets[at].iter().copied().filter(|&other| other != at).max_by_key(|&other| sets[other].len());
    (0..=end).map(nearest).collect()
}
