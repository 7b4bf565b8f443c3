//! A kernel's control-flow graph: instructions, basic blocks, dominators, loops.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use warpkov_build::ptx::Entry;

/// An instruction.
#[derive(Clone, Debug)]
pub struct Instruction<'a> {
    /// The line in the PTX.
    pub line: usize,
    /// The line of the source, if the PTX says it.
    pub source: Option<&'a str>,
    /// The predicate that must be true, or false if the flag is set.
    pub guard: Option<Guard>,
    /// Operation and types: `ld.global.b32`.
    pub opcode: &'a str,
    /// Operands; a vector `{a, b}` is one.
    pub operands: Vec<&'a str>,
}

/// Why a kernel is not proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// In general, without places.
    pub class: String,
    /// Where.
    pub place: String,
}

impl Reason {
    /// A reason at an instruction.
    pub fn at(class: &str, instruction: &Instruction<'_>) -> Self {
        Self { class: class.to_owned(), place: describe(instruction) }
    }
}

/// The value that a predicate must have.
pub type Guard = (Rc<str>, bool);

/// A basic block.
#[derive(Clone, Debug, Default)]
pub struct BasicBlock {
    /// Its first instruction.
    pub first: usize,
    /// The instruction after its last one.
    pub end: usize,
    /// Where it goes on, with the predicate and the value that it has then.
    pub next: Vec<(usize, Option<Guard>)>,
    /// A condition under which the kernel ends with an error.
    pub excluded: Option<Guard>,
}

/// A loop.
#[derive(Clone, Debug)]
pub struct Loop {
    /// The basic block where rounds begin.
    pub head: usize,
    /// Its basic blocks.
    pub body: BTreeSet<usize>,
    /// Those from which it returns to the head.
    pub latches: Vec<usize>,
}

/// A kernel.
pub struct Program<'a> {
    /// All instructions.
    pub instructions: Vec<Instruction<'a>>,
    /// The basic blocks; the last one is the end.
    pub blocks: Vec<BasicBlock>,
    /// The blocks that can be reached, each before those that it dominates.
    pub order: Vec<usize>,
    /// The blocks that lead to each.
    pub before: Vec<Vec<usize>>,
    /// The immediate dominator of each block.
    pub dominator: Vec<Option<usize>>,
    /// The loops.
    pub loops: Vec<Loop>,
    /// Bits of each register; 1 for predicates.
    pub bits: HashMap<&'a str, u32>,
    /// Bits of each parameter; 0 for the address of a buffer.
    pub parameters: Vec<u32>,
    /// The name of the entry point.
    pub name: &'a str,
}

impl<'a> Program<'a> {
    /// Reads the kernel.
    ///
    /// # Errors
    /// Its flow of control is not that of nested loops and branches.
    pub fn new(entry: &Entry<'a>) -> Result<Self, Reason> {
        let mut instructions: Vec<Instruction<'a>> = Vec::new();
        let (mut labels, mut bits, mut source) = (HashMap::new(), HashMap::new(), None);
        for &(line, text) in &entry.body {
            if let Some(label) = text.strip_suffix(':') {
                labels.insert(label, instructions.len());
                continue;
            }
            if let Some(place) = text.strip_prefix(".loc") {
                source = place.split_whitespace().nth(1);
                continue;
            }
            if text.contains(".branchtargets") || text.starts_with("$L") {
                return Err(Reason { class: "a jump by a table".to_owned(), place: format!("PTX line {line}") });
            }
            for statement in text.split(';') {
                let statement = statement.trim_start_matches(['{', '}', ' ', '\t']).trim();
                if let Some(declared) = statement.strip_prefix(".reg") {
                    let mut words = declared.split([' ', '\t', ',']).filter(|word| !word.is_empty());
                    let kind = words.next().unwrap_or_default();
                    let of = if kind == ".pred" {
                        1
                    } else {
                        kind.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0)
                    };
                    bits.extend(words.map(|name| (name.split('<').next().unwrap_or(name), of)));
                    continue;
                }
                if statement.is_empty() || statement.starts_with(['.', '}']) {
                    continue;
                }
                let (guard, code) = match statement.strip_prefix('@') {
                    Some(guarded) => {
                        let (register, code) = guarded.split_once(char::is_whitespace).unwrap_or((guarded, ""));
                        (Some((Rc::from(register.trim_start_matches('!')), register.starts_with('!'))), code.trim())
                    }
                    None => (None, statement),
                };
                let (opcode, operands) = code.split_once(char::is_whitespace).unwrap_or((code, ""));
                instructions.push(Instruction { line, source, guard, opcode, operands: separated(operands) });
            }
        }
        let parameters = entry.params.iter().map(|size| u32::try_from(size.saturating_mul(8)).unwrap_or(64)).collect();
        let mut program = Self {
            instructions,
            blocks: Vec::new(),
            order: Vec::new(),
            before: Vec::new(),
            dominator: Vec::new(),
            loops: Vec::new(),
            bits,
            parameters,
            name: entry.name,
        };
        program.find_blocks(&labels)?;
        program.leave_out_errors();
        program.find_order()?;
        Ok(program)
    }

    /// The bits of a register.
    pub fn bits_of(&self, register: &str) -> u32 {
        let family = register.trim_end_matches(|c: char| c.is_ascii_digit());
        self.bits.get(register).or_else(|| self.bits.get(family)).copied().unwrap_or(0)
    }

    fn find_blocks(&mut self, labels: &HashMap<&str, usize>) -> Result<(), Reason> {
        let ends = |opcode: &str| matches!(opcode.split('.').next(), Some("bra" | "ret" | "exit" | "trap" | "brx"));
        let count = self.instructions.len();
        let mut starts: BTreeSet<usize> = labels.values().copied().chain([0, count]).collect();
        starts.extend((0..count).filter(|&at| ends(self.instructions[at].opcode)).map(|at| at + 1));
        let starts: Vec<usize> = starts.into_iter().collect();
        let index: BTreeMap<usize, usize> = starts.iter().enumerate().map(|(at, &start)| (start, at)).collect();
        for (at, pair) in starts.windows(2).enumerate() {
            let mut block = BasicBlock { first: pair[0], end: pair[1], ..BasicBlock::default() };
            let Some(last) = self.instructions.get(pair[1].saturating_sub(1)) else { continue };
            let jump = match last.opcode.split('.').next() {
                Some("bra") => {
                    let target = last.operands.first().and_then(|label| labels.get(label)).and_then(|at| index.get(at));
                    Some(Some(*target.ok_or_else(|| Reason::at("a jump to no label", last))?))
                }
                Some("ret" | "exit" | "trap") => Some(None),
                Some("brx") => return Err(Reason::at("a jump by a table", last)),
                _ => None,
            };
            match (jump, &last.guard) {
                (None, _) => block.next.push((at + 1, None)),
                (Some(target), None) => block.next.extend(target.map(|target| (target, None))),
                (Some(target), Some((register, negated))) => {
                    block.next.extend(target.map(|target| (target, Some((register.clone(), !negated)))));
                    block.next.push((at + 1, Some((register.clone(), *negated))));
                }
            }
            self.blocks.push(block);
        }
        // Control that falls off the end returns.
        let end = self.blocks.len();
        self.blocks.push(BasicBlock { first: count, end: count, ..BasicBlock::default() });
        for block in &mut self.blocks {
            block.next.retain(|(next, _)| *next <= end);
        }
        Ok(())
    }

    /// Removes the ways to a `trap`, which makes the launch an error.
    fn leave_out_errors(&mut self) {
        let last =
            |block: &BasicBlock| self.instructions.get(block.end.wrapping_sub(1)).filter(|_| block.end > block.first);
        let mut failing: Vec<bool> = self
            .blocks
            .iter()
            .map(|block| last(block).is_some_and(|last| last.opcode == "trap" && last.guard.is_none()))
            .collect();
        loop {
            let mut changed = false;
            for at in 0..self.blocks.len() {
                if failing[at] || self.blocks[at].next.is_empty() {
                    continue;
                }
                let before = self.blocks[at].next.clone();
                self.blocks[at].next.retain(|(next, _)| !failing[*next]);
                if self.blocks[at].next.is_empty() {
                    failing[at] = true;
                } else if self.blocks[at].next.len() < before.len() {
                    self.blocks[at].excluded =
                        before.into_iter().find(|(next, _)| failing[*next]).and_then(|(_, guard)| guard);
                }
                changed |= failing[at];
            }
            if !changed {
                return;
            }
        }
    }

    fn find_order(&mut self) -> Result<(), Reason> {
        let count = self.blocks.len();
        // Reverse postorder by an explicit stack.
        let (mut seen, mut order, mut stack) = (vec![false; count], Vec::new(), vec![(0, 0)]);
        seen[0] = true;
        while let Some((at, child)) = stack.pop() {
            match self.blocks[at].next.get(child) {
                Some(&(next, _)) => {
                    stack.push((at, child + 1));
                    if !seen[next] {
                        seen[next] = true;
                        stack.push((next, 0));
                    }
                }
                None => order.push(at),
            }
        }
        order.reverse();
        let mut place = vec![usize::MAX; count];
        for (position, &at) in order.iter().enumerate() {
            place[at] = position;
        }
        self.before = vec![Vec::new(); count];
        for &at in &order {
            for &(next, _) in &self.blocks[at].next {
                self.before[next].push(at);
            }
        }
        let mut dominator: Vec<Option<usize>> = vec![None; count];
        loop {
            let mut changed = false;
            for &at in &order[1..] {
                let mut new: Option<usize> = None;
                for &from in self.before[at].iter().filter(|&&from| from == 0 || dominator[from].is_some()) {
                    new = Some(match new {
                        None => from,
                        Some(mut other) => {
                            let mut from = from;
                            while from != other {
                                let step = if place[from] > place[other] { &mut from } else { &mut other };
                                *step = dominator[*step].unwrap_or(0);
                            }
                            from
                        }
                    });
                }
                changed |= new != dominator[at];
                dominator[at] = new;
            }
            if !changed {
                break;
            }
        }
        (self.order, self.dominator) = (order, dominator);
        for at in self.order.clone() {
            for next in self.blocks[at].next.iter().map(|(next, _)| *next).collect::<Vec<_>>() {
                if place[next] > place[at] {
                    continue;
                }
                if !self.dominates(next, at) {
                    return Err(Reason { class: "a loop with two entries".to_owned(), place: String::new() });
                }
                let (mut body, mut open) = (BTreeSet::from([next]), vec![at]);
                while let Some(block) = open.pop() {
                    if body.insert(block) {
                        open.extend(&self.before[block]);
                    }
                }
                match self.loops.iter_mut().find(|known| known.head == next) {
                    Some(known) => {
                        known.body.extend(body);
                        known.latches.push(at);
                    }
                    None => self.loops.push(Loop { head: next, body, latches: vec![at] }),
                }
            }
        }
        Ok(())
    }

    /// Whether every way to `other` leads through `block`.
    pub fn dominates(&self, block: usize, other: usize) -> bool {
        let mut at = Some(other);
        while let Some(here) = at {
            if here == block {
                return true;
            }
            at = self.dominator[here];
        }
        false
    }
}

/// The operands of an instruction, separated at commas outside of brackets.
fn separated(text: &str) -> Vec<&str> {
    let (mut operands, mut depth, mut start) = (Vec::new(), 0_usize, 0);
    for (at, character) in text.char_indices() {
        match character {
            '{' | '[' | '(' => depth += 1,
            '}' | ']' | ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                operands.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    operands.push(text[start..].trim());
    operands.retain(|operand| !operand.is_empty());
    operands
}

/// The registers in an operand: one, or those of a vector or of an address.
pub fn registers(operand: &str) -> impl Iterator<Item = &str> {
    operand.split(|c: char| !(c.is_ascii_alphanumeric() || "%_.$".contains(c))).filter(|word| !word.is_empty())
}

/// The registers that an instruction writes.
pub fn results<'a>(instruction: &Instruction<'a>) -> impl Iterator<Item = &'a str> + use<'a> {
    let none = ["st", "red", "bra", "ret", "exit", "trap", "call", "fence", "membar"];
    let family = instruction.opcode.split('.').next().unwrap_or_default();
    let barrier = family.starts_with("bar") && !instruction.opcode.contains("red");
    let first = instruction
        .operands
        .first()
        .copied()
        .filter(|first| !first.starts_with('[') && !barrier && !none.contains(&family));
    first
        .into_iter()
        .flat_map(registers)
        .filter(|name| name.starts_with('%') || name.starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// A number in PTX.
pub fn number(text: &str) -> Option<i128> {
    let (text, sign) = text.trim().strip_prefix('-').map_or((text.trim(), 1), |rest| (rest, -1));
    let text = text.trim_end_matches('U');
    if text.starts_with("0f") || text.starts_with("0d") {
        return None;
    }
    let value = match text.strip_prefix("0x") {
        Some(digits) => i128::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    value.map(|value: i128| sign * value)
}

/// The instruction, for people: its line in the source, or else in the PTX.
pub fn describe(instruction: &Instruction<'_>) -> String {
    let opcode = instruction.opcode;
    match instruction.source {
        Some(line) => format!("{opcode} of source line {line}"),
        None => format!("{opcode} of PTX line {}", instruction.line),
    }
}

/// Why the proof does not know an instruction that touches memory.
pub fn refused(instruction: &Instruction<'_>) -> Option<&'static str> {
    let opcode = instruction.opcode;
    let starts = |with: &[&str]| with.iter().any(|start| opcode.starts_with(start));
    let reasons: [(&[&str], &str); 6] = [
        (&["call"], "a call of a function"),
        (&["cp.async.bulk", "cp.reduce", "mbarrier", "cp.async.mbarrier"], "copies that barriers in memory complete"),
        (&["wgmma", "tcgen05"], "products of warp groups read shared memory"),
        (&["barrier.cluster", "mapa", "st.async", "red.async"], "blocks of a cluster share memory"),
        (
            &["stmatrix", "tex", "surf", "tld4", "suld", "sust", "multimem", "st.bulk"],
            "an instruction that the proof does not know",
        ),
        (&["alloca", "stacksave", "stackrestore"], "memory on a stack"),
    ];
    let cluster = opcode.contains("shared::cluster").then_some("blocks of a cluster share memory");
    reasons.iter().find(|(with, _)| starts(with)).map(|(_, reason)| *reason).or(cluster)
}
