//! Shows that two accesses of different threads never touch the same byte.
//!
//! The proof assumes that they do and derives a contradiction. Overlap is an equation between two addresses. Where
//! M·h + l = 0 and |l| < M, both h and l are 0: an address in mixed radix has one list of digits. Equations between digits and the conditions
//! of both accesses then say that the threads are the same, or that a condition does not hold.

use std::collections::BTreeSet;

use crate::poly::{Atom, Atoms, Fact, Id, Poly, Prover, Tag, gcd, without};
use crate::trace::{Access, Trace};

/// Which threads are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Threads of different blocks.
    Blocks,
    /// Different threads of a block.
    Block,
    /// Threads of different warps of a block.
    Warps,
    /// Any two threads, or one: what the lanes of a warp read together has no thread of its own.
    All,
}

/// What is assumed.
#[derive(Clone, Default)]
struct State {
    /// Polynomials that are 0.
    zero: Vec<Poly>,
    /// Polynomials that are at least 0.
    facts: Vec<Poly>,
    not_zero: Vec<Poly>,
    /// Of each, one list of facts of one thread holds.
    either: Vec<(Vec<Vec<Fact>>, Tag)>,
    /// If all are 0, the threads are the same.
    apart: Vec<Poly>,
    /// The quotients that have been replaced in an equation with an atom of what they divide.
    expanded: BTreeSet<(Id, Id)>,
}

/// A proof about one pair of accesses.
pub struct Solver<'t, 'p, 'a> {
    trace: &'t mut Trace<'p, 'a>,
    same_block: bool,
    /// Cases that remain before the proof is given up.
    cases: usize,
}

impl<'t, 'p, 'a> Solver<'t, 'p, 'a> {
    /// Whether the accesses never overlap.
    pub fn disjoint(trace: &'t mut Trace<'p, 'a>, a: &Access, b: &Access, scope: Scope) -> bool {
        let mut solver = Self { trace, same_block: scope != Scope::Blocks, cases: 40 };
        let mut state = State::default();
        let first = solver.assume(a, 1, &mut state);
        let second = solver.assume(b, 2, &mut state);
        let axes: &[fn(u8, Tag) -> Atom] = match scope {
            Scope::Blocks => &[Atom::Ctaid],
            Scope::Block => &[Atom::Tid],
            Scope::Warps | Scope::All => &[],
        };
        for axis in 0..3 {
            for atom in axes {
                let [one, two] = [1, 2].map(|tag| match solver.trace.fixed(&atom(axis, 0)) {
                    Some(value) => Poly::number(value),
                    None => solver.trace.atoms.poly(atom(axis, tag)),
                });
                let facts = solver.trace.inequalities(&[], &[one.clone(), two.clone()]);
                state.facts.extend(facts);
                state.apart.push(one.sub(&two));
            }
        }
        if scope == Scope::Warps {
            let thread = solver.trace.linear();
            let warp = solver.trace.atoms.quotient(&thread, &Poly::number(32));
            let facts = solver.trace.inequalities(&[], std::slice::from_ref(&warp));
            for tag in [1, 2] {
                let facts: Vec<_> = facts.iter().map(|fact| solver.renamed(fact, tag)).collect();
                state.facts.extend(facts);
            }
            let (one, two) = (solver.renamed(&warp, 1), solver.renamed(&warp, 2));
            state.apart.push(one.sub(&two));
        }
        // −width of the first < difference < width of the second.
        let difference = first.sub(&second);
        let unit = difference.divisor();
        let start = difference.free();
        if unit == 0 {
            if start <= -a.width || start >= b.width {
                return true;
            }
            return solver.contradicts(state, 8);
        }
        let whole = difference.offset(-start);
        let whole = Poly(whole.0.iter().map(|(monomial, value)| (monomial.clone(), value / unit)).collect());
        let (low, high) = ((-a.width - start).div_euclid(unit) + 1, (b.width - start - 1).div_euclid(unit));
        if high - low > 32 {
            return false;
        }
        (low..=high).all(|value| {
            let mut state = state.clone();
            state.zero.push(whole.offset(-value));
            solver.contradicts(state, 8)
        })
    }

    /// Adds what holds when an access of thread `tag` happens. Returns its offset.
    fn assume(&mut self, access: &Access, tag: Tag, state: &mut State) -> Poly {
        let offset = self.trace.expanded(&access.offset);
        self.add(&access.facts, std::slice::from_ref(&offset), tag, state);
        self.renamed(&offset, tag)
    }

    fn add(&mut self, facts: &[Fact], polys: &[Poly], tag: Tag, state: &mut State) {
        let closed = self.trace.inequalities(facts, polys);
        for poly in &closed {
            let poly = self.trace.expanded(poly);
            let poly = self.renamed(&poly, tag);
            if (self.trace.atoms.bounds(&poly).0 < 0 || poly.0.len() == 2) && !state.facts.contains(&poly) {
                state.facts.push(poly);
            }
        }
        for fact in facts {
            match fact {
                Fact::NotNegative(_) => {}
                Fact::Zero(poly) => {
                    let poly = self.trace.expanded(poly);
                    state.zero.push(self.renamed(&poly, tag));
                }
                Fact::NotZero(poly) => {
                    let poly = self.trace.expanded(poly);
                    state.not_zero.push(self.renamed(&poly, tag));
                }
                Fact::Either(lists) => state.either.push((lists.clone(), tag)),
            }
        }
    }

    /// The polynomial of thread `tag`.
    fn renamed(&mut self, poly: &Poly, tag: Tag) -> Poly {
        let block = if self.same_block { 1 } else { tag };
        self.trace.atoms.replace(poly, &mut |atoms: &mut Atoms, id| {
            if is_common(atoms, id, 0) {
                return None;
            }
            let renamed = match atoms.get(id)?.clone() {
                Atom::Tid(axis, 0) => Atom::Tid(axis, tag),
                Atom::Ctaid(axis, 0) => Atom::Ctaid(axis, block),
                Atom::Round(at, name, 0) => Atom::Round(at, name, tag),
                Atom::Head(at, register, bits, 0) => Atom::Head(at, register, bits, tag),
                Atom::Case(at, register, bits, 0) => Atom::Case(at, register, bits, tag),
                Atom::Any(at, result, bits, 0) => Atom::Any(at, result, bits, tag),
                _ => return None,
            };
            Some(atoms.poly(renamed))
        })
    }

    /// Whether the assumptions cannot all hold.
    fn contradicts(&mut self, mut state: State, depth: usize) -> bool {
        if self.cases == 0 {
            return false;
        }
        self.cases -= 1;
        for _ in 0..60 {
            if self.trivial(&mut state) {
                return true;
            }
            if !self.split_digits(&mut state)
                && !combine(&self.trace.atoms, &mut state)
                && !self.expand_remainder(&mut state)
            {
                let of_case = |id: &Id| matches!(self.trace.atoms.get(*id), Some(Atom::Case(..)));
                if depth > 0 && state.zero.iter().any(|poly| poly.atoms().iter().any(of_case)) {
                    return self.split_cases(&state, depth);
                }
                if !self.substitute(&mut state) {
                    break;
                }
            }
        }
        if self.trivial(&mut state) {
            return true;
        }
        let prover = Prover::new(&self.trace.atoms, &state.facts);
        for poly in &state.zero {
            if prover.holds(&poly.offset(-1)) || prover.holds(&poly.scale(-1).offset(-1)) {
                return true;
            }
        }
        if state.facts.iter().any(|fact| prover.within(&fact.scale(-1).offset(-1), 12)) {
            return true;
        }
        depth > 0 && self.split_cases(&state, depth)
    }

    /// Removes what says nothing. Whether a contradiction is plain.
    fn trivial(&mut self, state: &mut State) -> bool {
        for poly in &state.zero {
            match poly.constant() {
                Some(0) => {}
                Some(_) => return true,
                None => {
                    let unit = poly.divisor();
                    if unit > 1 && poly.free() % unit != 0 {
                        return true;
                    }
                }
            }
        }
        state.zero.retain(|poly| poly.constant().is_none());
        let negative = |poly: &Poly| poly.constant().is_some_and(|value| value < 0);
        if state.facts.iter().any(negative) || state.not_zero.iter().any(|poly| poly.constant() == Some(0)) {
            return true;
        }
        !state.apart.is_empty() && state.apart.iter().all(|poly| poly.constant() == Some(0))
    }

    /// Divides an equation M·h + l = 0 with |l| < M into h = 0 and l = 0.
    fn split_digits(&mut self, state: &mut State) -> bool {
        let atoms = &self.trace.atoms;
        let prover = Prover::new(atoms, &state.facts);
        for at in 0..state.zero.len() {
            let poly = state.zero[at].clone();
            for (factor, monomial) in radices(&poly) {
                let radix = Poly(vec![(monomial.clone(), factor)]);
                let (mut high, mut low) = (Poly::default(), Poly::default());
                for (own, value) in &poly.0 {
                    match without(own, &monomial).filter(|_| value % factor == 0 && !own.is_empty()) {
                        Some(rest) => high = high.plus(&Poly(vec![(rest, 1)]), value / factor, &[]),
                        None => low = low.plus(&Poly(vec![(own.clone(), 1)]), *value, &[]),
                    }
                }
                if high.0.is_empty() || (factor == 1 && monomial.is_empty()) {
                    continue;
                }
                // A constant may belong to either part.
                let constant = low.free();
                let ways = if monomial.is_empty() && constant != 0 {
                    let [near, far] = [constant.rem_euclid(factor), constant.rem_euclid(factor) - factor];
                    vec![constant, near, far]
                } else {
                    vec![constant]
                };
                for kept in ways {
                    let high = high.offset(if monomial.is_empty() { (constant - kept) / factor } else { 0 });
                    let low = low.offset(kept - constant);
                    let positive = monomial.is_empty() || prover.holds(&radix.offset(-1));
                    if positive
                        && prover.holds(&radix.sub(&low).offset(-1))
                        && prover.holds(&radix.add(&low).offset(-1))
                    {
                        state.zero.swap_remove(at);
                        state.zero.push(high);
                        if !low.0.is_empty() {
                            state.zero.push(low);
                        }
                        return true;
                    }
                }
            }
        }
        false
    }

    /// Replaces an atom that an equation determines.
    fn substitute(&mut self, state: &mut State) -> bool {
        let mut best: Option<(usize, Id, i128)> = None;
        for (at, poly) in state.zero.iter().enumerate() {
            for (monomial, value) in &poly.0 {
                let [id] = monomial.as_slice() else { continue };
                let own = match self.trace.atoms.get(*id) {
                    Some(Atom::Ntid(_) | Atom::Nctaid(_) | Atom::Param(..) | Atom::Shared(_)) | None => continue,
                    Some(_) => *id,
                };
                let elsewhere = poly.0.iter().any(|(other, _)| other != monomial && other.contains(&own));
                if value.abs() == 1
                    && !elsewhere
                    && best.is_none_or(|(known, ..)| poly.0.len() < state.zero[known].0.len())
                {
                    best = Some((at, own, *value));
                }
            }
        }
        let Some((at, id, value)) = best else { return false };
        let poly = state.zero.swap_remove(at);
        // value · id + rest = 0.
        let other = poly.sub(&Poly::atom(id).scale(value)).scale(-value);
        self.replace_atom(state, id, &other);
        true
    }

    /// Replaces an atom by n·⌊p/n⌋ and a remainder, where both stand in an equation: so the digits of a lane and of a warp.
    fn expand_remainder(&mut self, state: &mut State) -> bool {
        let mut changed = false;
        while self.expand_one(state) {
            changed = true;
        }
        changed
    }

    fn expand_one(&mut self, state: &mut State) -> bool {
        for at in 0..state.zero.len() {
            let poly = state.zero[at].clone();
            let quotients: Vec<(Id, Poly, Poly)> = poly
                .atoms()
                .into_iter()
                .filter_map(|id| match self.trace.atoms.get(id) {
                    Some(Atom::Quotient(p, q)) => Some((id, p.clone(), q.clone())),
                    _ => None,
                })
                .collect();
            // ⌊p/q⌋ beside a term of p, and ⌊p/ab⌋ beside ⌊p/a⌋, which is ⌊⌊p/a⌋/b⌋. Small divisors first.
            let mut ways: Vec<(i128, Id, Poly, Poly, Id)> = Vec::new();
            for (id, p, q) in &quotients {
                let own =
                    p.0.iter().find(|(own, value)| own.len() == 1 && value.abs() == 1 && poly.coefficient(own) != 0);
                let most = q.constant().unwrap_or(i128::MAX);
                ways.extend(own.map(|(own, _)| (most, *id, p.clone(), q.clone(), own[0])));
                for (other, inner, by) in &quotients {
                    let ratio = q.constant().zip(by.constant()).filter(|(q, by)| inner == p && q > by && q % by == 0);
                    ways.extend(ratio.map(|(q, by)| (q, *id, Poly::atom(*other), Poly::number(q / by), *other)));
                }
            }
            ways.sort_by_key(|(most, ..)| *most);
            for (_, whole, p, q, own) in ways {
                let rest = self.trace.atoms.id(Atom::Remainder(p.clone(), q.clone()));
                // Once each; and a condition on the remainder alone is clear as it is.
                let alone = poly.0.iter().all(|(monomial, _)| {
                    p.coefficient(monomial) != 0 || monomial.contains(&whole) || monomial.is_empty()
                });
                if alone || !state.expanded.insert((whole, own)) {
                    continue;
                }
                // p − q·whole − rest = 0, of which a multiple is subtracted.
                let equation = p.sub(&q.mul(&Poly::atom(whole))).sub(&Poly::atom(rest));
                let factor = poly.coefficient(&[own]) / equation.coefficient(&[own]);
                state.zero[at] = poly.plus(&equation, -factor, &[]);
                state.facts.push(q.sub(&Poly::atom(rest)).offset(-1));
                state.zero.push(equation);
                return true;
            }
        }
        false
    }

    /// Replaces an atom everywhere. Its range remains known.
    fn replace_atom(&mut self, state: &mut State, id: Id, other: &Poly) {
        let (low, high) = self.trace.atoms.range(id);
        state.facts.push(other.offset(-low));
        state.facts.push(Poly::number(high).sub(other));
        let atoms = &mut self.trace.atoms;
        let lists = [&mut state.zero, &mut state.facts, &mut state.not_zero, &mut state.apart];
        for poly in lists.into_iter().flatten() {
            *poly = atoms.replace(poly, &mut |_, atom| (atom == id).then(|| other.clone()));
        }
        let mut seen = BTreeSet::new();
        state.facts.retain(|poly| {
            let says = atoms.bounds(poly).0 < 0 || poly.0.len() == 2;
            (poly.constant().is_some_and(|value| value < 0) || says) && seen.insert(poly.clone())
        });
    }

    /// Whether the assumptions contradict each other in all cases of a value.
    fn split_cases(&mut self, state: &State, depth: usize) -> bool {
        let mut atoms: Vec<Id> = state.zero.iter().flat_map(Poly::atoms).collect();
        atoms.extend(state.facts.iter().flat_map(Poly::atoms));
        let mut seen = BTreeSet::new();
        for id in atoms.into_iter().filter(|id| seen.insert(*id)).collect::<Vec<_>>() {
            let Some(Atom::Case(site, register, _, tag)) = self.trace.atoms.get(id).cloned() else { continue };
            let Some(alternatives) = self.trace.atoms.cases.get(&(site, register)).cloned() else { continue };
            return alternatives.into_iter().all(|(value, facts)| {
                let mut state = state.clone();
                let value = self.trace.expanded(&value);
                self.add(&facts, std::slice::from_ref(&value), tag, &mut state);
                let value = self.renamed(&value, tag);
                self.replace_atom(&mut state, id, &value);
                self.contradicts(state, depth - 1)
            });
        }
        let mut rest = state.clone();
        if let Some((lists, tag)) = rest.either.pop() {
            return lists.into_iter().all(|facts| {
                let mut state = rest.clone();
                self.add(&facts, &[], tag, &mut state);
                self.contradicts(state, depth - 1)
            });
        }
        // Different numbers: one is less. Only those whose atoms an equation or the threads share are worth it.
        if let Some(poly) = rest.not_zero.pop() {
            return [poly.offset(-1), poly.scale(-1).offset(-1)].into_iter().all(|fact| {
                let mut state = rest.clone();
                state.facts.push(fact);
                self.contradicts(state, depth - 1)
            });
        }
        false
    }
}

/// Whether all threads of a grid have the same value of an atom: it is a size, or sizes decide among its alternatives.
fn is_common(atoms: &Atoms, id: Id, depth: usize) -> bool {
    let all = |poly: &Poly| poly.atoms().into_iter().all(|id| is_common(atoms, id, depth + 1));
    match atoms.get(id) {
        _ if depth > 6 => false,
        Some(Atom::Ntid(_) | Atom::Nctaid(_) | Atom::Param(..) | Atom::Shared(_)) => true,
        Some(Atom::Quotient(p, q) | Atom::Remainder(p, q)) => all(p) && all(q),
        Some(Atom::Function(_, arguments, _)) => arguments.iter().all(all),
        Some(Atom::Case(site, register, ..)) => match atoms.cases.get(&(*site, register.clone())).map(Vec::as_slice) {
            Some([(a, one), (b, other)]) => {
                // One condition and its opposite, of which either decides.
                let opposite = match (one.as_slice(), other.as_slice()) {
                    ([Fact::Zero(p)], [Fact::NotZero(q)]) | ([Fact::NotZero(p)], [Fact::Zero(q)]) => p == q && all(p),
                    ([Fact::NotNegative(p)], [Fact::NotNegative(q)]) => {
                        (*q == p.scale(-1).offset(-1)
                            || *q == p.scale(-1) && a.sub(b).scale(-1) == *p
                            || *q == p.scale(-1) && a.sub(b) == *p)
                            && all(p)
                    }
                    ([Fact::Zero(p)], [Fact::NotNegative(q)]) | ([Fact::NotNegative(q)], [Fact::Zero(p)]) => {
                        (*q == p.offset(-1) || *q == p.scale(-1).offset(-1)) && all(p)
                    }
                    _ => false,
                };
                opposite && all(a) && all(b)
            }
            _ => false,
        },
        _ => false,
    }
}

/// Subtracts an equation from another one, so that a quotient stands in one of them only.
fn combine(atoms: &Atoms, state: &mut State) -> bool {
    for pivot in 0..state.zero.len() {
        let of_quotient = |id: &Id| matches!(atoms.get(*id), Some(Atom::Quotient(..)));
        let term = state.zero[pivot].0.iter().find(|(monomial, _)| monomial.iter().any(of_quotient)).cloned();
        let Some((monomial, value)) = term else { continue };
        let other = (0..state.zero.len()).find(|&at| {
            let coefficient = state.zero[at].coefficient(&monomial);
            at != pivot
                && coefficient != 0
                && coefficient % value == 0
                && (at > pivot || coefficient.abs() > value.abs())
        });
        if let Some(at) = other {
            let factor = -state.zero[at].coefficient(&monomial) / value;
            state.zero[at] = state.zero[at].plus(&state.zero[pivot], factor, &[]);
            return true;
        }
    }
    false
}

/// Products by which an equation may be divided into digits: a number times atoms.
fn radices(poly: &Poly) -> Vec<(i128, Vec<Id>)> {
    let mut found: Vec<(i128, Vec<Id>)> = Vec::new();
    let terms: Vec<_> = poly.0.iter().filter(|(monomial, _)| !monomial.is_empty()).collect();
    let mut add = |selected: &[&(Vec<Id>, i128)]| {
        let Some((first, rest)) = selected.split_first() else { return };
        let mut common = first.0.clone();
        let mut factor = first.1.abs();
        for (monomial, value) in rest {
            let mut left = monomial.clone();
            common.retain(|atom| left.iter().position(|known| known == atom).map(|at| left.remove(at)).is_some());
            factor = gcd(factor, value.abs());
        }
        for radix in [(factor, common.clone()), (factor, Vec::new()), (1, common)] {
            if !found.contains(&radix) {
                found.push(radix);
            }
        }
    };
    add(&terms);
    for atom in poly.atoms() {
        let with: Vec<_> = terms.iter().copied().filter(|(monomial, _)| monomial.contains(&atom)).collect();
        add(&with);
    }
    for (_, least) in &terms {
        let large: Vec<_> = terms.iter().copied().filter(|(_, value)| value.abs() >= least.abs()).collect();
        add(&large);
    }
    // Products of all atoms of a term but one.
    for (monomial, _) in &terms {
        for at in (0..monomial.len()).filter(|_| monomial.len() > 1) {
            let mut part = monomial.clone();
            part.remove(at);
            let with = terms.iter().filter(|(other, _)| without(other, &part).is_some());
            let factor = with.fold(0, |all, (_, value)| gcd(all, value.abs()));
            if !found.contains(&(factor, part.clone())) {
                found.push((factor, part));
            }
        }
    }
    found
}
