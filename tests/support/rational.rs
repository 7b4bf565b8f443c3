//! Exact values of policies, from Markov chains in rational arithmetic.

use std::cmp::Ordering;

use dashu_ratio::RBig;
use warpkov_mdp::model::{Mdp, NO_ACTION, Objective};

/// A rational number, or ±∞ as an f64.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Finite(RBig),
    Infinite(f64),
}

/// The rational number that equals x.
pub fn exact(x: f64) -> RBig {
    RBig::try_from(x).unwrap()
}

impl Value {
    pub fn of(x: f64) -> Self {
        if x.is_finite() { Self::Finite(exact(x)) } else { Self::Infinite(x) }
    }

    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Finite(a), Self::Finite(b)) => a.cmp(b),
            (Self::Infinite(a), Self::Infinite(b)) => a.total_cmp(b),
            (Self::Infinite(a), _) => a.total_cmp(&0.0),
            (_, Self::Infinite(b)) => 0.0_f64.total_cmp(b),
        }
    }

    /// The better of the two values.
    pub fn best(self, other: Self, objective: Objective) -> Self {
        let larger = self.compare(&other) == Ordering::Greater;
        if larger == (objective == Objective::Maximize) { self } else { other }
    }

    /// Whether `lower` ≤ value ≤ `upper`.
    pub fn is_within(&self, lower: f64, upper: f64) -> bool {
        Self::of(lower).compare(self) != Ordering::Greater && self.compare(&Self::of(upper)) != Ordering::Greater
    }

    /// Whether |x − value| ≤ `absolute` + `relative` · |value|.
    pub fn is_near(&self, x: f64, absolute: f64, relative: f64) -> bool {
        match (self, Self::of(x)) {
            (Self::Finite(value), Self::Finite(x)) => {
                size(x - value) <= exact(absolute) + exact(relative) * size(value.clone())
            }
            (value, x) => *value == x,
        }
    }
}

/// |x|
fn size(x: RBig) -> RBig {
    if x < RBig::ZERO { -x } else { x }
}

/// The Markov chain of a policy, with an additional state for the end of the process. Rows are normalised to sum 1.
pub struct Chain {
    p: Vec<Vec<RBig>>,
    r: Vec<RBig>,
    /// Whether j is reachable from i in zero or more steps.
    reaches: Vec<Vec<bool>>,
}

impl Chain {
    pub fn new(mdp: &Mdp, policy: &[u32], absorbing: &[bool]) -> Self {
        let n = mdp.states() as usize;
        let (mut p, mut r) = (vec![vec![RBig::ZERO; n + 1]; n + 1], vec![RBig::ZERO; n + 1]);
        p[n][n] = RBig::ONE;
        for s in 0..n {
            if absorbing[s] {
                p[s][s] = RBig::ONE;
                continue;
            }
            if policy[s] == NO_ACTION {
                p[s][n] = RBig::ONE;
                continue;
            }
            let row = mdp.choices().first(s) + policy[s] as usize;
            let (cols, probs) = mdp.transitions().row(row);
            let sum = probs.iter().map(|&p| exact(p)).fold(exact(mdp.end(row)), |sum, p| sum + p);
            cols.iter().zip(probs).for_each(|(&col, &prob)| p[s][col as usize] += exact(prob) / &sum);
            p[s][n] += exact(mdp.end(row)) / &sum;
            let (reward_cols, rewards) = mdp.rewards().row(row);
            let earned = cols.iter().zip(probs).map(|(col, &p)| match reward_cols.iter().position(|c| c == col) {
                Some(position) => exact(p) * exact(rewards[position]),
                None => RBig::ZERO,
            });
            r[s] = earned.fold(exact(mdp.action_reward(row)), |sum, r| sum + r);
        }
        let mut reaches: Vec<Vec<bool>> = p.iter().map(|row| row.iter().map(|x| *x > RBig::ZERO).collect()).collect();
        (0..=n).for_each(|i| reaches[i][i] = true);
        for k in 0..=n {
            for i in 0..=n {
                for j in 0..=n {
                    reaches[i][j] |= reaches[i][k] && reaches[k][j];
                }
            }
        }
        Self { p, r, reaches }
    }

    fn states(&self) -> std::ops::Range<usize> {
        0..self.r.len()
    }

    fn is_recurrent(&self, i: usize) -> bool {
        self.states().all(|j| !self.reaches[i][j] || self.reaches[j][i])
    }

    /// Solves x = b + P x on the `inner` states, given x on the other states.
    fn solve(
        &self,
        inner: impl Fn(usize) -> bool,
        b: impl Fn(usize) -> RBig,
        outer: impl Fn(usize) -> RBig,
    ) -> Vec<RBig> {
        let equation = |i: usize| {
            let mut row: Vec<RBig> = self.states().map(|j| whole(i == j)).collect();
            if inner(i) {
                row.iter_mut().zip(&self.p[i]).for_each(|(entry, p)| *entry -= p);
            }
            row.push(if inner(i) { b(i) } else { outer(i) });
            row
        };
        eliminate(self.states().map(equation).collect())
    }

    pub fn reach(&self, goal: &[bool]) -> Vec<Value> {
        let can = |i: usize| self.states().any(|j| goal[j] && self.reaches[i][j]);
        finite(self.solve(|i| can(i) && !goal[i], |_| RBig::ZERO, |i| whole(goal[i])))
    }

    /// Expected discounted sum of rewards.
    #[allow(dead_code, reason = "not every test that shares this file has a discount")]
    pub fn discounted(&self, gamma: f64) -> Vec<Value> {
        let equation = |i: usize| {
            let mut row: Vec<RBig> = self.states().map(|j| whole(i == j) - exact(gamma) * &self.p[i][j]).collect();
            row.push(self.r[i].clone());
            row
        };
        finite(eliminate(self.states().map(equation).collect()))
    }

    /// r + γ P v: the values one step earlier.
    #[allow(dead_code, reason = "not every test that shares this file has plans")]
    pub fn backup(&self, gamma: f64, v: &[Value]) -> Vec<Value> {
        let number = |value: &Value| if let Value::Finite(x) = value { x.clone() } else { RBig::ZERO };
        let next = |i: usize| self.states().fold(RBig::ZERO, |sum, j| sum + &self.p[i][j] * number(&v[j]));
        finite(self.states().map(|i| &self.r[i] + exact(gamma) * next(i)).collect())
    }

    /// Expected total reward until a goal, with absorbing goals; `missed` in states that may miss all goals.
    pub fn total(&self, goal: &[bool], missed: f64) -> Vec<Value> {
        let can = |i: usize| self.states().any(|j| goal[j] && self.reaches[i][j]);
        let may_miss = |i: usize| self.states().any(|j| self.reaches[i][j] && !can(j));
        let mut x = finite(self.solve(|i| !may_miss(i) && !goal[i], |i| self.r[i].clone(), |_| RBig::ZERO));
        self.states().filter(|&i| may_miss(i)).for_each(|i| x[i] = Value::Infinite(missed));
        x
    }

    /// Expected total reward over an infinite horizon. Rewards in recurrent states must have one sign.
    pub fn cumulative(&self) -> Vec<Value> {
        let pays = |i: usize| self.is_recurrent(i) && self.r[i] != RBig::ZERO;
        let infinite = |i: usize| self.states().find(|&j| self.reaches[i][j] && pays(j));
        let transient = |i: usize| !self.is_recurrent(i) && infinite(i).is_none();
        let mut x = finite(self.solve(transient, |i| self.r[i].clone(), |_| RBig::ZERO));
        for i in self.states() {
            if let Some(j) = infinite(i) {
                x[i] = Value::Infinite(if self.r[j] > RBig::ZERO { f64::INFINITY } else { f64::NEG_INFINITY });
            }
        }
        x
    }

    pub fn gain(&self) -> Vec<Value> {
        // The stationary distribution of the class of i: μ = μP on it, Σ μ = 1.
        let of_class = |i: usize| {
            let class = |j: usize| self.reaches[i][j];
            let equation = |j: usize| {
                let mut row: Vec<RBig> = match j {
                    _ if j == i => self.states().map(|k| whole(class(k))).collect(),
                    _ => self.states().map(|k| whole(j == k)).collect(),
                };
                if j != i && class(j) {
                    self.states().filter(|&k| class(k)).for_each(|k| row[k] -= &self.p[k][j]);
                }
                row.push(whole(j == i));
                row
            };
            let mu = eliminate(self.states().map(equation).collect());
            mu.iter().zip(&self.r).fold(RBig::ZERO, |sum, (mu, r)| sum + mu * r)
        };
        let of_recurrent = |i: usize| if self.is_recurrent(i) { of_class(i) } else { RBig::ZERO };
        finite(self.solve(|i| !self.is_recurrent(i), |_| RBig::ZERO, of_recurrent))
    }
}

fn whole(is: bool) -> RBig {
    if is { RBig::ONE } else { RBig::ZERO }
}

fn finite(x: Vec<RBig>) -> Vec<Value> {
    x.into_iter().map(Value::Finite).collect()
}

/// Solves linear equations by Gaussian elimination. Each row is an equation, followed by its right-hand side.
fn eliminate(mut a: Vec<Vec<RBig>>) -> Vec<RBig> {
    let n = a.len();
    for k in 0..n {
        let pivot = (k..n).find(|&i| a[i][k] != RBig::ZERO).expect("singular");
        a.swap(k, pivot);
        let pivot = a[k].clone();
        for (i, row) in a.iter_mut().enumerate() {
            if i != k && row[k] != RBig::ZERO {
                let factor = &row[k] / &pivot[k];
                row.iter_mut().zip(&pivot).skip(k).for_each(|(entry, pivot)| *entry -= &factor * pivot);
            }
        }
    }
    (0..n).map(|k| &a[k][n] / &a[k][k]).collect()
}

/// The optimal values, by enumeration of all policies. `value` computes the values of one policy.
pub fn enumerate(mdp: &Mdp, value: impl Fn(&[u32]) -> Vec<Value>) -> Vec<Value> {
    let n = mdp.states() as usize;
    let mut policy = mdp.first_policy();
    let mut best = value(&policy);
    loop {
        let next = (0..n).find(|&s| {
            let count = mdp.choices().count(s) as u32;
            if count == 0 {
                return false;
            }
            policy[s] = (policy[s] + 1) % count;
            policy[s] != 0
        });
        if next.is_none() {
            return best;
        }
        best = best.into_iter().zip(value(&policy)).map(|(best, value)| best.best(value, mdp.objective())).collect();
    }
}
