//! Integer polynomials over the unknowns of a kernel, and proofs that they are not negative.

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

/// The number of an [`Atom`].
pub type Id = u32;

/// One of the two threads that are compared, 1 or 2; 0 before an expression is given to one of them.
pub type Tag = u8;

/// An unknown integer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Atom {
    /// The thread's index in its block, in dimension 0 to 2.
    Tid(u8, Tag),
    /// The block's index.
    Ctaid(u8, Tag),
    /// Threads of a block.
    Ntid(u8),
    /// Blocks of the grid.
    Nctaid(u8),
    /// A parameter: its index, the offset in bytes, and its bits. A buffer has 0 bits: the atom is its address.
    Param(usize, usize, u32),
    /// The address of a shared array.
    Shared(Rc<str>),
    /// Completed rounds of the loop that begins at a basic block; of a register that does not change in all of them, the changes.
    Round(usize, Option<Rc<str>>, Tag),
    /// What a register holds at the start of a loop's round: basic block, register, bits.
    Head(usize, Rc<str>, u32, Tag),
    /// One of several values: basic block or instruction, register, bits. The alternatives are in [`Atoms::cases`].
    Case(usize, Rc<str>, u32, Tag),
    /// Any value: instruction, number of the result, bits.
    Any(usize, usize, u32, Tag),
    /// ⌊p / q⌋ for q ≥ 1.
    Quotient(Poly, Poly),
    /// p − q·⌊p / q⌋ for q ≥ 1.
    Remainder(Poly, Poly),
    /// An unknown function with a result of so many bits. Equal arguments have equal results.
    Function(Rc<str>, Vec<Poly>, u32),
}

/// A product of atoms, ascending.
pub type Monomial = Vec<Id>;

/// A polynomial with integer coefficients: terms in the order of their monomials, no coefficient 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Poly(pub Vec<(Monomial, i128)>);

/// Coefficients beyond this are given up: the polynomial is then [`Poly::overflow`].
const LIMIT: i128 = 1 << 100;

impl Poly {
    /// A number.
    pub fn number(value: i128) -> Self {
        if value == 0 { Self::default() } else { Self(vec![(Vec::new(), value)]) }
    }

    /// An atom.
    pub fn atom(id: Id) -> Self {
        Self(vec![(vec![id], 1)])
    }

    /// The value of a polynomial without atoms.
    pub fn constant(&self) -> Option<i128> {
        match self.0.as_slice() {
            [] => Some(0),
            [(monomial, value)] if monomial.is_empty() => Some(*value),
            _ => None,
        }
    }

    /// The constant term.
    pub fn free(&self) -> i128 {
        self.0.first().filter(|(monomial, _)| monomial.is_empty()).map_or(0, |(_, value)| *value)
    }

    /// `self + factor · other · monomial`.
    pub fn plus(&self, other: &Self, factor: i128, monomial: &[Id]) -> Self {
        let mut terms: Vec<(Monomial, i128)> = self.0.clone();
        for (own, coefficient) in &other.0 {
            let mut product = [own.as_slice(), monomial].concat();
            product.sort_unstable();
            let Some(value) = coefficient.checked_mul(factor) else { return Self::overflow() };
            match terms.binary_search_by(|(known, _)| known.cmp(&product)) {
                Ok(at) => terms[at].1 = terms[at].1.saturating_add(value),
                Err(at) => terms.insert(at, (product, value)),
            }
        }
        terms.retain(|(_, value)| *value != 0);
        if terms.iter().any(|(_, value)| value.unsigned_abs() > LIMIT.unsigned_abs()) || terms.len() > 200 {
            Self::overflow()
        } else {
            Self(terms)
        }
    }

    /// A polynomial about which nothing is known: its term is atom `u32::MAX`.
    pub fn overflow() -> Self {
        Self::atom(Id::MAX)
    }

    /// `self + other`.
    pub fn add(&self, other: &Self) -> Self {
        self.plus(other, 1, &[])
    }

    /// `self − other`.
    pub fn sub(&self, other: &Self) -> Self {
        self.plus(other, -1, &[])
    }

    /// `factor · self`.
    pub fn scale(&self, factor: i128) -> Self {
        Self::default().plus(self, factor, &[])
    }

    /// `self · other`.
    pub fn mul(&self, other: &Self) -> Self {
        other.0.iter().fold(Self::default(), |sum, (monomial, value)| sum.plus(self, *value, monomial))
    }

    /// `self + value`.
    pub fn offset(&self, value: i128) -> Self {
        self.plus(&Self::number(value), 1, &[])
    }

    /// The atoms, not those within other atoms.
    pub fn atoms(&self) -> BTreeSet<Id> {
        self.0.iter().flat_map(|(monomial, _)| monomial.iter().copied()).collect()
    }

    /// The coefficient of a term.
    pub fn coefficient(&self, monomial: &[Id]) -> i128 {
        self.0.binary_search_by(|(known, _)| known.as_slice().cmp(monomial)).map_or(0, |at| self.0[at].1)
    }

    /// The greatest common divisor of all coefficients but the constant one; 0 of a number.
    pub fn divisor(&self) -> i128 {
        self.0.iter().filter(|(monomial, _)| !monomial.is_empty()).fold(0, |all, (_, value)| gcd(all, value.abs()))
    }
}

/// The greatest common divisor.
pub fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// `monomial` without the atoms of `part`, if it has all of them.
pub fn without(monomial: &[Id], part: &[Id]) -> Option<Monomial> {
    if part.len() > monomial.len() {
        return None;
    }
    let mut rest = monomial.to_vec();
    for atom in part {
        rest.remove(rest.iter().position(|known| known == atom)?);
    }
    Some(rest)
}

/// What is known of integers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Fact {
    /// The polynomial is at least 0.
    NotNegative(Poly),
    /// It is 0.
    Zero(Poly),
    /// It is not 0.
    NotZero(Poly),
    /// All facts of one of the lists hold.
    Either(Vec<Vec<Fact>>),
}

/// A value that a [`Atom::Case`] may have, and what then holds.
pub type Alternative = (Poly, Vec<Fact>);

/// A register of a loop that changes by the same `step` in every round.
#[derive(Clone, Debug, PartialEq)]
pub struct Induction {
    /// The value before the loop.
    pub first: Poly,
    /// The change in a round.
    pub step: Poly,
    /// Whether no round wraps: the value is `first + step · round`, else only modulo a power of two.
    pub exact: bool,
    /// Whether it changes in all rounds, and never goes back to `first`.
    pub steady: bool,
}

impl Induction {
    /// The value at the start of a round of the loop.
    pub fn value(&self, atoms: &mut Atoms, head: usize, register: &Rc<str>) -> Poly {
        let round = atoms.poly(Atom::Round(head, (!self.steady).then(|| register.clone()), 0));
        self.first.add(&self.step.mul(&round))
    }
}

/// All atoms of a kernel, and what is known of each.
#[derive(Default)]
pub struct Atoms {
    kinds: Vec<Atom>,
    /// The least and the greatest value of each.
    ranges: Vec<(i128, i128)>,
    /// How deep atoms are within it.
    depths: Vec<usize>,
    index: HashMap<Atom, Id>,
    /// The alternatives of the cases, by basic block or instruction and by register.
    pub cases: HashMap<(usize, Rc<str>), Vec<Alternative>>,
    /// The inductions, by the basic block where their loop begins and by register.
    pub inductions: HashMap<(usize, Rc<str>), Induction>,
    /// The threads of a block at most.
    threads: i128,
    /// The extents of a block and of the grid that are numbers.
    fixed: [[Option<i128>; 3]; 2],
    /// A number of which the threads of a block in x are a multiple.
    warp: i128,
    /// Steps of proofs that remain for the kernel: so its time is bounded.
    pub steps: Cell<usize>,
}

/// Functions of functions are followed so deep.
const DEPTH: usize = 40;

/// The largest offset in a buffer, and the largest number of rounds of a loop.
const LARGE: i128 = 1 << 63;

impl Atoms {
    /// No atoms yet. Blocks have so many threads at most, in x a multiple of `warp`; `fixed` are the extents of a block and of the grid
    /// that are numbers.
    pub fn new(threads: i128, warp: i128, fixed: [[Option<i128>; 3]; 2]) -> Self {
        Self { threads, warp, fixed, steps: Cell::new(60_000), ..Self::default() }
    }

    /// The threads of a block in a dimension.
    pub fn ntid(&mut self, axis: u8) -> Poly {
        let count = self.poly(Atom::Ntid(axis));
        if axis > 0 || self.warp == 1 {
            return count;
        }
        let warps = self.poly(Atom::Quotient(count, Poly::number(self.warp)));
        warps.scale(self.warp)
    }

    /// The threads of a block and the blocks of the grid at most, in a dimension.
    fn most(&self, of_grid: bool, axis: u8) -> i128 {
        let limits = if of_grid {
            [i128::from(i32::MAX), 65535, 65535]
        } else {
            [self.threads, self.threads, self.threads.min(64)]
        };
        let at = usize::from(axis.min(2));
        self.fixed[usize::from(of_grid)][at].unwrap_or(limits[at])
    }

    /// The number of an atom.
    pub fn id(&mut self, atom: Atom) -> Id {
        if let Some(&id) = self.index.get(&atom) {
            return id;
        }
        let parts = match &atom {
            Atom::Quotient(p, q) | Atom::Remainder(p, q) => [p, q].into_iter().flat_map(Poly::atoms).collect(),
            Atom::Function(_, arguments, _) => arguments.iter().flat_map(Poly::atoms).collect(),
            _ => BTreeSet::new(),
        };
        let depth =
            parts.iter().map(|&id| self.depths.get(id as usize).map_or(0, |depth| depth + 1)).max().unwrap_or(0);
        if depth > DEPTH {
            // Any value, unlike all others.
            let bits = if let Atom::Function(_, _, bits) = atom { bits } else { 64 };
            return self.id(Atom::Any(usize::MAX - self.kinds.len(), 0, bits, 0));
        }
        self.depths.push(depth);
        let id = Id::try_from(self.kinds.len()).unwrap_or(Id::MAX);
        let range = self.range_of(&atom);
        self.ranges.push(range);
        self.kinds.push(atom.clone());
        self.index.insert(atom, id);
        id
    }

    /// The atom as a polynomial.
    pub fn poly(&mut self, atom: Atom) -> Poly {
        Poly::atom(self.id(atom))
    }

    /// The atom of a number. `None` for that of [`Poly::overflow`].
    pub fn get(&self, id: Id) -> Option<&Atom> {
        self.kinds.get(id as usize)
    }

    /// Whether the quotient is that of [`ntid`](Self::ntid).
    fn is_warps(&self, p: &Poly, q: &Poly) -> bool {
        let of_threads = |id: Id| self.get(id) == Some(&Atom::Ntid(0));
        self.warp > 1
            && q.constant() == Some(self.warp)
            && matches!(p.0.as_slice(), [(only, 1)] if only.len() == 1 && of_threads(only[0]))
    }

    /// The least and the greatest value.
    pub fn range(&self, id: Id) -> (i128, i128) {
        self.ranges.get(id as usize).copied().unwrap_or((i128::MIN, i128::MAX))
    }

    fn range_of(&self, atom: &Atom) -> (i128, i128) {
        let bits = |bits: u32| (0, (1 << bits.min(64)) - 1);
        match atom {
            Atom::Tid(axis, _) => (0, self.most(false, *axis) - 1),
            Atom::Ntid(axis) => (1, self.most(false, *axis)),
            Atom::Ctaid(axis, _) => (0, self.most(true, *axis) - 1),
            Atom::Nctaid(axis) => (1, self.most(true, *axis)),
            Atom::Remainder(_, q) => (0, self.bounds(q).1.saturating_sub(1).max(0)),
            Atom::Param(_, _, 0) => (0, LARGE),
            // An index or a length: no buffer is larger.
            Atom::Param(_, _, 64) => (0, LARGE),
            Atom::Param(_, _, of) => bits(*of),
            Atom::Shared(_) => (0, 1 << 20),
            Atom::Round(..) => (0, LARGE),
            Atom::Head(_, _, of, _) | Atom::Case(_, _, of, _) | Atom::Any(_, _, of, _) | Atom::Function(_, _, of) => {
                bits(*of)
            }
            Atom::Quotient(p, q) if self.is_warps(p, q) => (1, self.most(false, 0) / self.warp),
            Atom::Quotient(p, q) => {
                let ((low, high), least) = (self.bounds(p), self.bounds(q).0.max(1));
                (if low >= 0 { 0 } else { low }, if high >= 0 { high / least } else { -1 })
            }
        }
    }

    /// The least and the greatest value of a polynomial by the ranges of its atoms alone.
    pub fn bounds(&self, poly: &Poly) -> (i128, i128) {
        let mut sum = (0_i128, 0_i128);
        for (monomial, value) in &poly.0 {
            let mut product = (*value, *value);
            for &atom in monomial {
                let (low, high) = self.range(atom);
                let ends = [product.0, product.1].map(|a| [a.saturating_mul(low), a.saturating_mul(high)]);
                let ends = ends.as_flattened();
                product =
                    (ends.iter().copied().fold(i128::MAX, i128::min), ends.iter().copied().fold(i128::MIN, i128::max));
            }
            sum = (sum.0.saturating_add(product.0), sum.1.saturating_add(product.1));
        }
        sum
    }

    /// The polynomial with every atom, also within others, replaced by what `with` returns for it.
    pub fn replace(&mut self, poly: &Poly, with: &mut dyn FnMut(&mut Self, Id) -> Option<Poly>) -> Poly {
        let mut result = Poly::default();
        let mut known: HashMap<Id, Poly> = HashMap::new();
        for (monomial, value) in &poly.0 {
            let mut product = Poly::number(*value);
            for &atom in monomial {
                let other = match known.get(&atom) {
                    Some(other) => other.clone(),
                    None => {
                        let other = self.replaced(atom, with);
                        known.insert(atom, other.clone());
                        other
                    }
                };
                product = product.mul(&other);
            }
            result = result.add(&product);
        }
        result
    }

    fn replaced(&mut self, id: Id, with: &mut dyn FnMut(&mut Self, Id) -> Option<Poly>) -> Poly {
        if let Some(other) = with(self, id) {
            return other;
        }
        match self.get(id).cloned() {
            Some(Atom::Quotient(p, q)) => {
                let (p, q) = (self.replace(&p, with), self.replace(&q, with));
                self.quotient(&p, &q)
            }
            Some(Atom::Remainder(p, of)) => {
                let (p, of) = (self.replace(&p, with), self.replace(&of, with));
                self.poly(Atom::Remainder(p, of))
            }
            Some(Atom::Function(name, arguments, bits)) => {
                let arguments = arguments.iter().map(|argument| self.replace(argument, with)).collect();
                self.poly(Atom::Function(name, arguments, bits))
            }
            _ => Poly::atom(id),
        }
    }

    /// ⌊p / q⌋ for q ≥ 1.
    pub fn quotient(&mut self, p: &Poly, q: &Poly) -> Poly {
        let Some(divisor) = q.constant().filter(|divisor| *divisor >= 1) else {
            return self.poly(Atom::Quotient(p.clone(), q.clone()));
        };
        // Multiples of the divisor leave the quotient.
        let (mut whole, mut rest) = (Poly::default(), Poly::default());
        for (monomial, value) in &p.0 {
            let part = value.div_euclid(divisor);
            let (whole_part, rest_part) =
                if monomial.is_empty() || value % divisor == 0 { (part, value - part * divisor) } else { (0, *value) };
            whole = whole.plus(&Poly(vec![(monomial.clone(), 1)]), whole_part, &[]);
            rest = rest.plus(&Poly(vec![(monomial.clone(), 1)]), rest_part, &[]);
        }
        let (low, high) = self.bounds(&rest);
        if low >= 0 && high < divisor {
            return whole;
        }
        // ⌊⌊p / a⌋ / b⌋ = ⌊p / ab⌋, and ⌊gp / gd⌋ = ⌊p / d⌋.
        if let [(monomial, 1)] = rest.0.as_slice()
            && let [single] = monomial.as_slice()
            && let Some(Atom::Quotient(inner, by)) = self.get(*single).cloned()
            && let Some(by) = by.constant()
        {
            let inner = self.quotient(&inner, &Poly::number(by.saturating_mul(divisor)));
            return whole.add(&inner);
        }
        // ⌊(gh + l) / gd⌋ = ⌊h / d⌋ for 0 ≤ l < g.
        let mut units: Vec<i128> =
            rest.0.iter().map(|(_, value)| gcd(value.abs(), divisor)).filter(|unit| *unit > 1).collect();
        units.sort_unstable();
        units.dedup();
        for unit in units {
            let (high, low): (Vec<_>, Vec<_>) =
                rest.0.iter().cloned().partition(|(monomial, value)| !monomial.is_empty() && value % unit == 0);
            let (low, bounds) = (Poly(low), high.len());
            let within = self.bounds(&low);
            if bounds > 0 && !low.0.is_empty() && within.0 >= 0 && within.1 < unit {
                let high = Poly(high.into_iter().map(|(monomial, value)| (monomial, value / unit)).collect());
                let inner = self.quotient(&high, &Poly::number(divisor / unit));
                return whole.add(&inner);
            }
        }
        let common = gcd(rest.divisor(), divisor);
        let reduced =
            Poly(rest.0.iter().map(|(m, v)| (m.clone(), v.div_euclid(common))).filter(|(_, v)| *v != 0).collect());
        let atom = match divisor / common {
            1 => reduced,
            divisor => self.poly(Atom::Quotient(reduced, Poly::number(divisor))),
        };
        whole.add(&atom)
    }

    /// The polynomial, for people.
    pub fn text(&self, poly: &Poly) -> String {
        let axis = |axis: u8| ["x", "y", "z"].get(usize::from(axis)).copied().unwrap_or("?");
        let prime = |tag: Tag| if tag == 2 { "′" } else { "" };
        let atom = |id: Id| match self.get(id) {
            None => "?".to_owned(),
            Some(Atom::Tid(of, tag)) => format!("tid.{}{}", axis(*of), prime(*tag)),
            Some(Atom::Ctaid(of, tag)) => format!("ctaid.{}{}", axis(*of), prime(*tag)),
            Some(Atom::Ntid(of)) => format!("ntid.{}", axis(*of)),
            Some(Atom::Nctaid(of)) => format!("nctaid.{}", axis(*of)),
            Some(Atom::Param(at, _, _)) => format!("p{at}"),
            Some(Atom::Shared(name)) => name.to_string(),
            Some(Atom::Round(at, name, tag)) => format!("round{at}{}{}", name.as_deref().unwrap_or(""), prime(*tag)),
            Some(Atom::Head(at, name, _, tag)) => format!("{name}@{at}{}", prime(*tag)),
            Some(Atom::Case(_, name, _, tag)) => format!("{name}?{}", prime(*tag)),
            Some(Atom::Any(at, _, _, tag)) => format!("data{at}{}", prime(*tag)),
            Some(Atom::Remainder(p, of)) => format!("(({}) mod ({}))", self.text(p), self.text(of)),
            Some(Atom::Quotient(p, q)) => format!("⌊({})/({})⌋", self.text(p), self.text(q)),
            Some(Atom::Function(name, arguments, _)) => {
                let arguments: Vec<_> = arguments.iter().map(|argument| self.text(argument)).collect();
                format!("{name}({})", arguments.join(", "))
            }
        };
        let term = |(monomial, value): &(Monomial, i128)| {
            let atoms: Vec<_> = monomial.iter().map(|&id| atom(id)).collect();
            match (value, atoms.as_slice()) {
                (_, []) => value.to_string(),
                (1, _) => atoms.join("·"),
                _ => format!("{value}·{}", atoms.join("·")),
            }
        };
        let terms: Vec<_> = poly.0.iter().map(term).collect();
        if terms.is_empty() { "0".to_owned() } else { terms.join(" + ") }
    }

    /// The inequalities that hold for an atom by itself: polynomials that are at least 0.
    pub fn own_facts(&mut self, id: Id) -> Vec<Poly> {
        let own = Poly::atom(id);
        match self.get(id).cloned() {
            Some(Atom::Tid(axis, _)) if self.fixed[0][usize::from(axis.min(2))].is_none() => {
                let count = self.ntid(axis);
                vec![count.sub(&own).offset(-1)]
            }
            Some(Atom::Ctaid(axis, _)) if self.fixed[1][usize::from(axis.min(2))].is_none() => {
                let count = self.poly(Atom::Nctaid(axis));
                vec![count.sub(&own).offset(-1)]
            }
            Some(Atom::Ntid(_) | Atom::Nctaid(_)) => vec![own.offset(-1)],
            Some(Atom::Quotient(p, q)) if self.is_warps(&p, &q) => vec![own.offset(-1)],
            Some(Atom::Quotient(p, q)) => {
                let rest = p.sub(&own.mul(&q));
                vec![q.sub(&rest).offset(-1), rest]
            }
            _ => Vec::new(),
        }
    }
}

/// A fact and one of its terms.
type Place<'a> = (&'a Poly, &'a (Monomial, i128));

/// Steps of a proof before it is given up.
const STEPS: usize = 60;

/// A proof by elimination: negative terms are removed by adding multiples of known inequalities.
pub struct Prover<'a> {
    atoms: &'a Atoms,
    /// The terms of facts, by their first atom and by whether they are negative.
    index: HashMap<(Id, bool), Vec<Place<'a>>>,
    /// Steps that remain before the proof is given up.
    steps: Cell<usize>,
}

impl<'a> Prover<'a> {
    /// With these inequalities: each of the `facts` is at least 0.
    pub fn new(atoms: &'a Atoms, facts: &'a [Poly]) -> Self {
        let mut index: HashMap<_, Vec<Place<'a>>> = HashMap::new();
        for fact in facts {
            for term in &fact.0 {
                if let Some(first) = term.0.first() {
                    index.entry((*first, term.1 < 0)).or_default().push((fact, term));
                }
            }
        }
        // Short facts first.
        index.values_mut().for_each(|terms| terms.sort_by_key(|(fact, _)| fact.0.len()));
        Self { atoms, index, steps: Cell::new(STEPS) }
    }

    /// Whether `poly` ≥ 0 is proven.
    pub fn holds(&self, poly: &Poly) -> bool {
        self.within(poly, STEPS)
    }

    /// As [`holds`](Self::holds), in so many steps.
    pub fn within(&self, poly: &Poly, steps: usize) -> bool {
        // Short proofs first.
        [1, 3, 7].into_iter().any(|depth| {
            self.steps.set(steps);
            self.eliminate(poly, depth)
        })
    }

    fn eliminate(&self, poly: &Poly, depth: usize) -> bool {
        if self.atoms.bounds(poly).0 >= 0 {
            return true;
        }
        let left = self.atoms.steps.get();
        if depth == 0 || self.steps.get() == 0 || left == 0 {
            return false;
        }
        self.steps.set(self.steps.get() - 1);
        self.atoms.steps.set(left - 1);
        // The negative term that is worst by ranges alone; else a positive one, which may be larger than its range says.
        let worst = poly
            .0
            .iter()
            .filter(|(monomial, value)| *value < 0 && !monomial.is_empty())
            .min_by_key(|(monomial, value)| self.atoms.bounds(&Poly(vec![(monomial.clone(), *value)])).0);
        let candidates: Vec<&(Monomial, i128)> = match worst {
            // Of a term whose range is small, nothing else may be known.
            Some(term) => {
                let rest = poly.0.iter().filter(|(monomial, value)| *value > 0 && !monomial.is_empty());
                std::iter::once(term).chain(rest).collect()
            }
            None => poly.0.iter().filter(|(monomial, _)| !monomial.is_empty()).collect(),
        };
        for (monomial, value) in candidates {
            for (at, atom) in monomial.iter().enumerate() {
                if at > 0 && monomial[at - 1] == *atom {
                    continue;
                }
                for (fact, (part, with)) in self.index.get(&(*atom, *value < 0)).into_iter().flatten() {
                    let Some(times) = without(monomial, part) else { continue };
                    if times.iter().any(|&atom| self.atoms.range(atom).0 < 0) {
                        continue;
                    }
                    let common = gcd(with.abs(), value.abs());
                    let scale = with.abs() / common;
                    // An integer p is at least 0 if scale · p > −scale.
                    let rest = poly.scale(scale).offset(scale - 1).plus(fact, -(value.abs() / common), &times);
                    if self.eliminate(&rest, depth - 1) {
                        return true;
                    }
                    if self.steps.get() == 0 {
                        return false;
                    }
                }
            }
        }
        false
    }
}
