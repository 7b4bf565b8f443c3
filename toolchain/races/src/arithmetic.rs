//! Symbolic execution of instructions that compute: integers, comparisons and predicates.

use std::collections::HashMap;

use crate::poly::{Atom, Fact, Poly};
use crate::program::results;
use crate::trace::{Condition, SELECTIONS, Trace, Value, and, inverse};

impl<'a> Trace<'_, 'a> {
    /// The values of an instruction that computes.
    pub(super) fn computed(&mut self, index: usize, environment: &HashMap<&'a str, Value>) -> Vec<Option<Value>> {
        let instruction = &self.program.instructions[index];
        let opcode = instruction.opcode;
        let (family, kind) =
            (opcode.split('.').next().unwrap_or_default(), opcode.rsplit('.').next().unwrap_or_default());
        let is_float = kind.starts_with('f') || kind.starts_with("bf");
        let bits: u32 = kind.get(1..).and_then(|bits| bits.parse().ok()).unwrap_or(0);
        let sources = || instruction.operands.iter().skip(1).copied();
        let source = |at: usize| instruction.operands.get(at + 1).copied().unwrap_or_default();
        let results: Vec<&str> = results(instruction).collect();
        // Predicates.
        let conditions: Option<Condition> = match (family, kind) {
            ("setp", _) if !is_float => Some(self.comparison(index, environment)),
            ("and", "pred") => Some(and(
                &self.predicate_of(source(0), index, environment),
                &self.predicate_of(source(1), index, environment),
            )),
            ("or", "pred") => {
                let [a, b] = [0, 1].map(|at| inverse(self.predicate_of(source(at), index, environment)));
                Some(inverse(and(&a, &b)))
            }
            ("not", "pred") => Some(inverse(self.predicate_of(source(0), index, environment))),
            ("mov", "pred") => Some(self.predicate_of(source(0), index, environment)),
            _ => None,
        };
        if let Some(condition) = conditions {
            return vec![Some(Value::Predicate(condition))];
        }
        let value = |poly: Poly| vec![Some(Value::Number(poly))];
        if family == "mov" || family.starts_with("cvta") {
            let braces = |text: &str| text.starts_with('{');
            if !instruction.operands.iter().any(|operand| braces(operand)) {
                return value(self.number_of(source(0), index, environment));
            }
            return Vec::new();
        }
        if is_float && family != "selp" || opcode.contains("sat") || bits == 0 && family != "cvt" && family != "selp" {
            return Vec::new();
        }
        if family == "selp" {
            let condition = self.predicate_of(source(2), index, environment);
            let [a, b] = [0, 1].map(|at| self.number_of(source(at), index, environment));
            let Some(&register) = results.first() else { return Vec::new() };
            let joined = self.joined(
                SELECTIONS + index,
                register,
                vec![Value::Number(a), Value::Number(b)],
                vec![condition.yes, condition.no],
            );
            return vec![joined];
        }
        let modulus = 1_i128 << bits.clamp(1, 64);
        let mut p: Vec<Poly> = Vec::new();
        for text in sources() {
            if matches!(self.operand(text, index, environment), Value::Predicate(_)) {
                return Vec::new();
            }
            p.push(self.number_of(text, index, environment));
        }
        let constant = |at: usize| p.get(at).and_then(Poly::constant);
        let zero = Poly::default();
        let [a, b, c] = [0, 1, 2].map(|at| p.get(at).unwrap_or(&zero).clone());
        let unsigned = kind.starts_with('u') || kind.starts_with('b');
        let result = match family {
            "add" if !opcode.contains("cc") && !opcode.contains("16x2") => Some(a.add(&b)),
            "sub" if !opcode.contains("cc") => Some(a.sub(&b)),
            "neg" => Some(a.scale(-1)),
            "not" => {
                let value = self.exact(&a, bits);
                Some(value.scale(-1).offset(modulus - 1))
            }
            "mul" if opcode.contains(".lo") => Some(a.mul(&b)),
            "mad" if opcode.contains(".lo") => Some(a.mul(&b).add(&c)),
            "mul" | "mad" if opcode.contains(".wide") => {
                let both = match unsigned {
                    true => Some((self.exact(&a, bits), self.exact(&b, bits))),
                    false => self.signed(&a, bits).zip(self.signed(&b, bits)),
                };
                both.map(|(a, b)| if family == "mad" { a.mul(&b).add(&c) } else { a.mul(&b) })
            }
            "shl" => match constant(1) {
                Some(by) if (0..64).contains(&by) => Some(a.scale(1 << by)),
                _ => {
                    let (a, b) = (self.exact(&a, bits), self.exact(&b, 32));
                    Some(self.atoms.poly(Atom::Function(format!("shl{bits}").into(), vec![a, b], bits)))
                }
            },
            "shr" if unsigned || self.signed(&a, bits).is_some_and(|value| self.proves(&value, &[])) => {
                match constant(1) {
                    Some(by) if (0..64).contains(&by) => {
                        let value = self.exact(&a, bits);
                        Some(self.atoms.quotient(&value, &Poly::number(1 << by)))
                    }
                    _ => {
                        let (a, b) = (self.exact(&a, bits), self.exact(&b, 32));
                        Some(self.atoms.poly(Atom::Function(format!("shr{bits}").into(), vec![a, b], bits)))
                    }
                }
            }
            "bfe" if unsigned => match (constant(1), constant(2)) {
                (Some(from @ 0..63), Some(count @ 1..63)) => {
                    let low = self.low(&a, from + count, bits);
                    Some(self.atoms.quotient(&low, &Poly::number(1 << from)))
                }
                _ => None,
            },
            "and" => {
                let (other, mask) = match (constant(0), constant(1)) {
                    (_, Some(mask)) => (a, mask),
                    (Some(mask), None) => (b, mask),
                    (None, None) => return self.function(family, bits, &[a, b]),
                };
                let mask = mask.rem_euclid(modulus);
                let (from, ones) = (i128::from(mask.trailing_zeros()), mask >> mask.trailing_zeros().min(127));
                match mask {
                    0 => Some(Poly::default()),
                    // Clears low bits.
                    _ if mask + (1 << from) == modulus => {
                        let scale = Poly::number(1 << from);
                        let whole = self.atoms.quotient(&other, &scale);
                        Some(whole.mul(&scale))
                    }
                    _ if (ones + 1) & ones == 0 => {
                        let low = self.low(&other, from + i128::from(ones.count_ones()), bits);
                        let scale = Poly::number(1 << from);
                        Some(self.atoms.quotient(&low, &scale).mul(&scale))
                    }
                    _ => return self.function(family, bits, &[other, Poly::number(mask)]),
                }
            }
            "or" | "xor" => {
                let (a, b) = (self.exact(&a, bits), self.exact(&b, bits));
                let apart = |trace: &mut Self, high: &Poly, low: &Poly| {
                    let unit = trace.power(high);
                    unit > 0 && trace.proves(low, &[]) && trace.proves(&Poly::number(unit - 1).sub(low), &[])
                };
                if apart(self, &a, &b) || apart(self, &b, &a) {
                    Some(a.add(&b))
                } else {
                    return self.function(family, bits, &[a, b]);
                }
            }
            "min" | "max" => {
                let (a, b) = match unsigned {
                    true => (self.exact(&a, bits), self.exact(&b, bits)),
                    false => match self.signed(&a, bits).zip(self.signed(&b, bits)) {
                        Some(both) => both,
                        None => return Vec::new(),
                    },
                };
                if !(unsigned || self.proves(&a, &[]) && self.proves(&b, &[])) {
                    return Vec::new();
                }
                let Some(&register) = results.first() else { return Vec::new() };
                let [less, more] = [b.sub(&a), a.sub(&b)];
                let (first, second) = if family == "min" { (less, more) } else { (more, less) };
                if self.proves(&first, &[]) {
                    return value(a);
                }
                if self.proves(&second, &[]) {
                    return value(b);
                }
                let ways = vec![vec![Fact::NotNegative(first)], vec![Fact::NotNegative(second)]];
                return vec![self.joined(SELECTIONS + index, register, vec![Value::Number(a), Value::Number(b)], ways)];
            }
            "div" | "rem" if unsigned => {
                let (a, b) = (self.exact(&a, bits), self.exact(&b, bits));
                if self.proves(&b.offset(-1), &[]) {
                    let quotient = self.atoms.quotient(&a, &b);
                    Some(if family == "div" { quotient } else { a.sub(&quotient.mul(&b)) })
                } else {
                    return self.function(family, bits, &[a, b]);
                }
            }
            "cvt" => {
                let mut kinds = opcode.rsplit('.');
                let from = kinds.next().unwrap_or_default();
                let to = kinds.next().unwrap_or_default();
                let wide = |kind: &str| kind.get(1..).and_then(|bits| bits.parse::<u32>().ok()).unwrap_or(0);
                let (from_bits, to_bits) = (wide(from), wide(to));
                let int = |kind: &str| kind.starts_with(['u', 's', 'b']);
                if !int(from) || !int(to) || opcode.contains("sat") {
                    None
                } else if to_bits < from_bits {
                    // The register may be wider than the type.
                    match results.first().is_some_and(|register| self.program.bits_of(register) == to_bits) {
                        true => Some(a),
                        false => None,
                    }
                } else if from.starts_with('s') {
                    self.signed(&a, from_bits)
                } else {
                    Some(self.exact(&a, from_bits))
                }
            }
            // A value that is the same in all lanes of a warp.
            "shfl" if p.get(3).and_then(Poly::constant) == Some(-1) && self.is_of_warp(&a) => Some(a),
            "popc" | "clz" => {
                return vec![Some(Value::Number(self.any(index, 0, 7)))];
            }
            _ => None,
        };
        result.map_or_else(Vec::new, value)
    }

    /// A power of two that divides the polynomial; 0 of 0.
    pub(super) fn power(&self, poly: &Poly) -> i128 {
        let of = |id: &u32| match self.atoms.get(*id) {
            Some(Atom::Function(name, arguments, _)) if name.starts_with("wrap") => {
                arguments.first().map_or(1, |argument| self.power(argument).clamp(1, 1 << 16))
            }
            _ => 1,
        };
        let terms =
            poly.0.iter().map(|(monomial, value)| monomial.iter().map(of).fold(value.abs(), i128::saturating_mul));
        let all = terms.fold(0, crate::poly::gcd);
        if all == 0 { 0 } else { 1 << all.trailing_zeros().min(64) }
    }

    /// Whether all lanes of a warp have this value: it is made of sizes and of the warp's index.
    pub(super) fn is_of_warp(&mut self, poly: &Poly) -> bool {
        let thread = self.linear();
        poly.atoms().iter().all(|id| match self.atoms.get(*id).cloned() {
            Some(Atom::Ctaid(..) | Atom::Ntid(_) | Atom::Nctaid(_) | Atom::Param(..) | Atom::Shared(_)) => true,
            Some(Atom::Quotient(p, q)) => {
                p == thread && q.constant().is_some_and(|by| by % 32 == 0) || self.is_of_warp(&p) && self.is_of_warp(&q)
            }
            Some(Atom::Function(_, arguments, _)) => arguments.iter().all(|argument| self.is_of_warp(argument)),
            _ => false,
        })
    }

    /// The number modulo 2^count.
    pub(super) fn low(&mut self, poly: &Poly, count: i128, bits: u32) -> Poly {
        if count >= i128::from(bits) {
            return self.exact(poly, bits);
        }
        let modulus = Poly::number(1 << count);
        if self.proves(poly, &[]) && self.proves(&modulus.sub(poly).offset(-1), &[]) {
            return poly.clone();
        }
        let whole = self.atoms.quotient(poly, &modulus);
        poly.sub(&whole.mul(&modulus))
    }

    pub(super) fn function(&mut self, family: &str, bits: u32, arguments: &[Poly]) -> Vec<Option<Value>> {
        let arguments = arguments.iter().map(|argument| self.exact(argument, bits)).collect();
        vec![Some(Value::Number(self.atoms.poly(Atom::Function(format!("{family}{bits}").into(), arguments, bits))))]
    }

    /// The condition of `setp` of integers.
    pub(super) fn comparison(&mut self, index: usize, environment: &HashMap<&'a str, Value>) -> Condition {
        let instruction = &self.program.instructions[index];
        let mut parts = instruction.opcode.split('.').skip(1);
        let (relation, kind) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let bits: u32 = kind.get(1..).and_then(|bits| bits.parse().ok()).unwrap_or(64);
        if instruction.operands.len() != 3 || instruction.operands[0].contains('|') {
            return Condition::default();
        }
        let [a, b] = [1, 2].map(|at| self.number_of(instruction.operands[at], index, environment));
        let by_sign = kind.starts_with('s') && !matches!(relation, "eq" | "ne");
        let both = match by_sign {
            true => self.signed(&a, bits).zip(self.signed(&b, bits)),
            false => {
                let whole =
                    |poly: &Poly| poly.constant().map(|value| Poly::number(value.rem_euclid(1 << bits.clamp(1, 64))));
                let [a, b] = [&a, &b].map(|poly| whole(poly).unwrap_or_else(|| poly.clone()));
                Some((self.exact(&a, bits), self.exact(&b, bits)))
            }
        };
        let Some((a, b)) = both else { return Condition::default() };
        let difference = a.sub(&b);
        let at_least = |poly: &Poly| vec![Fact::NotNegative(poly.clone())];
        let less = |poly: &Poly| vec![Fact::NotNegative(poly.scale(-1).offset(-1))];
        let negated = difference.scale(-1);
        match relation {
            "lt" | "lo" => Condition { yes: less(&difference), no: at_least(&difference) },
            "ge" | "hs" => Condition { yes: at_least(&difference), no: less(&difference) },
            "gt" | "hi" => Condition { yes: less(&negated), no: at_least(&negated) },
            "le" | "ls" => Condition { yes: at_least(&negated), no: less(&negated) },
            "eq" | "ne" => {
                let zero = vec![Fact::Zero(difference.clone())];
                // A number that is not 0, and not negative, is positive.
                let other = match (self.atoms.bounds(&difference).0 >= 0, self.atoms.bounds(&negated).0 >= 0) {
                    (true, _) => vec![Fact::NotNegative(difference.offset(-1))],
                    (_, true) => vec![Fact::NotNegative(negated.offset(-1))],
                    _ => vec![Fact::NotZero(difference)],
                };
                if relation == "eq" { Condition { yes: zero, no: other } } else { Condition { yes: other, no: zero } }
            }
            _ => Condition::default(),
        }
    }
}
