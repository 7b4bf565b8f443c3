//! Runs a kernel's integer arithmetic on small launches, and looks for two threads that race.
//!
//! Every thread runs by itself. What it loads is unknown; a thread whose way depends on such a value is followed no further. So each
//! race that is found is one: both accesses happen, in the same interval between barriers, whatever the data are.

use std::collections::{BTreeMap, HashMap};

use crate::program::{Instruction, Program, describe, number, results};
use crate::shape::{Extent, Inequality, Shape};

/// A launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Threads of a block.
    pub block: [u32; 3],
    /// Blocks of the grid.
    pub grid: [u32; 3],
    /// The values of the parameters that are no buffers.
    pub parameters: Vec<u64>,
}

impl Launch {
    /// The launch, for people, with the values of parameters that are no buffers.
    pub fn text(&self, shape: &Shape) -> String {
        let numbers = self.parameters.iter().enumerate().filter(|(at, _)| !shape.buffers.contains(at));
        let numbers: String = numbers.map(|(at, value)| format!(", parameter {at} = {value}")).collect();
        let extent = |[x, y, z]: [u32; 3]| format!("{x} × {y} × {z}");
        format!("{} blocks of {} threads{numbers}", extent(self.grid), extent(self.block))
    }
}

/// A launch in which two threads race.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Race {
    /// Grid, block and parameters.
    pub launch: Launch,
    /// The two accesses with their threads.
    pub accesses: String,
}

/// An access of a thread to a byte.
#[derive(Clone)]
struct Touch {
    block: usize,
    thread: usize,
    /// Barriers of the block and of the warp before it.
    barriers: (usize, usize),
    instruction: usize,
    writes: bool,
    /// Bytes of an atomic access.
    atomic: Option<u64>,
}

/// Steps of a thread at most, and of all threads of all launches.
const STEPS: usize = 2000;
const ALL_STEPS: usize = 400_000;
/// Buffers are this far apart, as are shared arrays.
const BUFFER: u32 = 44;
const ARRAY: u32 = 22;

/// Looks for a race in small launches within the shape.
pub fn race(program: &Program<'_>, shape: &Shape) -> Option<Race> {
    // Flags and barriers of some threads may order accesses, which this does not follow.
    let orders = ["acquire", "release", "acq_rel", "fence", "arrive", "mbarrier", "cluster"];
    let others = |instruction: &Instruction<'_>| {
        let part = instruction.opcode.starts_with("bar.sync") && instruction.operands.len() > 1;
        part || orders.iter().any(|order| instruction.opcode.contains(order))
    };
    if program.instructions.iter().any(others) {
        return None;
    }
    let mut steps = ALL_STEPS;
    launches(program, shape).iter().find_map(|launch| race_in(program, shape, launch, &mut steps))
}

/// Small launches that the contract allows.
fn launches(program: &Program<'_>, shape: &Shape) -> Vec<Launch> {
    let mut found = Vec::new();
    let multiple = shape.multiples.get(&Extent::Block(0)).copied().unwrap_or(1);
    let choices = |extent: Extent, small: &[i128]| match shape.numbers.get(&extent) {
        Some(&value) => vec![value],
        None => small.to_vec(),
    };
    let wide: Vec<i128> = if multiple > 1 { vec![multiple, 2 * multiple] } else { vec![1, 2, 4, 16, 33, 64] };
    for x in choices(Extent::Block(0), &wide) {
        for y in choices(Extent::Block(1), &[1, 2]) {
            for grid in choices(Extent::Grid(0), &[1, 2, 3]) {
                for rows in choices(Extent::Grid(1), &[1, 2]) {
                    for value in [1_u64, 3, 4, 33, 64] {
                        let block = [x, y, 1];
                        let numbers = (0..program.parameters.len()).map(|at| {
                            let known = shape.numbers.get(&Extent::Parameter(at)).map(|value| *value as u64);
                            let of =
                                shape.multiples.get(&Extent::Parameter(at)).map_or(1, |of| of.unsigned_abs() as u64);
                            known.unwrap_or_else(|| value.next_multiple_of(of))
                        });
                        let launch = Launch {
                            block: block.map(|count| u32::try_from(count).unwrap_or(1)),
                            grid: [grid, rows, 1].map(|count| u32::try_from(count).unwrap_or(1)),
                            parameters: numbers.collect(),
                        };
                        if x * y <= shape.threads.min(256) && allowed(shape, &launch) {
                            found.push(launch);
                        }
                    }
                }
            }
        }
    }
    found
}

/// Whether the launcher's checks pass.
fn allowed(shape: &Shape, launch: &Launch) -> bool {
    let value = |extent: &Extent| match extent {
        Extent::Block(axis) => launch.block.get(usize::from(*axis)).map_or(1, |count| i128::from(*count)),
        Extent::Grid(axis) => launch.grid.get(usize::from(*axis)).map_or(1, |count| i128::from(*count)),
        Extent::Parameter(at) => launch.parameters.get(*at).map_or(0, |value| i128::from(*value)),
    };
    let sum = |terms: &Inequality| -> i128 {
        terms
            .iter()
            .map(|(extents, factor)| extents.iter().map(value).fold(*factor, i128::saturating_mul))
            .fold(0, i128::saturating_add)
    };
    shape.numbers.iter().all(|(extent, number)| value(extent) == *number)
        && shape.multiples.iter().all(|(extent, of)| value(extent) % of == 0)
        && shape.inequalities.iter().all(|terms| sum(terms) >= 0)
}

/// Looks for a race in one launch.
pub fn race_of(program: &Program<'_>, shape: &Shape, launch: &Launch) -> Option<Race> {
    race_in(program, shape, launch, &mut { usize::MAX })
}

fn race_in(program: &Program<'_>, shape: &Shape, launch: &Launch, left: &mut usize) -> Option<Race> {
    if *left == 0 {
        return None;
    }
    // The shared arrays, in the order of the text.
    let mut arrays: Vec<&str> = Vec::new();
    for operand in program.instructions.iter().flat_map(|instruction| &instruction.operands) {
        let name = operand.trim_matches(['[', ']']).split('+').next().unwrap_or_default();
        if name.starts_with(|c: char| c.is_ascii_alphabetic() || "$_".contains(c)) && !arrays.contains(&name) {
            arrays.push(name);
        }
    }
    let mut touched: BTreeMap<u64, Vec<Touch>> = BTreeMap::new();
    let count = |extents: [u32; 3]| extents.iter().map(|&count| count as usize).product::<usize>();
    for block in 0..count(launch.grid) {
        for thread in 0..count(launch.block) {
            let steps = Thread::new(program, shape, launch, &arrays, [block, thread]).run(&mut touched);
            *left = left.saturating_sub(steps);
        }
    }
    for (address, touches) in &touched {
        let shared = address >> BUFFER == 0;
        for (at, a) in touches.iter().enumerate() {
            let b = touches[at + 1..].iter().find(|b| {
                let apart = (a.block, a.thread) != (b.block, b.thread);
                let atomic = a.atomic.is_some() && a.atomic == b.atomic;
                let same_warp = a.thread / 32 == b.thread / 32;
                let together = match a.block == b.block {
                    true => a.barriers.0 == b.barriers.0 && (!same_warp || a.barriers.1 == b.barriers.1),
                    false => !shared,
                };
                apart && !atomic && together && (a.writes || b.writes)
            });
            let Some(b) = b else { continue };
            let place = |linear: usize, extents: [u32; 3]| {
                let [x, y] = [extents[0] as usize, extents[1] as usize];
                format!("({}, {}, {})", linear % x, linear / x % y, linear / x / y)
            };
            let who = |touch: &Touch| {
                let instruction = &program.instructions[touch.instruction];
                let (block, thread) = (place(touch.block, launch.grid), place(touch.thread, launch.block));
                format!("{} of thread {thread} in block {block}", describe(instruction))
            };
            return Some(Race { launch: launch.clone(), accesses: format!("{} and {}", who(a), who(b)) });
        }
    }
    None
}

struct Thread<'p, 'a> {
    program: &'p Program<'a>,
    shape: &'p Shape,
    launch: &'p Launch,
    block: usize,
    thread: usize,
    registers: HashMap<&'a str, u64>,
    arrays: &'p [&'a str],
    barriers: (usize, usize),
}

impl<'p, 'a> Thread<'p, 'a> {
    fn new(
        program: &'p Program<'a>,
        shape: &'p Shape,
        launch: &'p Launch,
        arrays: &'p [&'a str],
        [block, thread]: [usize; 2],
    ) -> Self {
        Self { program, shape, launch, block, thread, registers: HashMap::new(), arrays, barriers: (0, 0) }
    }

    fn run(&mut self, touched: &mut BTreeMap<u64, Vec<Touch>>) -> usize {
        let (mut block, mut steps) = (0, 0);
        loop {
            let current = &self.program.blocks[block];
            for index in current.first..current.end {
                steps += 1;
                if steps > STEPS || self.step(index, touched).is_none() {
                    return steps;
                }
            }
            // A way that ends in an error has been removed: a thread that takes it does nothing more.
            let next = current.next.iter().find_map(|(next, guard)| match guard {
                None => Some(Some(*next)),
                Some((register, value)) => match self.registers.get(&**register) {
                    None => Some(None),
                    Some(holds) => ((*holds != 0) == *value).then_some(Some(*next)),
                },
            });
            match next.flatten() {
                Some(next) => block = next,
                None => return steps,
            }
        }
    }

    fn value(&self, text: &'a str) -> Option<u64> {
        if let Some((family, axis)) = text.strip_prefix('%').and_then(|name| name.split_once('.')) {
            let axis = ["x", "y", "z"].iter().position(|known| *known == axis)?;
            let place = |linear: usize, extents: [u32; 3]| {
                let [x, y] = [extents[0] as usize, extents[1] as usize];
                [linear % x, linear / x % y, linear / x / y][axis] as u64
            };
            return match family {
                "tid" => Some(place(self.thread, self.launch.block)),
                "ctaid" => Some(place(self.block, self.launch.grid)),
                "ntid" => Some(self.launch.block[axis].into()),
                "nctaid" => Some(self.launch.grid[axis].into()),
                _ => None,
            };
        }
        if text == "%laneid" {
            return Some(self.thread as u64 % 32);
        }
        if let Some(value) = number(text) {
            return Some(value as u64);
        }
        if let Some(value) = self.registers.get(text) {
            return Some(*value);
        }
        let (name, offset) =
            text.split_once('+').map_or((text, 0), |(name, offset)| (name, number(offset).unwrap_or(0)));
        let array = self.arrays.iter().position(|known| *known == name)?;
        (!name.starts_with('%')).then(|| ((array as u64 + 1) << ARRAY).wrapping_add(offset as u64))
    }

    /// Executes an instruction. `None` ends the thread's way.
    fn step(&mut self, index: usize, touched: &mut BTreeMap<u64, Vec<Touch>>) -> Option<()> {
        let instruction = &self.program.instructions[index];
        let opcode = instruction.opcode;
        let jump = matches!(opcode.split('.').next(), Some("bra" | "ret" | "exit" | "trap"));
        if let Some((register, negated)) = instruction.guard.as_ref().filter(|_| !jump) {
            let holds = *self.registers.get(&**register)? != 0;
            if holds == *negated {
                return Some(());
            }
        }
        if opcode.starts_with("bar.warp") {
            self.barriers.1 += 1;
        } else if opcode.starts_with("bar") {
            self.barriers.0 += 1;
            self.barriers.1 += 1;
        }
        let memory =
            ["ld", "st", "atom", "red", "cp", "ldmatrix"].contains(&opcode.split('.').next().unwrap_or_default());
        if memory && !opcode.contains("param") && !opcode.contains("local") {
            self.touch(index, instruction, touched)?;
        }
        let value = self.computed(instruction);
        for (at, register) in results(instruction).enumerate() {
            match value.filter(|_| at == 0) {
                Some(value) => self.registers.insert(register, value),
                None => self.registers.remove(register),
            };
        }
        Some(())
    }

    fn touch(
        &self,
        index: usize,
        instruction: &Instruction<'a>,
        touched: &mut BTreeMap<u64, Vec<Touch>>,
    ) -> Option<()> {
        let opcode = instruction.opcode;
        let address = instruction.operands.iter().find(|operand| operand.starts_with('[')).copied().unwrap_or_default();
        let inner = address.trim_matches(['[', ']']);
        let (name, offset) = inner.split_once('+').map_or((inner, Some(0)), |(name, offset)| (name, number(offset)));
        // An unknown address may be any.
        let Some(start) = self.value(name).zip(offset).map(|(start, offset)| start.wrapping_add(offset as u64)) else {
            return Some(());
        };
        let vector = if opcode.contains(".v4") {
            4
        } else if opcode.contains(".v2") {
            2
        } else {
            1
        };
        let bits: u64 = opcode
            .rsplit('.')
            .next()
            .and_then(|kind| kind.get(1..)?.parse().ok())
            .filter(|bits| *bits <= 128)
            .unwrap_or(128);
        let width = if opcode.starts_with("cp") || opcode.starts_with("ldmatrix") { 16 } else { vector * bits / 8 };
        let strong = ["relaxed", "acquire", "release", "volatile", "acq_rel"].iter().any(|kind| opcode.contains(kind));
        let atomic = (strong || opcode.starts_with("atom") || opcode.starts_with("red")).then_some(width);
        let touch = Touch {
            block: self.block,
            thread: self.thread,
            barriers: self.barriers,
            instruction: index,
            writes: !opcode.starts_with("ld"),
            atomic,
        };
        let shared = start >> BUFFER == 0;
        for byte in start..start.saturating_add(width) {
            // Shared arrays of each block are its own.
            let key = if shared { byte | (self.block as u64) << 33 } else { byte };
            let touches = touched.entry(key).or_default();
            if touches.len() < 64 {
                touches.push(touch.clone());
            }
        }
        Some(())
    }

    /// The value of an instruction's first result, if it is known.
    fn computed(&self, instruction: &Instruction<'a>) -> Option<u64> {
        let opcode = instruction.opcode;
        let family = opcode.split('.').next().unwrap_or_default();
        let kind = opcode.rsplit('.').next().unwrap_or_default();
        let bits: u32 = kind.get(1..).and_then(|bits| bits.parse().ok()).unwrap_or(64).clamp(1, 64);
        let mask = |value: u64, bits: u32| if bits >= 64 { value } else { value & ((1 << bits) - 1) };
        if family == "ld" && opcode.contains("param") {
            let inner = instruction.operands.get(1)?.trim_matches(['[', ']']);
            let at: usize = inner.strip_prefix(self.program.name)?.strip_prefix("_param_")?.parse().ok()?;
            let buffer = self.shape.buffers.contains(&at);
            return if buffer {
                Some((at as u64 + 1) << BUFFER)
            } else {
                self.launch.parameters.get(at).map(|value| mask(*value, bits))
            };
        }
        if kind.starts_with('f') && family != "selp"
            || kind.starts_with("bf")
            || kind.contains('x')
            || opcode.contains("sat")
        {
            return None;
        }
        let logic = kind == "pred";
        let source = |at: usize| -> Option<u64> {
            let text = instruction.operands.get(at + 1)?;
            if text.starts_with('{') {
                return None;
            }
            match text.strip_prefix('!') {
                Some(name) => Some(u64::from(self.value(name)? == 0)),
                None => self.value(text),
            }
        };
        let signed = |value: u64, bits: u32| {
            if bits >= 64 { value as i64 } else { ((value << (64 - bits)) as i64) >> (64 - bits) }
        };
        let is_signed = kind.starts_with('s');
        let a = source(0).map(|value| mask(value, bits));
        let b = source(1).map(|value| mask(value, bits));
        let (a64, b64) = (a.map(|a| signed(a, bits)), b.map(|b| signed(b, bits)));
        let value = match family {
            "mov" | "cvta" => return if instruction.operands.first()?.starts_with('{') { None } else { source(0) },
            "selp" => return if source(2)? != 0 { source(0) } else { source(1) },
            "setp" => {
                let relation = opcode.split('.').nth(1)?;
                let (order, equal) = (if is_signed { a64?.cmp(&b64?) } else { a?.cmp(&b?) }, a? == b?);
                return Some(u64::from(match relation {
                    "eq" => equal,
                    "ne" => !equal,
                    "lt" | "lo" => order.is_lt(),
                    "le" | "ls" => order.is_le(),
                    "gt" | "hi" => order.is_gt(),
                    "ge" | "hs" => order.is_ge(),
                    _ => return None,
                }));
            }
            "add" if !opcode.contains("cc") => a?.wrapping_add(b?),
            "sub" if !opcode.contains("cc") => a?.wrapping_sub(b?),
            "neg" => a?.wrapping_neg(),
            "not" => {
                if logic {
                    u64::from(a? == 0)
                } else {
                    !a?
                }
            }
            "and" => a? & b?,
            "or" => a? | b?,
            "xor" => a? ^ b?,
            "shl" => a?.checked_shl(u32::try_from(b?).ok()?).unwrap_or(0),
            "shr" if !is_signed => a?.checked_shr(u32::try_from(b?).ok()?).unwrap_or(0),
            "min" => {
                if is_signed {
                    a64?.min(b64?) as u64
                } else {
                    a?.min(b?)
                }
            }
            "max" => {
                if is_signed {
                    a64?.max(b64?) as u64
                } else {
                    a?.max(b?)
                }
            }
            "mul" if opcode.contains(".lo") => a?.wrapping_mul(b?),
            "mad" if opcode.contains(".lo") => a?.wrapping_mul(b?).wrapping_add(source(2)?),
            "mul" if opcode.contains(".wide") => {
                return Some(if is_signed { a64?.wrapping_mul(b64?) as u64 } else { a?.wrapping_mul(b?) });
            }
            "div" if !is_signed => a?.checked_div(b?)?,
            "rem" if !is_signed => a?.checked_rem(b?)?,
            "bfe" if !is_signed => {
                mask(a?.checked_shr(u32::try_from(b?).ok()?)?, u32::try_from(source(2)?).ok()?.clamp(1, 64))
            }
            "cvt" => {
                let to: u32 = opcode.rsplit('.').nth(1)?.get(1..)?.parse().ok()?;
                let whole = opcode.rsplit('.').nth(1)?.starts_with(['u', 's', 'b']);
                let value = if is_signed { a64? as u64 } else { a? };
                return whole.then(|| mask(value, to));
            }
            _ => return None,
        };
        Some(if logic { value & 1 } else { mask(value, bits) })
    }
}
