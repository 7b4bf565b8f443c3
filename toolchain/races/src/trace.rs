//! Symbolic execution of a kernel: the addresses of its accesses to memory, and the conditions under which it makes them.
//!
//! A register holds a polynomial that is congruent to its value modulo 2^bits. Where a value and not its residue matters, as in a
//! comparison, a shift to the right or an extension to 64 bits, [`Trace::exact`] shows that nothing wraps, or makes the residue an unknown.

use std::collections::{BTreeSet, HashMap};

use crate::poly::{Atom, Atoms, Fact, Poly, Prover};
use crate::program::{Program, Reason, number, refused, results};
use crate::shape::{Extent, Shape};

/// What a predicate says: the facts if it is true, and if it is false.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Condition {
    pub yes: Vec<Fact>,
    pub no: Vec<Fact>,
}

/// What a register holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Number(Poly),
    Predicate(Condition),
}

/// How memory is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
    /// Atomic, or strong in the memory model of PTX: no two of these race. Those with the flag are so within a block only.
    Atomic(bool),
}

/// An access to memory.
#[derive(Clone, Debug)]
pub struct Access {
    /// The instruction.
    pub instruction: usize,
    /// Its basic block.
    pub block: usize,
    /// Whether it is atomic.
    pub kind: Kind,
    /// Whether it may write.
    pub writes: bool,
    /// Whether it is in shared memory.
    pub shared: bool,
    /// The buffer or the shared array.
    pub base: u32,
    /// Bytes from its start.
    pub offset: Poly,
    /// Bytes that it touches.
    pub width: i128,
    /// What holds when it happens.
    pub facts: Vec<Fact>,
    /// Whether the lanes of a warp read together what each of them addresses.
    pub collective: bool,
    /// Whether it ends only when its thread waits.
    pub asynchronous: bool,
}

/// The result of a symbolic execution.
pub struct Trace<'p, 'a> {
    /// The kernel.
    pub program: &'p Program<'a>,
    /// All unknowns.
    pub atoms: Atoms,
    /// All accesses to memory that other threads have, too.
    pub accesses: Vec<Access>,
    pub(super) shape: &'p Shape,
    /// The place of the only definition of registers that have one.
    pub(super) single: HashMap<&'a str, usize>,
    pub(super) block_of: Vec<usize>,
    /// The values of these registers.
    pub(super) values: HashMap<&'a str, Value>,
    /// At the end of each block, the registers with several definitions.
    pub(super) ends: Vec<HashMap<&'a str, Value>>,
    /// What holds in each basic block.
    pub(super) facts: Vec<Vec<Fact>>,
    /// What holds at the start of each round of the loop that begins at a basic block.
    pub(super) invariants: HashMap<usize, Vec<Fact>>,
    /// Bases that some instruction writes.
    pub(super) written: BTreeSet<u32>,
    /// The basic block that is being executed.
    pub(super) here: usize,
    /// Why the last pass does not know all accesses.
    pub(super) failure: Option<Reason>,
    /// The inequalities that follow from the facts of a block, with its number and the number of facts.
    pub(super) known: Option<((usize, usize), Vec<Poly>)>,
    /// What these inequalities do not prove.
    pub(super) failed: BTreeSet<Poly>,
    /// The inequalities that the launcher checks.
    pub(super) of_launch: Option<Vec<Poly>>,
}

/// Where selections are numbered from, after basic blocks.
pub const SELECTIONS: usize = 1 << 24;

impl<'p, 'a> Trace<'p, 'a> {
    /// Executes the kernel. The error says what was not understood.
    pub fn new(program: &'p Program<'a>, shape: &'p Shape) -> Result<Self, Reason> {
        let mut block_of = vec![0; program.instructions.len()];
        let mut definitions: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, block) in program.blocks.iter().enumerate() {
            block_of[block.first..block.end].fill(at);
            for (index, instruction) in program.instructions.iter().enumerate().take(block.end).skip(block.first) {
                for register in results(instruction) {
                    // A guarded instruction leaves the earlier value: two definitions.
                    let times = if instruction.guard.is_some() { 2 } else { 1 };
                    definitions.entry(register).or_default().extend(std::iter::repeat_n(index, times));
                }
            }
        }
        let single =
            definitions.into_iter().filter(|(_, places)| places.len() == 1).map(|(name, places)| (name, places[0]));
        let count = program.blocks.len();
        let mut trace = Self {
            program,
            atoms: Atoms::new(
                shape.threads,
                shape.multiples.get(&Extent::Block(0)).copied().unwrap_or(1),
                shape.extents(),
            ),
            accesses: Vec::new(),
            shape,
            single: single.collect(),
            block_of,
            values: HashMap::new(),
            ends: vec![HashMap::new(); count],
            facts: vec![Vec::new(); count],
            invariants: HashMap::new(),
            written: BTreeSet::new(),
            here: 0,
            failure: None,
            known: None,
            failed: BTreeSet::new(),
            of_launch: None,
        };
        // What no store names is read only: its loads are functions of the address. The first pass finds the stores.
        for pass in 0..6 {
            let before = (trace.invariants.clone(), trace.atoms.inductions.clone(), trace.written.clone());
            let reads_known = pass > 0 && trace.failure.is_none();
            trace.pass(reads_known)?;
            if reads_known
                && before == (trace.invariants.clone(), trace.atoms.inductions.clone(), trace.written.clone())
            {
                return trace.failure.take().map_or(Ok(trace), Err);
            }
        }
        let deep = || Reason { class: "loops too deep for the proof".to_owned(), place: String::new() };
        Err(trace.failure.unwrap_or_else(deep))
    }

    pub(super) fn pass(&mut self, reads_known: bool) -> Result<(), Reason> {
        let program = self.program;
        self.failure = None;
        self.known = None;
        self.values.clear();
        self.accesses.clear();
        if !reads_known {
            self.written.clear();
        }
        for &at in &program.order {
            self.here = at;
            let start =
                program.dominator[at].filter(|_| at != 0).map(|from| self.facts_after(from)).unwrap_or_default();
            self.facts[at] = start;
            if let [from] = program.before[at].as_slice()
                && at != 0
            {
                let edge = self.edge(*from, at);
                self.facts[at].extend(edge);
            }
            let invariants = self.invariants.get(&at).cloned().unwrap_or_default();
            self.facts[at].extend(invariants);
            let mut environment = self.merged(at);
            for index in program.blocks[at].first..program.blocks[at].end {
                self.execute(index, &mut environment, reads_known)?;
            }
            self.ends[at] = environment;
        }
        for number in 0..program.loops.len() {
            self.induce(number);
        }
        Ok(())
    }

    /// The facts at the end of a block.
    pub(super) fn facts_after(&self, at: usize) -> Vec<Fact> {
        let mut facts = self.facts[at].clone();
        if let Some((register, value)) = &self.program.blocks[at].excluded {
            facts.extend(self.condition_at(at, register, !value));
        }
        facts
    }

    /// The facts that the edge from a block to another adds.
    pub(super) fn edge(&self, from: usize, to: usize) -> Vec<Fact> {
        let mut ways = self.program.blocks[from].next.iter().filter(|(next, _)| *next == to);
        match (ways.next(), ways.next()) {
            (Some((_, Some((register, value)))), None) => self.condition_at(from, register, *value),
            _ => Vec::new(),
        }
    }

    /// What a predicate says at the end of a block.
    pub(super) fn condition_at(&self, at: usize, register: &str, value: bool) -> Vec<Fact> {
        let found = match self.single.get(register) {
            Some(&index) => self.values.get(register).filter(|_| self.program.dominates(self.block_of[index], at)),
            None => self.ends[at].get(register),
        };
        match found {
            Some(Value::Predicate(condition)) if value => condition.yes.clone(),
            Some(Value::Predicate(condition)) => condition.no.clone(),
            _ => Vec::new(),
        }
    }

    /// The registers with several definitions at the start of a block.
    pub(super) fn merged(&mut self, at: usize) -> HashMap<&'a str, Value> {
        let program = self.program;
        let found = program.loops.iter().find(|known| known.head == at);
        let inside = |block: &usize| found.is_some_and(|known| known.body.contains(block));
        let from: Vec<usize> = program.before[at].iter().copied().filter(|block| !inside(block)).collect();
        let Some((&first, others)) = from.split_first() else { return HashMap::new() };
        let mut merged = HashMap::new();
        // The start of the kernel is also entered from outside.
        if at == 0 {
            return merged;
        }
        let common = program.dominator[at].map_or(0, |dominator| self.facts[dominator].len());
        let mut names: Vec<&str> = self.ends[first].keys().copied().collect();
        names.sort_unstable();
        for name in names {
            let Some(values) =
                from.iter().map(|&block| self.ends[block].get(name).cloned()).collect::<Option<Vec<_>>>()
            else {
                continue;
            };
            let same = values.windows(2).all(|pair| pair[0] == pair[1]);
            let value = if same || others.is_empty() {
                values.into_iter().next()
            } else {
                let ways: Vec<Vec<Fact>> = from
                    .iter()
                    .map(|&block| {
                        let mut facts = self.facts_after(block);
                        facts.drain(..common.min(facts.len()));
                        facts.extend(self.edge(block, at));
                        facts
                    })
                    .collect();
                self.joined(at, name, values, ways)
            };
            merged.extend(value.map(|value| (name, value)));
        }
        let Some(known) = found else { return merged };
        // What the loop changes is unknown at the start of a round.
        for &block in &known.body {
            for index in program.blocks[block].first..program.blocks[block].end {
                for register in results(&program.instructions[index]) {
                    if let Some(value) = merged.get_mut(register) {
                        let bits = program.bits_of(register);
                        *value = match value {
                            Value::Predicate(_) => Value::Predicate(Condition::default()),
                            Value::Number(_) => {
                                Value::Number(self.atoms.poly(Atom::Head(at, register.into(), bits, 0)))
                            }
                        };
                    }
                }
            }
        }
        merged
    }

    /// One of several values, each with the facts of its way.
    pub(super) fn joined(
        &mut self,
        site: usize,
        name: &'a str,
        values: Vec<Value>,
        ways: Vec<Vec<Fact>>,
    ) -> Option<Value> {
        let bits = self.program.bits_of(name);
        if values.iter().all(|value| matches!(value, Value::Predicate(_))) {
            let side = |pick: fn(&Condition) -> &Vec<Fact>| {
                let lists = values.iter().zip(&ways).map(|(value, way)| match value {
                    Value::Predicate(condition) => [way.as_slice(), pick(condition)].concat(),
                    Value::Number(_) => Vec::new(),
                });
                either(lists.collect())
            };
            return Some(Value::Predicate(Condition { yes: side(|c| &c.yes), no: side(|c| &c.no) }));
        }
        let mut alternatives = Vec::new();
        for (value, way) in values.into_iter().zip(ways) {
            let Value::Number(poly) = value else { return None };
            let exact = self.exact_with(&poly, bits, &way);
            alternatives.push((exact, way));
        }
        self.atoms.cases.insert((site, name.into()), alternatives);
        Some(Value::Number(self.atoms.poly(Atom::Case(site, name.into(), bits, 0))))
    }

    /// The inequalities that follow from `facts` and from what the atoms are.
    pub fn inequalities(&mut self, facts: &[Fact], polys: &[Poly]) -> Vec<Poly> {
        let mut found: Vec<Poly> = Vec::new();
        for fact in facts {
            match fact {
                Fact::NotNegative(poly) => found.push(poly.clone()),
                Fact::Zero(poly) => found.extend([poly.clone(), poly.scale(-1)]),
                Fact::NotZero(_) | Fact::Either(_) => {}
            }
        }
        let mut open: Vec<u32> = found.iter().chain(polys).flat_map(|poly| poly.atoms()).collect();
        let mut seen: BTreeSet<u32> = BTreeSet::new();
        while let Some(id) = open.pop() {
            if seen.len() > 200 || !seen.insert(id) {
                continue;
            }
            let mut own = self.atoms.own_facts(id);
            if let Some(Atom::Head(block, register, _, 0)) = self.atoms.get(id).cloned()
                && let Some(induction) = self.atoms.inductions.get(&(block, register.clone())).cloned()
                && induction.exact
            {
                let value = induction.value(&mut self.atoms, block, &register).sub(&Poly::atom(id));
                own.extend([value.clone(), value.scale(-1)]);
            }
            if let Some(Atom::Case(block, register, _, 0)) = self.atoms.get(id)
                && let Some(alternatives) = self.atoms.cases.get(&(*block, register.clone()))
                && let [(a, with), (b, _)] = alternatives.as_slice()
                && let [Fact::NotNegative(difference)] = with.as_slice()
            {
                // A minimum or a maximum.
                let own_poly = Poly::atom(id);
                if *difference == b.sub(a) {
                    own.extend([a.sub(&own_poly), b.sub(&own_poly)]);
                } else if *difference == a.sub(b) {
                    own.extend([own_poly.sub(a), own_poly.sub(b)]);
                }
            }
            open.extend(own.iter().flat_map(|poly| poly.atoms()));
            found.extend(own);
        }
        let axes: Vec<Poly> = (0..3).map(|axis| self.extent(Atom::Ntid(axis))).collect();
        if axes.iter().filter(|axis| axis.constant().is_none()).count() > 1 {
            let count = axes[0].mul(&axes[1]).mul(&axes[2]);
            found.push(Poly::number(self.shape.threads).sub(&count));
        }
        if self.of_launch.is_none() {
            self.of_launch = Some(self.shape.facts(&mut self.atoms, &self.program.parameters));
        }
        found.extend(self.of_launch.iter().flatten().cloned());
        found
    }

    pub(super) fn proves(&mut self, poly: &Poly, more: &[Fact]) -> bool {
        if self.atoms.bounds(poly).0 >= 0 {
            return true;
        }
        let place = (self.here, self.facts[self.here].len());
        if self.known.as_ref().is_none_or(|(known, _)| *known != place) {
            let facts = self.facts[self.here].clone();
            self.known = Some((place, self.inequalities(&facts, &[])));
            self.failed.clear();
        }
        if !more.is_empty() {
            return self.proves_with(poly, more);
        }
        let failed = self.failed.contains(poly);
        let holds = !failed && self.proves_with(poly, more);
        if !holds && self.known.as_ref().is_some_and(|(known, _)| *known == place) {
            self.failed.insert(poly.clone());
        }
        holds
    }

    pub(super) fn proves_with(&mut self, poly: &Poly, more: &[Fact]) -> bool {
        let mut inequalities = self.inequalities(more, std::slice::from_ref(poly));
        inequalities.extend(self.known.iter().flat_map(|(_, known)| known.iter().cloned()));
        if Prover::new(&self.atoms, &inequalities).within(poly, 40) {
            return true;
        }
        // One case after the other.
        let case = poly.atoms().into_iter().find_map(|id| match self.atoms.get(id) {
            Some(Atom::Case(site, register, ..)) => {
                Some((id, self.atoms.cases.get(&(*site, register.clone()))?.clone()))
            }
            _ => None,
        });
        let Some((id, alternatives)) = case.filter(|(_, alternatives)| more.len() < 8 && alternatives.len() < 4) else {
            return false;
        };
        alternatives.into_iter().all(|(value, facts)| {
            let poly = self.atoms.replace(poly, &mut |_, atom| (atom == id).then(|| value.clone()));
            self.proves(&poly, &[more, &facts].concat())
        })
    }

    /// The value of an unsigned number of so many bits that is congruent to the polynomial.
    pub(super) fn exact(&mut self, poly: &Poly, bits: u32) -> Poly {
        self.exact_with(poly, bits, &[])
    }

    pub(super) fn exact_with(&mut self, poly: &Poly, bits: u32, more: &[Fact]) -> Poly {
        let end = Poly::number((1 << bits.min(64)) - 1);
        let fits = |trace: &mut Self| trace.proves(poly, more) && trace.proves(&end.sub(poly), more);
        let is_address = |trace: &Self| bits >= 32 && trace.base(poly).is_some();
        let assumed =
            |trace: &mut Self| bits == 32 && trace.shape.no_wrap && trace.is_index(poly) && trace.proves(poly, more);
        if is_address(self)
            || fits(self)
            || assumed(self)
            || bits == 64 && self.is_index(poly) && self.proves(poly, more)
        {
            if more.is_empty() && assumed(self) && !fits(self) {
                self.facts[self.here].push(Fact::NotNegative(end.sub(poly)));
                self.known = None;
            }
            return poly.clone();
        }
        // A complement: its residue is not negative.
        let above = poly.offset(1 << bits.min(64));
        if self.atoms.bounds(poly).1 < 0 && self.proves(&above, more) {
            return above;
        }
        self.atoms.poly(Atom::Function(format!("wrap{bits}").into(), vec![poly.clone()], bits))
    }

    /// Whether the sum is one of indices that cannot wrap in 64 bits, or the buffer would be larger than memory: of products of
    /// sizes and indices with small factors, without data of 64 bits.
    pub(super) fn is_index(&self, poly: &Poly) -> bool {
        poly.0.iter().all(|(monomial, value)| {
            value.abs() < 1 << 16
                && monomial.iter().all(|&atom| match self.atoms.get(atom) {
                    Some(Atom::Any(_, _, bits, _) | Atom::Function(_, _, bits)) => *bits <= 32,
                    Some(Atom::Case(site, register, bits, _)) => {
                        let alternatives = self.atoms.cases.get(&(*site, register.clone()));
                        *bits <= 32 || alternatives.is_some_and(|all| all.iter().all(|(value, _)| self.is_index(value)))
                    }
                    None => false,
                    Some(_) => true,
                })
        })
    }

    /// The value of a signed number of so many bits that is congruent to the polynomial, if nothing wraps.
    pub(super) fn signed(&mut self, poly: &Poly, bits: u32) -> Option<Poly> {
        let half = 1_i128 << (bits.clamp(1, 64) - 1);
        let (low, high) = (poly.offset(half), Poly::number(half - 1).sub(poly));
        (self.proves(&low, &[]) && self.proves(&high, &[])).then(|| poly.clone())
    }

    /// The buffer or the array whose address is a term of the polynomial.
    pub fn base(&self, poly: &Poly) -> Option<u32> {
        let mut bases = poly.0.iter().filter(|(monomial, _)| {
            monomial.iter().any(|&atom| matches!(self.atoms.get(atom), Some(Atom::Param(_, _, 0) | Atom::Shared(_))))
        });
        match (bases.next(), bases.next()) {
            (Some((monomial, 1)), None) if monomial.len() == 1 => Some(monomial[0]),
            _ => None,
        }
    }

    /// An extent of the launch, a number if the contract says it.
    pub(super) fn extent(&mut self, atom: Atom) -> Poly {
        match self.shape.fixed(&atom) {
            Some(value) => Poly::number(value),
            None => match atom {
                Atom::Ntid(axis) => self.atoms.ntid(axis),
                atom => self.atoms.poly(atom),
            },
        }
    }

    /// The number that the contract requires an extent to be.
    pub fn fixed(&self, atom: &Atom) -> Option<i128> {
        self.shape.fixed(atom)
    }

    /// The polynomial with the values of inductions that do not wrap.
    pub fn expanded(&mut self, poly: &Poly) -> Poly {
        let mut result = poly.clone();
        for _ in 0..6 {
            let next = self.atoms.replace(&result, &mut |atoms, id| match atoms.get(id).cloned() {
                Some(Atom::Head(block, register, _, 0)) => {
                    let known =
                        atoms.inductions.get(&(block, register.clone())).filter(|known| known.exact).cloned()?;
                    Some(known.value(atoms, block, &register))
                }
                _ => None,
            });
            if next == result {
                break;
            }
            result = next;
        }
        result
    }

    pub(super) fn any(&mut self, index: usize, result: usize, bits: u32) -> Poly {
        self.atoms.poly(Atom::Any(index, result, bits, 0))
    }

    /// The value of an operand.
    pub(super) fn operand(&mut self, text: &'a str, index: usize, environment: &HashMap<&'a str, Value>) -> Value {
        if let Some(register) = text.strip_prefix('%') {
            let axis = |name: &str| {
                ["x", "y", "z"].iter().position(|axis| *axis == name).and_then(|axis| u8::try_from(axis).ok())
            };
            if let Some((family, axis)) =
                register.split_once('.').and_then(|(family, name)| Some((family, axis(name)?)))
            {
                let atom = match family {
                    "tid" => Some(Atom::Tid(axis, 0)),
                    "ctaid" => Some(Atom::Ctaid(axis, 0)),
                    "ntid" => Some(Atom::Ntid(axis)),
                    "nctaid" => Some(Atom::Nctaid(axis)),
                    _ => None,
                };
                if let Some(atom) = atom {
                    return Value::Number(self.extent(atom));
                }
            }
            if register == "laneid" {
                let thread = self.linear();
                let warp = self.atoms.quotient(&thread, &Poly::number(32));
                return Value::Number(thread.plus(&warp, -32, &[]));
            }
            let found = match self.single.get(text) {
                Some(&place) => {
                    self.values.get(text).filter(|_| self.program.dominates(self.block_of[place], self.here))
                }
                None => environment.get(text),
            };
            return match found {
                Some(value) => value.clone(),
                None if self.program.bits_of(text) == 1 => Value::Predicate(Condition::default()),
                None => {
                    let bits = self.program.bits_of(text).max(1);
                    // An undefined value, of each register its own.
                    let place =
                        self.program.instructions[index].operands.iter().position(|operand| operand.contains(text));
                    Value::Number(self.any(index, 100 + place.unwrap_or(99), if bits == 1 { 64 } else { bits }))
                }
            };
        }
        if let Some(number) = number(text) {
            return Value::Number(Poly::number(number));
        }
        let is_name = text.starts_with(|c: char| c.is_ascii_alphabetic() || "$_".contains(c));
        Value::Number(match text.split_once('+').map_or(text, |(name, _)| name) {
            name if is_name => {
                let offset = text.split_once('+').and_then(|(_, offset)| self::number(offset)).unwrap_or(0);
                self.atoms.poly(Atom::Shared(name.into())).offset(offset)
            }
            _ => self.any(index, 200, 64),
        })
    }

    /// The thread's index in its block.
    pub fn linear(&mut self) -> Poly {
        let [x, y, z] = [0, 1, 2].map(|axis| self.extent(Atom::Tid(axis, 0)));
        let [wide, high] = [0, 1].map(|axis| self.extent(Atom::Ntid(axis)));
        z.mul(&high).add(&y).mul(&wide).add(&x)
    }

    pub(super) fn number_of(&mut self, text: &'a str, index: usize, environment: &HashMap<&'a str, Value>) -> Poly {
        match self.operand(text, index, environment) {
            Value::Number(poly) => poly,
            Value::Predicate(_) => self.any(index, 300, 64),
        }
    }

    pub(super) fn predicate_of(
        &mut self,
        text: &'a str,
        index: usize,
        environment: &HashMap<&'a str, Value>,
    ) -> Condition {
        let (name, negated) = text.strip_prefix('!').map_or((text, false), |name| (name, true));
        let condition = match (self.operand(name, index, environment), number(name)) {
            (_, Some(0)) => never(),
            (_, Some(_)) => always(),
            (Value::Predicate(condition), None) => condition,
            (Value::Number(_), None) => Condition::default(),
        };
        if negated { Condition { yes: condition.no, no: condition.yes } } else { condition }
    }

    pub(super) fn execute(
        &mut self,
        index: usize,
        environment: &mut HashMap<&'a str, Value>,
        reads_known: bool,
    ) -> Result<(), Reason> {
        let instruction = &self.program.instructions[index];
        if let Some(reason) = refused(instruction) {
            return Err(Reason::at(reason, instruction));
        }
        let before = self.facts[self.here].len();
        if let Some((register, negated)) = &instruction.guard {
            let name = self.single.keys().chain(environment.keys()).copied().find(|name| **name == **register);
            if let Some(name) = name {
                let condition = self.predicate_of(name, index, environment);
                self.facts[self.here].extend(if *negated { condition.no } else { condition.yes });
            }
        }
        let memory = self.memory(index, environment, reads_known)?;
        let values = match memory {
            Some(values) => values,
            None => self.computed(index, environment),
        };
        if instruction.guard.is_some() {
            self.facts[self.here].truncate(before);
            self.known = None;
        }
        for (place, register) in results(instruction).enumerate() {
            let bits = self.program.bits_of(register);
            let value = values
                .get(place)
                .cloned()
                .flatten()
                .filter(|value| matches!(value, Value::Predicate(_)) == (bits == 1));
            let value = match value {
                Some(value) if instruction.guard.is_none() => value,
                _ if bits == 1 => Value::Predicate(Condition::default()),
                _ => Value::Number(self.any(index, place, bits)),
            };
            match self.single.contains_key(register) {
                true => self.values.insert(register, value),
                false => environment.insert(register, value),
            };
        }
        Ok(())
    }
}

fn always() -> Condition {
    Condition { yes: Vec::new(), no: vec![Fact::NotNegative(Poly::number(-1))] }
}

fn never() -> Condition {
    inverse(always())
}

pub fn inverse(condition: Condition) -> Condition {
    Condition { yes: condition.no, no: condition.yes }
}

pub fn and(a: &Condition, b: &Condition) -> Condition {
    Condition { yes: [a.yes.as_slice(), b.yes.as_slice()].concat(), no: either(vec![a.no.clone(), b.no.clone()]) }
}

/// One of the lists holds. An empty list says nothing.
fn either(lists: Vec<Vec<Fact>>) -> Vec<Fact> {
    let impossible = |list: &Vec<Fact>| {
        list.iter()
            .any(|fact| matches!(fact, Fact::NotNegative(poly) if poly.constant().is_some_and(|value| value < 0)))
    };
    let lists: Vec<Vec<Fact>> = lists.into_iter().filter(|list| !impossible(list)).collect();
    match lists.as_slice() {
        [] => vec![Fact::NotNegative(Poly::number(-1))],
        [only] => only.clone(),
        _ if lists.iter().any(Vec::is_empty) || lists.len() > 8 => Vec::new(),
        _ => vec![Fact::Either(lists)],
    }
}
