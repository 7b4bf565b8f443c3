//! What the launcher of a kernel checks.

use std::collections::BTreeMap;

use crate::poly::{Atom, Atoms, Poly};
use crate::program::Program;
use warpkov_build::ptx::Entry;

/// What the launcher of a kernel checks, as far as the proof uses it.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Threads of a block at most.
    pub threads: i128,
    /// Extents of the launch and parameters that are numbers.
    pub numbers: BTreeMap<Extent, i128>,
    /// Extents and parameters that are multiples of a number.
    pub multiples: BTreeMap<Extent, i128>,
    /// Sums of products that are at least 0.
    pub inequalities: Vec<Inequality>,
    /// The parameters that are buffers.
    pub buffers: Vec<usize>,
    /// Whether sums and products of indices of 32 bits are assumed not to wrap.
    pub no_wrap: bool,
    /// Whether these are all requirements of the launcher, but for those of lengths.
    pub complete: bool,
}

/// Terms of a sum: a product of extents, and its factor.
pub type Inequality = Vec<(Vec<Extent>, i128)>;

/// An extent of a launch, in x, y or z, or a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// Threads of a block in dimension 0 to 2.
    Block(u8),
    /// Blocks of the grid.
    Grid(u8),
    /// A parameter, by its index.
    Parameter(usize),
}

impl Shape {
    /// Any shape.
    pub fn any(entry: &Entry<'_>) -> Self {
        Self {
            threads: 1024,
            numbers: BTreeMap::new(),
            multiples: BTreeMap::new(),
            inequalities: Vec::new(),
            buffers: entry.buffers.clone(),
            no_wrap: false,
            complete: true,
        }
    }

    /// A shape of so many dimensions at most.
    #[must_use]
    pub fn dimensions(mut self, count: u8) -> Self {
        for axis in count..3 {
            self.numbers.extend([(Extent::Block(axis), 1), (Extent::Grid(axis), 1)]);
        }
        self
    }

    /// The shape with an extent of 1 in y and z where the kernel does not read the index.
    pub fn unread(mut self, program: &Program<'_>) -> Self {
        let operands = || program.instructions.iter().flat_map(|instruction| &instruction.operands);
        for (axis, name) in [(1, "y"), (2, "z")] {
            for (extent, index) in [(Extent::Block(axis), "%tid."), (Extent::Grid(axis), "%ctaid.")] {
                if !operands().any(|operand| operand.strip_prefix(index) == Some(name)) {
                    self.numbers.insert(extent, 1);
                }
            }
        }
        self
    }

    /// The extents of a block and of the grid that are numbers.
    pub fn extents(&self) -> [[Option<i128>; 3]; 2] {
        [Extent::Block, Extent::Grid].map(|extent| [0, 1, 2].map(|axis| self.numbers.get(&extent(axis)).copied()))
    }

    /// The number that the launcher requires of an atom.
    pub fn fixed(&self, atom: &Atom) -> Option<i128> {
        let known = |extent| self.numbers.get(&extent).copied();
        match atom {
            Atom::Ntid(axis) => known(Extent::Block(*axis)),
            Atom::Nctaid(axis) => known(Extent::Grid(*axis)),
            Atom::Tid(axis, _) => known(Extent::Block(*axis)).filter(|count| *count == 1).map(|_| 0),
            Atom::Ctaid(axis, _) => known(Extent::Grid(*axis)).filter(|count| *count == 1).map(|_| 0),
            Atom::Param(at, 0, bits) if *bits > 0 => known(Extent::Parameter(*at)),
            _ => None,
        }
    }

    /// Inequalities that the launcher checks.
    pub fn facts(&self, atoms: &mut Atoms, parameters: &[u32]) -> Vec<Poly> {
        let mut atom = |extent: &Extent| {
            let atom = match extent {
                Extent::Block(0) => return atoms.ntid(0),
                Extent::Block(axis) => Atom::Ntid(*axis),
                Extent::Grid(axis) => Atom::Nctaid(*axis),
                Extent::Parameter(at) => Atom::Param(*at, 0, parameters.get(*at).copied().unwrap_or(0)),
            };
            match self.fixed(&atom) {
                Some(value) => Poly::number(value),
                None => atoms.poly(atom),
            }
        };
        let mut facts = Vec::new();
        for inequality in &self.inequalities {
            facts.push(inequality.iter().fold(Poly::default(), |sum, (extents, value)| {
                let product = extents.iter().fold(Poly::number(*value), |product, extent| product.mul(&atom(extent)));
                sum.add(&product)
            }));
        }
        let others = self.multiples.iter().filter(|(extent, _)| **extent != Extent::Block(0));
        let multiples: Vec<_> = others.map(|(extent, of)| (atom(extent), *of)).collect();
        for (value, of) in multiples {
            let whole = atoms.quotient(&value, &Poly::number(of)).scale(of);
            let rest = value.sub(&whole);
            facts.extend([rest.clone(), rest.scale(-1)]);
        }
        facts.retain(|fact| fact.constant().is_none());
        facts
    }
}
