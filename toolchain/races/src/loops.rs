//! What loops change in every round, and what holds at the start of each.

use std::rc::Rc;

use crate::poly::{Atom, Fact, Induction, Poly};
use crate::trace::{SELECTIONS, Trace, Value};

/// A register at the start of a round: its atom, its value before the loop, and that at each return to the start.
type Changing = (u32, Poly, Vec<Poly>);

impl<'a> Trace<'_, 'a> {
    /// Finds the registers that a loop changes by the same step in every round, and what holds at the start of each.
    pub(super) fn induce(&mut self, number: usize) {
        let program = self.program;
        let found = &program.loops[number];
        let head = found.head;
        let heads: Vec<(u32, Rc<str>, u32)> = (0..)
            .map_while(|id| self.atoms.get(id).cloned().map(|atom| (id, atom)))
            .filter_map(|(id, atom)| match atom {
                Atom::Head(block, register, bits, 0) if block == head => Some((id, register, bits)),
                _ => None,
            })
            .collect();
        let outside: Vec<usize> = program.before[head].iter().copied().filter(|at| !found.body.contains(at)).collect();
        let [before] = outside.as_slice() else { return };
        // For each register, the value before the loop and the exact value at each return to its start.
        let mut known: Vec<Changing> = Vec::new();
        for (id, register, bits) in heads {
            let at_end = |trace: &Self, at: usize| match trace.ends[at].get(&*register) {
                Some(Value::Number(poly)) => Some(poly.clone()),
                _ => None,
            };
            let Some(first) = at_end(self, *before) else { continue };
            let Some(last) = found.latches.iter().map(|&at| at_end(self, at)).collect::<Option<Vec<_>>>() else {
                continue;
            };
            let own = Poly::atom(id);
            let step = last[0].sub(&own);
            let regular = last.iter().all(|value| *value == last[0]) && self.is_invariant(&step, number, None);
            let mut exact = Vec::new();
            for (value, &latch) in last.iter().zip(&found.latches) {
                self.here = latch;
                let facts = self.edge(latch, head);
                exact.push(self.exact_with(value, bits, &facts));
            }
            self.here = *before;
            let facts = self.edge(*before, head);
            let first = self.exact_with(&first, bits, &facts);
            let key = (head, register.clone());
            // In some rounds, it may stay as it is or go back to the first value.
            let mut steps: Vec<Poly> = Vec::new();
            let mut values = Vec::new();
            for (value, &latch) in exact.iter().zip(&found.latches) {
                let facts = self.edge(latch, head);
                values.extend(self.alternatives(value, &facts, 0));
            }
            for value in &values {
                let step = value.sub(&own);
                if *value != first && step.constant() != Some(0) && !steps.contains(&step) {
                    steps.push(step);
                }
            }
            let found = match steps.as_slice() {
                _ if regular => Some(Induction { first: first.clone(), step, exact: exact == last, steady: true }),
                [step] if self.is_invariant(step, number, None) => {
                    let steady = values.iter().all(|value| value.sub(&own) == *step);
                    Some(Induction { first: first.clone(), step: step.clone(), exact: true, steady })
                }
                _ => None,
            };
            match found {
                Some(found) => self.atoms.inductions.insert(key, found),
                None => self.atoms.inductions.remove(&key),
            };
            known.push((id, first, exact));
        }
        let mut invariants = Vec::new();
        let latch = found.latches[0];
        let mut candidates: Vec<Fact> = self.edge(latch, head);
        candidates.extend(self.facts_after(latch).into_iter().skip(self.facts[head].len()));
        for fact in candidates {
            let polys = match fact {
                Fact::NotNegative(poly) => vec![(poly, 0)],
                // A number that approaches another one by 1 stops there.
                Fact::NotZero(poly) => vec![(poly.offset(-1), 1), (poly.scale(-1).offset(-1), 1)],
                Fact::Zero(_) | Fact::Either(_) => continue,
            };
            for (poly, slack) in polys {
                let Some(candidate) = self.at_start(&poly, &known, number) else { continue };
                let invariant = Fact::NotNegative(candidate.clone());
                if invariants.contains(&invariant) || self.atoms.bounds(&candidate).0 >= 0 {
                    continue;
                }
                let with = |trace: &mut Self, pick: &dyn Fn(&Changing) -> Poly| {
                    trace
                        .atoms
                        .replace(&candidate, &mut |_, id| known.iter().find(|(head, _, _)| *head == id).map(pick))
                };
                self.here = *before;
                let (at_first, facts) = (with(self, &|(_, first, _)| first.clone()), self.edge(*before, head));
                let mut holds = self.proves(&at_first, &facts);
                for (place, &latch) in found.latches.iter().enumerate() {
                    let at_last = with(self, &|(_, _, last)| last[place].clone());
                    self.here = latch;
                    let mut facts = self.edge(latch, head);
                    facts.push(invariant.clone());
                    // That the value is not 0 is known of the first return only.
                    holds &= self.proves(&at_last.offset(if place == 0 { slack } else { 0 }), &facts);
                }
                if holds {
                    invariants.push(invariant);
                }
            }
        }
        self.invariants.insert(head, invariants);
    }

    /// The values that a polynomial with cases may have under some facts.
    pub(super) fn alternatives(&mut self, poly: &Poly, facts: &[Fact], depth: usize) -> Vec<Poly> {
        let case = poly.atoms().into_iter().find_map(|id| match self.atoms.get(id) {
            Some(Atom::Case(site, register, _, 0)) => {
                Some((id, self.atoms.cases.get(&(*site, register.clone()))?.clone()))
            }
            _ => None,
        });
        let Some((id, alternatives)) = case.filter(|_| depth < 4) else { return vec![poly.clone()] };
        let mut found = Vec::new();
        for (value, with) in alternatives {
            let mut put = |poly: &Poly| self.atoms.replace(poly, &mut |_, atom| (atom == id).then(|| value.clone()));
            let next = put(poly);
            let mut own: Vec<Fact> = with;
            own.extend(facts.iter().filter_map(|fact| match fact {
                Fact::NotNegative(poly) => Some(Fact::NotNegative(put(poly))),
                _ => None,
            }));
            let refuted =
                own.iter().any(|fact| matches!(fact, Fact::NotNegative(poly) if self.atoms.bounds(poly).1 < 0));
            if !refuted {
                found.extend(self.alternatives(&next, &own, depth + 1));
            }
        }
        found
    }

    /// What a fact about the end of a round says about the start of the next, in values at that start.
    pub(super) fn at_start(&mut self, poly: &Poly, known: &[Changing], number: usize) -> Option<Poly> {
        let replaced = self.atoms.replace(poly, &mut |_, id| {
            known.iter().find_map(|(head, _, last)| {
                let last = &last[0];
                // The register's value is an atom of its own, or differs from the one at the start by a step.
                if *last == Poly::atom(id) && *head != id {
                    return Some(Poly::atom(*head));
                }
                (*head == id).then(|| Poly::atom(id).add(&Poly::atom(id)).sub(last))
            })
        });
        let heads: Vec<u32> = known.iter().map(|(head, _, _)| *head).collect();
        (self.is_invariant(&replaced, number, Some(&heads)) && replaced.atoms().iter().any(|id| heads.contains(id)))
            .then_some(replaced)
    }

    /// Whether what the threads load, or a register that changes irregularly, is part of a polynomial.
    pub fn is_data(&mut self, poly: &Poly) -> bool {
        let poly = self.expanded(poly);
        poly.atoms().into_iter().any(|id| match self.atoms.get(id).cloned() {
            Some(Atom::Any(..) | Atom::Head(..)) | None => true,
            Some(Atom::Function(name, arguments, _)) => {
                name.starts_with("load") || arguments.iter().any(|argument| self.is_data(argument))
            }
            Some(Atom::Quotient(p, q) | Atom::Remainder(p, q)) => self.is_data(&p) || self.is_data(&q),
            Some(Atom::Case(site, register, ..)) => {
                let alternatives = self.atoms.cases.get(&(site, register)).cloned().unwrap_or_default();
                alternatives.iter().any(|(value, _)| *value != Poly::atom(id) && self.is_data(value))
            }
            Some(_) => false,
        })
    }

    /// Whether no atom changes in the loop, but for some.
    pub(super) fn is_invariant(&self, poly: &Poly, number: usize, but: Option<&[u32]>) -> bool {
        poly.atoms().iter().all(|id| {
            if but.is_some_and(|but| but.contains(id)) {
                return true;
            }
            let inside = |at: &usize| self.program.loops[number].body.contains(at);
            match self.atoms.get(*id) {
                None => false,
                Some(Atom::Any(index, ..)) => self.block_of.get(*index).is_some_and(|at| !inside(at)),
                Some(Atom::Case(site, ..)) => {
                    let at = site.checked_sub(SELECTIONS).and_then(|index| self.block_of.get(index)).unwrap_or(site);
                    !inside(at)
                }
                Some(Atom::Round(at, ..) | Atom::Head(at, ..)) => !inside(at),
                Some(Atom::Remainder(p, _)) => self.is_invariant(p, number, but),
                Some(Atom::Quotient(p, q)) => self.is_invariant(p, number, but) && self.is_invariant(q, number, but),
                Some(Atom::Function(_, arguments, _)) => {
                    arguments.iter().all(|argument| self.is_invariant(argument, number, but))
                }
                Some(_) => true,
            }
        })
    }
}
