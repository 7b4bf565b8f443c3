//! Symbolic execution of instructions that access memory.

use std::collections::HashMap;
use std::rc::Rc;

use crate::poly::{Atom, Fact, Poly};
use crate::program::{Reason, number, results};
use crate::trace::{Access, Kind, Trace, Value};

impl<'a> Trace<'_, 'a> {
    /// The access of an instruction to memory, and the values that it returns; `None` if it has none.
    #[allow(clippy::type_complexity)]
    pub(super) fn memory(
        &mut self,
        index: usize,
        environment: &HashMap<&'a str, Value>,
        reads_known: bool,
    ) -> Result<Option<Vec<Option<Value>>>, Reason> {
        let instruction = &self.program.instructions[index];
        let opcode = instruction.opcode;
        let mut parts = opcode.split('.');
        let family = parts.next().unwrap_or_default();
        let has = |part: &str| opcode.split('.').any(|known| known == part);
        let size = |opcode: &str| -> i128 {
            let vector = if opcode.contains(".v4") {
                4
            } else if opcode.contains(".v2") {
                2
            } else {
                1
            };
            let bits: i128 = opcode
                .rsplit('.')
                .next()
                .and_then(|kind| kind.get(1..)?.parse().ok())
                .filter(|bits| *bits <= 128)
                .unwrap_or(128);
            vector * bits / 8
        };
        let address = instruction.operands.iter().copied().find(|operand| operand.starts_with('['));
        let strong = || has("relaxed") || has("acquire") || has("release") || has("volatile") || has("acq_rel");
        let in_block = has("cta");
        let (kind, width) = match family {
            "ld" if has("param") => {
                let wider = results(instruction).next().is_some_and(|register| {
                    u128::from(self.program.bits_of(register)) > 8 * size(opcode).unsigned_abs()
                });
                let signed = wider && opcode.rsplit('.').next().is_some_and(|kind| kind.starts_with('s'));
                let value = self
                    .parameter(address.unwrap_or_default(), opcode)
                    .filter(|_| !signed && results(instruction).count() == 1);
                return Ok(Some(vec![value.map(Value::Number)]));
            }
            "ld" | "ldu" => (if strong() { Kind::Atomic(in_block) } else { Kind::Read }, size(opcode)),
            "st" if has("param") => return Ok(Some(Vec::new())),
            "st" => (if strong() { Kind::Atomic(in_block) } else { Kind::Write }, size(opcode)),
            "atom" | "red" => (Kind::Atomic(in_block), size(opcode)),
            "ldmatrix" => (Kind::Read, 16),
            _ if opcode.starts_with("cp.async.ca") || opcode.starts_with("cp.async.cg") => (Kind::Write, 16),
            "prefetch" | "prefetchu" => return Ok(Some(Vec::new())),
            _ if address.is_some() => {
                return Err(Reason::at("an instruction that the proof does not know", instruction));
            }
            _ => return Ok(None),
        };
        if has("local") {
            return Ok(Some(Vec::new()));
        }
        let Some(address) = address else {
            return Err(Reason::at("an instruction that the proof does not know", instruction));
        };
        if family == "cp" {
            // It reads from global memory, too.
            let inner = instruction.operands.get(1).copied().unwrap_or_default().trim_matches(['[', ']']);
            let (name, offset) =
                inner.split_once('+').map_or((inner, Some(0)), |(name, offset)| (name, number(offset)));
            let poly = self.number_of(name, index, environment).offset(offset.unwrap_or(0));
            let poly = self.ring(&poly, 64);
            let based = self.based(&poly, 0).zip(offset);
            let Some(((base, poly), _)) = based else {
                self.failure = Some(Reason::at("an address is data", instruction));
                return Ok(Some(Vec::new()));
            };
            let (offset, facts) = (poly.sub(&Poly::atom(base)), self.facts[self.here].clone());
            let source = Access {
                instruction: index,
                block: self.here,
                kind: Kind::Read,
                writes: false,
                shared: false,
                base,
                offset,
                width: 16,
                facts,
                collective: false,
                asynchronous: true,
            };
            self.accesses.push(source);
        }
        let inner = address.trim_matches(['[', ']']);
        let (name, offset) =
            inner.split_once('+').map_or((inner, 0), |(name, offset)| (name, number(offset).unwrap_or(1 << 99)));
        let poly = self.number_of(name, index, environment).offset(offset);
        let shared =
            has("shared") || opcode.contains("shared::cta") || family == "ldmatrix" || opcode.starts_with("cp.async");
        let poly = self.ring(&poly, if shared { 32 } else { 64 });
        let Some((base, poly)) = self.based(&poly, 0) else {
            if family == "ld" && has("nc") {
                return Ok(Some(Vec::new()));
            }
            self.failure = Some(Reason::at("an address is data", instruction));
            return Ok(Some(Vec::new()));
        };
        let whose = self.atoms.get(base).cloned();
        // The thread's own memory, and parameters, which nothing writes.
        if let Some(Atom::Shared(name)) = &whose
            && (name.contains("local_depot") || name.contains("_param_"))
        {
            return Ok(Some(Vec::new()));
        }
        if matches!(whose, Some(Atom::Shared(_))) != shared
            && !(has("global") && matches!(whose, Some(Atom::Shared(_))))
        {
            return Err(Reason::at("an address is not in the memory that the access names", instruction));
        }
        let facts = self.facts[self.here].clone();
        let offset = poly.sub(&Poly::atom(base));
        let collective = family == "ldmatrix";
        let writes = kind != Kind::Read && family != "ld";
        if writes {
            self.written.insert(base);
        }
        let pure = reads_known && kind == Kind::Read && !collective && !self.written.contains(&base);
        let loaded = pure.then(|| {
            let count = results(instruction).count().max(1);
            let bits = u32::try_from(8 * width).unwrap_or(0) / u32::try_from(count).unwrap_or(1);
            let signed = opcode.rsplit('.').next().is_some_and(|kind| kind.starts_with('s'));
            let wide = results(instruction).next().map_or(64, |register| self.program.bits_of(register));
            let value = |place: usize| -> Atom {
                let name = format!("load {base} {opcode} {place}");
                Atom::Function(name.into(), vec![offset.clone()], if signed { wide } else { bits.min(wide) })
            };
            (0..count).map(value).collect::<Vec<_>>()
        });
        let width = if opcode.starts_with("cp.async") {
            instruction.operands.get(2).and_then(|text| number(text)).unwrap_or(16)
        } else {
            width
        };
        self.accesses.push(Access {
            instruction: index,
            block: self.here,
            kind,
            writes,
            shared,
            base,
            offset,
            width,
            facts,
            collective,
            asynchronous: opcode.starts_with("cp.async"),
        });
        let loaded = loaded.unwrap_or_default().into_iter().map(|atom| Some(Value::Number(self.atoms.poly(atom))));
        Ok(Some(loaded.collect()))
    }

    /// The polynomial with the address of a base as a term: selections among addresses with one base are those of offsets.
    pub(super) fn based(&mut self, poly: &Poly, depth: usize) -> Option<(u32, Poly)> {
        if let Some(base) = self.base(poly) {
            return Some((base, poly.clone()));
        }
        for id in poly.atoms() {
            if depth > 4 || poly.coefficient(&[id]) != 1 {
                continue;
            }
            let Some(Atom::Case(site, register, bits, 0)) = self.atoms.get(id).cloned() else { continue };
            let alternatives = self.atoms.cases.get(&(site, register.clone())).cloned()?;
            let mut bases = alternatives.iter().map(|(value, _)| self.base(value)).collect::<Option<Vec<_>>>()?;
            bases.dedup();
            let [base] = bases.as_slice() else { continue };
            let offset = |(value, facts): (Poly, Vec<Fact>)| (value.sub(&Poly::atom(*base)), facts);
            let offsets = alternatives.into_iter().map(offset).collect();
            let name: Rc<str> = format!("{register} offset").into();
            self.atoms.cases.insert((site, name.clone()), offsets);
            let offset = self.atoms.poly(Atom::Case(site, name, bits, 0));
            return Some((*base, poly.sub(&Poly::atom(id)).add(&offset).add(&Poly::atom(*base))));
        }
        None
    }

    /// Replaces inductions that are known modulo 2^bits.
    pub(super) fn ring(&mut self, poly: &Poly, bits: u32) -> Poly {
        let mut result = poly.clone();
        for _ in 0..4 {
            let mut changed = false;
            for id in result.atoms() {
                let Some(Atom::Head(block, register, of, 0)) = self.atoms.get(id).cloned() else { continue };
                let Some(induction) = self.atoms.inductions.get(&(block, register.clone())).cloned() else { continue };
                if of != bits && !induction.exact {
                    continue;
                }
                let value = induction.value(&mut self.atoms, block, &register);
                let terms = result.0.iter().map(|(monomial, coefficient)| {
                    let count = monomial.iter().filter(|&&atom| atom == id).count();
                    let rest: Vec<u32> = monomial.iter().copied().filter(|&atom| atom != id).collect();
                    (0..count).fold(Poly(vec![(rest, *coefficient)]), |product, _| product.mul(&value))
                });
                result = terms.fold(Poly::default(), |sum, term| sum.add(&term));
                changed = true;
            }
            if !changed {
                break;
            }
        }
        result
    }

    pub(super) fn parameter(&mut self, address: &str, opcode: &str) -> Option<Poly> {
        let inner = address.trim_matches(['[', ']']);
        let (name, offset) =
            inner.split_once('+').map_or((inner, 0), |(name, offset)| (name, offset.parse().unwrap_or(usize::MAX)));
        let number: usize = name.strip_prefix(self.program.name)?.strip_prefix("_param_")?.parse().ok()?;
        let bits: u32 = opcode.rsplit('.').next()?.get(1..)?.parse().ok()?;
        let is_buffer = self.shape.buffers.contains(&number) && offset == 0 && bits == 64;
        Some(self.extent(Atom::Param(number, offset, if is_buffer { 0 } else { bits })))
    }
}
