//! Exact solutions in rational arithmetic, by policy iteration.
//!
//! The numbers of a model are `f64`, hence dyadic rationals m·2ᵉ, and every equation of a policy becomes one of integers
//! after a shift. `System::solve` solves these equations by p-adic lifting (Dixon, *Exact Solution of Linear Equations
//! Using P-adic Expansions*, 1982): the inverse of the matrix modulo a prime p gives the solution digit by digit in base
//! p. Rational reconstruction turns the digits into fractions, and the fractions are then inserted into the equations:
//! the result does not depend on a bound of the number of digits.
//!
//! Policy iteration changes rows only for an improvement that is positive in exact arithmetic, so it ends, with values
//! that satisfy the optimality equations exactly (Howard 1960; Puterman, *Markov Decision Processes*, 1994: 6.4 for
//! discounted and 9.2 for average rewards; Bertsekas and Tsitsiklis, *An Analysis of Stochastic Shortest Path Problems*,
//! 1991, for sums until the end, where it starts from a policy that ends almost surely). A good first policy, such as
//! that of a solver in `f64`, leaves one solve to do.

use dashu_int::ops::{BitTest, DivRem, SquareRoot};
use dashu_int::{IBig, UBig};
use dashu_ratio::RBig;
use rayon::prelude::*;
use warpkov_common::interrupt;
use warpkov_mdp::model::Mdp;

pub use crate::dyadic::rational;
use crate::dyadic::{Dyadic, reward};
use crate::graph::{Components, NONE, Restricted};
use crate::interval::Interval;
use crate::reduce::{Place, Reduced, STAY};

/// The value of a state: a rational number, or infinite.
#[derive(Clone, Debug, PartialEq)]
pub enum Exact {
    /// A rational number.
    Finite(RBig),
    /// +∞ or −∞.
    Infinite(f64),
}

/// Why there is no exact solution.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooLarge {
    /// The estimate exceeds the limit.
    #[error(
        "rational arithmetic would take about {work:.1e} operations for {unknowns} unknowns, expected at most \
         {limit:.1e}; expected a smaller model",
        work = *work as f64,
        limit = *limit as f64
    )]
    Work {
        /// Unknowns of the linear equations of a policy.
        unknowns: usize,
        /// The estimate, in operations on machine words.
        work: u64,
        /// The limit.
        limit: u64,
    },
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// Policy iteration did not end, or the equations of a policy have no solution.
    #[error("rational arithmetic found no solution")]
    Singular,
}

/// The default limit of work, in operations on machine words: about a minute.
pub const WORK: u64 = 20_000_000_000;

/// A row as an equation of integers: weight · V(v) = constant + Σ coefficient · V(u), with u ≠ v.
#[derive(Clone, Debug)]
struct Equation {
    weight: IBig,
    terms: Vec<(u32, IBig)>,
    constant: IBig,
}

impl Equation {
    /// Of numbers with a common power of two.
    fn new(weight: Dyadic, terms: Vec<(u32, Dyadic)>, constant: Dyadic) -> Self {
        let all = [&weight, &constant].into_iter().chain(terms.iter().map(|(_, x)| x));
        let least = all.filter(|x| x.mantissa != IBig::ZERO).map(|x| x.exponent).min().unwrap_or(0);
        Self {
            weight: weight.shifted(least),
            terms: terms.into_iter().map(|(vertex, x)| (vertex, x.shifted(least))).collect(),
            constant: constant.shifted(least),
        }
    }
}

/// Rational numbers with one denominator.
#[derive(Clone, Debug)]
struct Fractions {
    numerators: Vec<IBig>,
    denominator: IBig,
}

impl Fractions {
    fn get(&self, i: usize) -> RBig {
        RBig::from_parts_signed(self.numerators[i].clone(), self.denominator.clone())
    }

    /// Of rational numbers.
    fn common(numbers: &[RBig]) -> Self {
        let denominator = numbers.iter().fold(UBig::ONE, |common, x| {
            // The least common multiple.
            let part = RBig::from_parts(IBig::from(common.clone()), x.denominator().clone());
            common * part.denominator()
        });
        let scaled = |x: &RBig| {
            let factor = &denominator / x.denominator();
            x.numerator() * IBig::from(factor)
        };
        Self { numerators: numbers.iter().map(scaled).collect(), denominator: IBig::from(denominator) }
    }
}

/// Linear equations of integers, one per unknown.
struct System<'e> {
    equations: Vec<&'e Equation>,
}

/// Primes below 2³¹.
const PRIMES: [u64; 5] = [2_147_483_629, 2_147_483_587, 2_147_483_579, 2_147_483_563, 2_147_483_549];

/// x mod p, from 0.
fn residue(x: &IBig, p: u64) -> u64 {
    let rest = i64::try_from(x % IBig::from(p)).unwrap_or(0);
    if rest < 0 { (rest + p as i64) as u64 } else { rest as u64 }
}

fn power(mut base: u64, mut exponent: u64, p: u64) -> u64 {
    let mut result = 1;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result * base % p;
        }
        base = base * base % p;
        exponent >>= 1;
    }
    result
}

impl System<'_> {
    fn size(&self) -> usize {
        self.equations.len()
    }

    /// The inverse of the matrix modulo p, row by row; `None` if it is singular modulo p.
    fn inverse(&self, p: u64) -> Option<Vec<u64>> {
        let n = self.size();
        let mut both = vec![0_u64; 2 * n * n];
        for (i, (equation, row)) in self.equations.iter().zip(both.chunks_mut(2 * n)).enumerate() {
            row[i] = residue(&equation.weight, p);
            for (vertex, coefficient) in &equation.terms {
                let entry = &mut row[*vertex as usize];
                *entry = (*entry + p - residue(coefficient, p)) % p;
            }
            row[n + i] = 1;
        }
        for k in 0..n {
            let pivot = (k..n).find(|&i| both[2 * n * i + k] != 0)?;
            if pivot != k {
                let (above, below) = both.split_at_mut(2 * n * pivot);
                above[2 * n * k..2 * n * (k + 1)].swap_with_slice(&mut below[..2 * n]);
            }
            let inverse = power(both[2 * n * k + k], p - 2, p);
            both[2 * n * k..2 * n * (k + 1)].iter_mut().for_each(|x| *x = *x * inverse % p);
            let row = both[2 * n * k..2 * n * (k + 1)].to_vec();
            both.par_chunks_mut(2 * n).enumerate().filter(|(i, _)| *i != k).for_each(|(_, other)| {
                let factor = other[k];
                if factor != 0 {
                    let factor = p - factor;
                    // Left of k, the row is 0.
                    other[k..].iter_mut().zip(&row[k..]).for_each(|(x, &y)| *x = (*x + factor * y) % p);
                }
            });
        }
        Some(both.chunks(2 * n).flat_map(|row| row[n..].to_vec()).collect())
    }

    /// Whether these fractions satisfy the equations with the right-hand sides `constants`.
    fn holds(&self, constants: &[IBig], x: &Fractions) -> bool {
        self.equations.par_iter().zip(constants).enumerate().all(|(i, (equation, constant))| {
            let right = equation.terms.iter().fold(constant * &x.denominator, |sum, (vertex, coefficient)| {
                sum + coefficient * &x.numerators[*vertex as usize]
            });
            &equation.weight * &x.numerators[i] == right
        })
    }

    /// The solution for the right-hand sides `constants`.
    fn solve(&self, constants: &[IBig]) -> Result<Fractions, TooLarge> {
        let n = self.size();
        if n == 0 {
            return Ok(Fractions { numerators: Vec::new(), denominator: IBig::ONE });
        }
        let found = PRIMES.iter().find_map(|&p| Some((p, self.inverse(p)?)));
        let (p, inverse) = found.ok_or(TooLarge::Singular)?;
        let prime = IBig::from(p);
        let mut residuals = constants.to_vec();
        let mut digits: Vec<Vec<u64>> = vec![Vec::new(); n];
        let mut next = 8;
        // By Hadamard's inequality, the digits of a solution are fewer.
        let bits = |x: &IBig| x.bit_len() as u64;
        let of_equation = |equation: &&Equation| {
            let terms = equation.terms.iter().map(|(_, x)| bits(x)).max().unwrap_or(0);
            terms.max(bits(&equation.weight)) + 1 + (equation.terms.len() as u64 + 1).ilog2() as u64
        };
        let determinant: u64 = self.equations.iter().map(of_equation).sum();
        let most = (2 * determinant + constants.iter().map(bits).max().unwrap_or(0) + 64) / 30 + 16;
        loop {
            while (digits[0].len() as u64) < next {
                if interrupt::requested() {
                    return Err(TooLarge::Interrupted);
                }
                let right: Vec<u64> = residuals.iter().map(|x| residue(x, p)).collect();
                let digit: Vec<u64> = inverse
                    .par_chunks(n)
                    .map(|row| row.iter().zip(&right).fold(0_u64, |sum, (a, b)| (sum + a * b % p) % p))
                    .collect();
                residuals.par_iter_mut().zip(&self.equations).enumerate().for_each(|(i, (rest, equation))| {
                    *rest -= &equation.weight * IBig::from(digit[i]);
                    for (vertex, coefficient) in &equation.terms {
                        *rest += coefficient * IBig::from(digit[*vertex as usize]);
                    }
                    *rest /= &prime;
                });
                digits.iter_mut().zip(&digit).for_each(|(digits, &digit)| digits.push(digit));
            }
            if let Some(found) = reconstruct(&digits, &prime).filter(|found| self.holds(constants, found)) {
                return Ok(found);
            }
            if next >= 2 * most {
                return Err(TooLarge::Singular);
            }
            next = (next * 2).min(2 * most);
        }
    }
}

/// Σ dₖ pᵏ.
fn number(digits: &[u64], prime: &IBig) -> IBig {
    match digits {
        [] => IBig::ZERO,
        [digit] => IBig::from(*digit),
        _ => {
            let (low, high) = digits.split_at(digits.len() / 2);
            number(low, prime) + number(high, prime) * prime.pow(low.len())
        }
    }
}

/// Fractions with small numerators and denominators that have these digits in base p.
fn reconstruct(digits: &[Vec<u64>], prime: &IBig) -> Option<Fractions> {
    let modulus = prime.pow(digits[0].len());
    let half = &modulus >> 1_usize;
    // |n| · d < modulus / 2 makes n/d unique.
    let bound = IBig::from(half.clone().into_parts().1.sqrt());
    let numbers: Vec<IBig> = digits.par_iter().map(|digits| number(digits, prime)).collect();
    let symmetric = |x: IBig| if x > half { x - &modulus } else { x };
    let size = |x: &IBig| IBig::from(x.clone().into_parts().1);
    let mut denominator = IBig::ONE;
    for digits in &numbers {
        let scaled = symmetric(digits * &denominator % &modulus);
        if size(&scaled) > bound {
            let (_, more) = fraction(&scaled, &modulus, &bound)?;
            denominator *= more;
            if size(&denominator) > bound {
                return None;
            }
        }
    }
    let numerators: Vec<IBig> = numbers.par_iter().map(|digits| symmetric(digits * &denominator % &modulus)).collect();
    Some(Fractions { numerators, denominator })
}

/// n and d > 0 with n/d ≡ x modulo `modulus` and |n|, d ≤ `bound`: the first remainder of Euclid's algorithm below the bound.
fn fraction(x: &IBig, modulus: &IBig, bound: &IBig) -> Option<(IBig, IBig)> {
    let (mut above, mut rest) = (modulus.clone(), if *x < IBig::ZERO { x + modulus } else { x.clone() });
    let (mut before, mut factor) = (IBig::ZERO, IBig::ONE);
    while rest > *bound {
        let (quotient, next) = (&above).div_rem(&rest);
        (above, rest) = (rest, next);
        let next = &before - quotient * &factor;
        (before, factor) = (factor, next);
    }
    let (numerator, denominator) = if factor < IBig::ZERO { (-rest, -factor) } else { (rest, factor) };
    (denominator <= *bound && denominator > IBig::ZERO).then_some((numerator, denominator))
}

/// A problem of vertices with rows: V(v) = max over the rows of (constant + Σ coefficient V) / weight.
struct Problem {
    first: Vec<usize>,
    rows: Vec<Equation>,
}

impl Problem {
    fn vertices(&self) -> usize {
        self.first.len() - 1
    }

    /// Improves `policy`, one row per vertex, until it is optimal. Returns its values.
    fn solve(&self, policy: &mut [usize]) -> Result<Fractions, TooLarge> {
        loop {
            let system = System { equations: policy.iter().map(|&row| &self.rows[row]).collect() };
            let constants: Vec<IBig> = system.equations.iter().map(|equation| equation.constant.clone()).collect();
            let values = system.solve(&constants)?;
            let improved: Vec<usize> =
                (0..self.vertices()).into_par_iter().map(|v| self.best(&values, v, policy[v])).collect();
            if improved[..] == *policy {
                return Ok(values);
            }
            policy.copy_from_slice(&improved);
        }
    }

    /// weight · (Q − V(v)) · denominator of a row.
    fn advantage(&self, row: usize, vertex: usize, values: &Fractions) -> IBig {
        let Equation { weight, terms, constant } = &self.rows[row];
        let start = constant * &values.denominator - weight * &values.numerators[vertex];
        terms.iter().fold(start, |sum, (to, coefficient)| sum + coefficient * &values.numerators[*to as usize])
    }

    /// The row of the largest Q-factor; `current` if no other is larger than its own.
    fn best(&self, values: &Fractions, vertex: usize, current: usize) -> usize {
        let (mut best, mut most, mut weight) = (current, IBig::ZERO, IBig::ONE);
        for row in self.first[vertex]..self.first[vertex + 1] {
            let of_row = &self.rows[row].weight;
            // A row that only returns to its vertex never ends, and loses.
            if row == current || *of_row <= IBig::ZERO {
                continue;
            }
            let advantage = self.advantage(row, vertex, values);
            if &advantage * &weight > &most * of_row {
                (best, most, weight) = (row, advantage, of_row.clone());
            }
        }
        best
    }
}

/// Operations on machine words of one policy: the inverse of a matrix, and as many digits as the determinant needs.
fn work(unknowns: usize, bits: u64) -> u64 {
    let n = unknowns as u64;
    let digits = n.saturating_mul(bits) / 15;
    n.saturating_mul(n).saturating_mul(2 * n).saturating_add(digits.saturating_mul(n).saturating_mul(n))
}

/// Checks that the equations of a policy have few unknowns.
fn affordable(unknowns: usize, limit: u64) -> Result<(), TooLarge> {
    let work = work(unknowns, 56);
    if work > limit { Err(TooLarge::Work { unknowns, work, limit }) } else { Ok(()) }
}

/// V* of the discounted criterion, for each state, and an optimal policy as rows ([`STAY`] without actions). The rows are
/// taken as they are: none is divided by its sum. `policy` holds actions to start from.
pub(crate) fn discounted(
    model: Restricted<'_>,
    start: Option<&[u32]>,
    limit: u64,
) -> Result<(Vec<Exact>, Vec<usize>), TooLarge> {
    let mdp = model.mdp;
    let states = model.states();
    let vertices: Vec<usize> = (0..states).filter(|&state| !model.rows(state).is_empty()).collect();
    affordable(vertices.len(), limit)?;
    let mut number = vec![NONE; states];
    vertices.iter().zip(0..).for_each(|(&state, vertex)| number[state] = vertex);
    let (gamma, sign) = (Dyadic::new(mdp.gamma()), Dyadic::new(mdp.objective().sign()));
    let mut problem = Problem { first: vec![0], rows: Vec::new() };
    let mut origin = Vec::new();
    for &state in &vertices {
        for row in model.rows(state) {
            let (columns, probs) = mdp.transitions().row(row);
            let (mut weight, mut terms) = (Dyadic::new(1.0), Vec::new());
            for (&column, &p) in columns.iter().zip(probs).filter(|(_, p)| **p > 0.0) {
                let coefficient = gamma.times(&Dyadic::new(p));
                if column as usize == state {
                    weight = weight.plus(Dyadic { mantissa: -coefficient.mantissa, exponent: coefficient.exponent });
                } else if number[column as usize] != NONE {
                    terms.push((number[column as usize], coefficient));
                }
            }
            problem.rows.push(Equation::new(weight, terms, reward(mdp, row).times(&sign)));
            origin.push(row);
        }
        problem.first.push(origin.len());
    }
    let begin = |(vertex, &state): (usize, &usize)| {
        let count = problem.first[vertex + 1] - problem.first[vertex];
        let action = start.map_or(0, |start| start[state] as usize);
        problem.first[vertex] + if model.policy.is_none() && action < count { action } else { 0 }
    };
    let mut policy: Vec<usize> = vertices.iter().enumerate().map(begin).collect();
    let values = problem.solve(&mut policy)?;
    let mut exact = vec![Exact::Finite(RBig::ZERO); states];
    let mut rows = vec![STAY; states];
    for (vertex, &state) in vertices.iter().enumerate() {
        exact[state] = Exact::Finite(values.get(vertex) * sign.rational());
        rows[state] = origin[policy[vertex]];
    }
    Ok((exact, rows))
}

/// V* of a reduced model, for each state, and an optimal row of each vertex. `start` is a policy of vertices that ends almost surely.
pub(crate) fn reduced(model: &Reduced<'_>, start: &[usize], limit: u64) -> Result<(Vec<Exact>, Vec<usize>), TooLarge> {
    affordable(model.vertices(), limit)?;
    let mdp = model.model.mdp;
    let sign = Dyadic::new(model.sign);
    let mut problem = Problem { first: model.first.clone(), rows: Vec::with_capacity(model.origin.len()) };
    for vertex in 0..model.vertices() {
        for row in model.first[vertex]..model.first[vertex + 1] {
            let origin = model.origin[row];
            if origin == STAY {
                problem.rows.push(Equation { weight: IBig::ONE, terms: Vec::new(), constant: IBig::ZERO });
                continue;
            }
            let (columns, probs) = mdp.transitions().row(origin);
            let zero = || Dyadic::new(0.0);
            let (mut weight, mut sum) = (Dyadic::new(mdp.end(origin)), Dyadic::new(mdp.end(origin)));
            let (mut constant, mut terms) = (zero(), std::collections::BTreeMap::<u32, Dyadic>::new());
            for (&column, &p) in columns.iter().zip(probs).filter(|(_, p)| **p > 0.0) {
                let p = Dyadic::new(p);
                sum = sum.plus(p.clone());
                match model.place[column as usize] {
                    Place::Open(to) if to as usize == vertex => continue,
                    Place::Open(to) => {
                        let term = terms.remove(&to).unwrap_or_else(zero).plus(p.clone());
                        terms.insert(to, term);
                    }
                    Place::Fixed(value) => constant = constant.plus(p.times(&Dyadic::new(value))),
                }
                weight = weight.plus(p);
            }
            if model.rewards {
                constant = constant.plus(reward(mdp, origin).times(&sum).times(&sign));
            }
            problem.rows.push(Equation::new(weight, terms.into_iter().collect(), constant));
        }
    }
    let mut policy = start.to_vec();
    let values = problem.solve(&mut policy)?;
    let finite: Vec<Exact> =
        (0..model.vertices()).map(|vertex| Exact::Finite(values.get(vertex) * sign.rational())).collect();
    let fixed = |value: f64| match value * model.sign {
        value if value.is_finite() => Exact::Finite(rational(value)),
        value => Exact::Infinite(value),
    };
    Ok((model.values(&finite, fixed), policy))
}

/// A policy's gain g and bias h, per state; 0 in states without actions.
struct Relative {
    gain: Vec<RBig>,
    bias: Vec<RBig>,
}

/// The rows of an average-reward model as exact numbers.
struct Steps {
    /// Sum of the row.
    sum: Dyadic,
    /// Successors.
    to: Vec<(u32, Dyadic)>,
    /// Expected reward times the sum, to be maximised.
    reward: Dyadic,
}

/// V* of the average reward, for each state, and an optimal policy, one row per state ([`STAY`] without actions).
///
/// Policies are improved by the gains of their successors first, and by bias among rows of equal gain. If neither improves,
/// gain and bias satisfy the optimality equations of multichain models (Puterman 1994, 9.2).
pub(crate) fn average(
    model: Restricted<'_>,
    start: Option<&[u32]>,
    limit: u64,
) -> Result<(Vec<Exact>, Vec<usize>), TooLarge> {
    /// Policies. Each improves the one before.
    const POLICIES: usize = 10_000;

    let (mdp, states) = (model.mdp, model.states());
    affordable(states, limit)?;
    let sign = Dyadic::new(mdp.objective().sign());
    let step = |row: usize| {
        let (columns, probs) = mdp.transitions().row(row);
        let to: Vec<(u32, Dyadic)> =
            columns.iter().zip(probs).filter(|(_, p)| **p > 0.0).map(|(&to, &p)| (to, Dyadic::new(p))).collect();
        let sum = to.iter().fold(Dyadic::new(mdp.end(row)), |sum, (_, p)| sum.plus(p.clone()));
        let reward = reward(mdp, row).times(&sum).times(&sign);
        Steps { sum, to, reward }
    };
    let steps: Vec<Steps> = (0..mdp.rows()).map(step).collect();
    let begin = |state: usize| {
        let rows = model.rows(state);
        let action = start.filter(|_| model.policy.is_none()).map_or(0, |start| start[state] as usize);
        if rows.is_empty() { STAY } else { rows.start + if action < rows.len() { action } else { 0 } }
    };
    let mut policy: Vec<usize> = (0..states).map(begin).collect();
    for _ in 0..POLICIES {
        let Relative { gain, bias } = evaluate(model, &steps, &policy)?;
        let (common_gain, common_bias) = (Fractions::common(&gain), Fractions::common(&bias));
        // Σ p x − σ x(s), with one denominator.
        let drift = |row: usize, state: usize, x: &Fractions| {
            let Steps { sum, to, .. } = &steps[row];
            let number = |i: usize| Dyadic { mantissa: x.numerators[i].clone(), exponent: 0 };
            let own = sum.times(&number(state));
            let start = Dyadic { mantissa: -own.mantissa, exponent: own.exponent };
            to.iter().fold(start, |all, (next, p)| all.plus(p.times(&number(*next as usize)))).rational()
                / RBig::from(x.denominator.clone())
        };
        let best = |of: &(dyn Fn(usize, usize) -> Option<RBig> + Sync)| -> Vec<usize> {
            let of_state = |state: usize| {
                let (mut best, mut most) = (policy[state], RBig::ZERO);
                for row in model.rows(state).filter(|&row| row != policy[state]) {
                    if let Some(found) = of(state, row).map(|found| found / steps[row].sum.rational())
                        && found > most
                    {
                        (best, most) = (row, found);
                    }
                }
                best
            };
            (0..states).into_par_iter().map(of_state).collect()
        };
        let improved = best(&|state, row| Some(drift(row, state, &common_gain)));
        if improved != policy {
            policy = improved;
            continue;
        }
        let improved = best(&|state, row| {
            (drift(row, state, &common_gain) == RBig::ZERO).then(|| {
                let Steps { sum, reward, .. } = &steps[row];
                reward.rational() - sum.rational() * &gain[state] + drift(row, state, &common_bias)
            })
        });
        if improved == policy {
            let values = gain.into_iter().map(|gain| Exact::Finite(gain * sign.rational())).collect();
            return Ok((values, policy));
        }
        policy = improved;
    }
    Err(TooLarge::Singular)
}

/// Gain and bias of a policy: of each recurrent class h + g = r + P h with h = 0 in its first state, of other states
/// g = P g, then h + g = r + P h.
fn evaluate(model: Restricted<'_>, steps: &[Steps], policy: &[usize]) -> Result<Relative, TooLarge> {
    let (mdp, states) = (model.mdp, model.states());
    let action = |state: usize| match policy[state] {
        STAY => 0,
        row => (row - mdp.choices().first(state)) as u32,
    };
    let actions: Vec<u32> = (0..states).map(action).collect();
    let chain = Restricted { mdp, policy: Some(&actions) };
    let classes = Components::new(chain, |_, _| true);
    let (mut gain, mut bias) = (vec![RBig::ZERO; states], vec![RBig::ZERO; states]);
    let mut members = vec![Vec::new(); classes.count];
    let mut transient = Vec::new();
    for (state, &row) in policy.iter().enumerate() {
        match classes.of_state[state] {
            NONE if row != STAY => transient.push(state),
            NONE => {}
            class => members[class as usize].push(state),
        }
    }
    let mut number = vec![NONE; states];
    let negated = |x: &Dyadic| Dyadic { mantissa: -x.mantissa.clone(), exponent: x.exponent };
    for class in &members {
        class.iter().zip(0..).for_each(|(&state, i)| number[state] = i);
        let equation = |(i, &state): (usize, &usize)| {
            let Steps { sum, to, reward } = &steps[policy[state]];
            // The first unknown is the gain.
            let mut terms: Vec<(u32, Dyadic)> = if i == 0 { Vec::new() } else { vec![(0, negated(sum))] };
            let mut weight = sum.clone();
            for (next, p) in to {
                match number[*next as usize] {
                    0 => {}
                    own if own as usize == i => weight = weight.plus(negated(p)),
                    other => terms.push((other, p.clone())),
                }
            }
            Equation::new(weight, terms, reward.clone())
        };
        let equations: Vec<Equation> = class.iter().enumerate().map(equation).collect();
        let system = System { equations: equations.iter().collect() };
        let constants: Vec<IBig> = equations.iter().map(|equation| equation.constant.clone()).collect();
        let found = system.solve(&constants)?;
        for (i, &state) in class.iter().enumerate() {
            gain[state] = found.get(0);
            bias[state] = if i == 0 { RBig::ZERO } else { found.get(i) };
        }
    }
    number.fill(NONE);
    transient.iter().zip(0..).for_each(|(&state, i)| number[state] = i);
    // x(s) = own(s) + Σ p x over the transient states.
    let solve = |own: &dyn Fn(usize, &Steps) -> RBig, known: &[RBig]| -> Result<Vec<RBig>, TooLarge> {
        let mut equations = Vec::new();
        let mut constants = Vec::new();
        for (i, &state) in transient.iter().enumerate() {
            let step = &steps[policy[state]];
            let (mut weight, mut terms, mut constant) = (step.sum.clone(), Vec::new(), own(state, step));
            for (next, p) in &step.to {
                match number[*next as usize] {
                    NONE => constant += p.rational() * &known[*next as usize],
                    own if own as usize == i => weight = weight.plus(negated(p)),
                    other => terms.push((other, p.clone())),
                }
            }
            let least = terms.iter().map(|(_, x)| x.exponent).chain([weight.exponent]).min().unwrap_or(0);
            equations.push(Equation::new(weight, terms, Dyadic { mantissa: IBig::ZERO, exponent: 0 }));
            constants.push(constant * Dyadic { mantissa: IBig::ONE, exponent: -least }.rational());
        }
        let system = System { equations: equations.iter().collect() };
        let constants = Fractions::common(&constants);
        let found = system.solve(&constants.numerators)?;
        let scale = RBig::from(constants.denominator);
        Ok((0..transient.len()).map(|i| found.get(i) / &scale).collect())
    };
    let found = solve(&|_, _| RBig::ZERO, &gain)?;
    transient.iter().zip(found).for_each(|(&state, x)| gain[state] = x);
    let found = solve(&|state, step| step.reward.rational() - step.sum.rational() * &gain[state], &bias)?;
    transient.iter().zip(found).for_each(|(&state, x)| bias[state] = x);
    Ok(Relative { gain, bias })
}

/// V₀ of a horizon for each state, and an optimal first policy as rows, from the values after its last step. The rows are taken as they
/// are. `plan` holds the actions of each step, or nothing.
pub(crate) fn horizon(
    mdp: &Mdp,
    steps: u32,
    plan: Option<&[u32]>,
    limit: u64,
) -> Result<(Vec<Exact>, Vec<usize>), TooLarge> {
    let (states, entries) = (mdp.states() as usize, mdp.transitions().nnz() as u64);
    // After t steps, numbers have about 106 t bits.
    let work = entries.saturating_mul(u64::from(steps)).saturating_mul(u64::from(steps)).saturating_mul(8);
    if work > limit {
        return Err(TooLarge::Work { unknowns: states, work, limit });
    }
    let sign = Dyadic::new(mdp.objective().sign());
    let gamma = Dyadic::new(mdp.gamma());
    let mut values = vec![Dyadic::new(0.0); states];
    let mut rows = vec![STAY; states];
    for step in (0..steps as usize).rev() {
        if interrupt::requested() {
            return Err(TooLarge::Interrupted);
        }
        let policy = plan.map(|plan| &plan[step * states..(step + 1) * states]);
        let model = Restricted { mdp, policy };
        let q = |row: usize| {
            let (columns, probs) = mdp.transitions().row(row);
            let next = columns
                .iter()
                .zip(probs)
                .fold(Dyadic::new(0.0), |sum, (&to, &p)| sum.plus(Dyadic::new(p).times(&values[to as usize])));
            reward(mdp, row).times(&sign).plus(next.times(&gamma))
        };
        let best = |state: usize| {
            let mut best: Option<(Dyadic, usize)> = None;
            for row in model.rows(state) {
                let q = q(row);
                let better = best.as_ref().is_none_or(|(most, _)| {
                    q.clone().plus(Dyadic { mantissa: -most.mantissa.clone(), exponent: most.exponent }).mantissa
                        > IBig::ZERO
                });
                if better {
                    best = Some((q, row));
                }
            }
            best.unwrap_or((Dyadic::new(0.0), STAY))
        };
        let found: Vec<(Dyadic, usize)> = (0..states).into_par_iter().map(best).collect();
        (values, rows) = found.into_iter().unzip();
    }
    let exact = values.iter().map(|value| Exact::Finite(value.times(&sign).rational())).collect();
    Ok((exact, rows))
}

/// A policy of a reduced model that ends almost surely: each vertex takes a row that leads, with positive probability, nearer to the
/// end. Rows that `good` accepts come first; of a vertex that cannot get nearer by them, the others. Returns the row of each vertex.
pub(crate) fn proper(model: &Reduced<'_>, good: impl Fn(usize, usize) -> bool) -> Option<Vec<usize>> {
    let vertices = model.vertices();
    let mut chosen = vec![STAY; vertices];
    let mut there = vec![false; vertices];
    let mut entering: Vec<Vec<(u32, usize)>> = vec![Vec::new(); vertices];
    let mut ending = Vec::new();
    for vertex in 0..vertices {
        for row in model.first[vertex]..model.first[vertex + 1] {
            let origin = model.origin[row];
            let mut ends = origin == STAY || model.model.mdp.end(origin) > 0.0;
            if origin != STAY {
                for next in model.model.successors(origin) {
                    match model.place[next] {
                        Place::Open(to) => entering[to as usize].push((vertex as u32, row)),
                        Place::Fixed(_) => ends = true,
                    }
                }
            }
            if ends {
                ending.push((vertex as u32, row));
            }
        }
    }
    for all in [false, true] {
        // Vertices that are there already may be entered by rows that did not count before.
        let mut open: Vec<(u32, usize)> = ending.clone();
        open.extend((0..vertices).filter(|&vertex| there[vertex]).flat_map(|vertex| entering[vertex].iter().copied()));
        while let Some((vertex, row)) = open.pop() {
            let vertex = vertex as usize;
            if !there[vertex] && (all || good(vertex, row)) {
                (there[vertex], chosen[vertex]) = (true, row);
                open.extend(&entering[vertex]);
            }
        }
    }
    there.iter().all(|there| *there).then_some(chosen)
}

impl Exact {
    /// The smallest interval of `f64` around the value.
    #[must_use]
    pub fn enclosure(&self) -> Interval {
        let x = match self {
            Self::Finite(x) => x,
            Self::Infinite(value) => return Interval::point(*value),
        };
        let near = x.to_f64().value();
        if near.is_infinite() {
            return if near > 0.0 { Interval::new(f64::MAX, near) } else { Interval::new(near, -f64::MAX) };
        }
        let (mut lo, mut hi) = (near, near);
        while lo.is_finite() && rational(lo) > *x {
            lo = lo.next_down();
        }
        while hi.is_finite() && rational(hi) < *x {
            hi = hi.next_up();
        }
        Interval::new(lo, hi)
    }

    /// The nearest `f64`.
    #[must_use]
    pub fn nearest(&self) -> f64 {
        match self {
            Self::Finite(x) => x.to_f64().value(),
            Self::Infinite(value) => *value,
        }
    }
}

impl std::fmt::Display for Exact {
    /// `p/q`, an integer, `inf` or `-inf`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Finite(x) => x.fmt(f),
            Self::Infinite(value) => value.fmt(f),
        }
    }
}
