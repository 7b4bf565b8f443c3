//! Policy evaluation by a Krylov method.
//!
//! V^π solves (I − γP^π)V = r^π. Sweeps reduce the error by γ each, which is slow where γ is near 1 and the chain forgets
//! slowly; BiCGSTAB (van der Vorst, *SIAM J. Sci. Stat. Comput.* 13, 1992) needs about as many products with P^π as the
//! square root of that number, and fewer with a preconditioner, which stands to the right, so that residuals are the true
//! ones. It can break down, so it is started anew from the true residual, r^π − (I − γP^π)V, whenever
//! that happens, and where a start does not help, sweeps come first: those always contract. What is returned is the best V
//! by its true residual.
//!
//! Policy iteration does not need early policies exactly: the tolerance of an evaluation is [`FORCING`] times the residual
//! it starts from, which is the Bellman residual of V, but never less than θ (inexact policy iteration; Gargiani, Liao-McPherson,
//! Zanelli and Lygeros, *Inexact GMRES policy iteration for large-scale Markov decision processes*, 2022).

use super::backend::{Evaluate, Evaluation, State};
use crate::common::interrupt;

/// How far the residual is reduced before the policy is improved.
pub const FORCING: f64 = 1e-2;

/// Sweeps after a start that did not halve the residual; twice as many after each that follows.
const SWEEPS: u32 = 8;

/// Starts, with the sweeps before them, that reduce nothing, after which rounding errors are to blame.
const MAX_IDLE: u32 = 3;

/// Iterations without a smaller residual after which the method is started anew.
const PATIENCE: u32 = 1000;

/// How far one start may reduce the residual: beyond, what is updated and what is true drift apart.
const REDUCTION: f64 = 1e-8;

/// Vectors over states, and the system (I − γP)x = r of the present policy. All numbers are f64.
pub trait Linear: Evaluate {
    /// One number per state, 0 where it is terminal.
    type Vector;

    /// A vector of zeros.
    fn vector(&mut self) -> Result<Self::Vector, Self::Error>;

    /// Makes the system of the present policy the one that [`apply`](Self::apply) and [`residual`](Self::residual) are of.
    fn prepare(&mut self) -> Result<(), Self::Error>;

    /// `x` ← V.
    fn load(&mut self, x: &mut Self::Vector) -> Result<(), Self::Error>;

    /// V ← `x`.
    fn store(&mut self, x: &Self::Vector) -> Result<(), Self::Error>;

    /// `y` ← (I − γP)`x`.
    fn apply(&mut self, x: &Self::Vector, y: &mut Self::Vector) -> Result<(), Self::Error>;

    /// `y` ← M⁻¹`x`, where M is close to I − γP, and the same every time.
    fn precondition(&mut self, x: &Self::Vector, y: &mut Self::Vector) -> Result<(), Self::Error> {
        self.copy(x, y)
    }

    /// `y` ← r − (I − γP)`x`; returns ‖y‖∞, infinite where that is not a number.
    fn residual(&mut self, x: &Self::Vector, y: &mut Self::Vector) -> Result<f64, Self::Error>;

    /// `x`·`y` and `x`·`z`. The same vectors give the same numbers every time.
    fn dots(&mut self, x: &Self::Vector, y: &Self::Vector, z: &Self::Vector) -> Result<(f64, f64), Self::Error>;

    /// `y` ← `a``y` + `b``x` + `c``z`. Where `a` is 0, the old `y` does not matter.
    fn combine(
        &mut self,
        a: f64,
        y: &mut Self::Vector,
        b: f64,
        x: &Self::Vector,
        c: f64,
        z: &Self::Vector,
    ) -> Result<(), Self::Error>;

    /// `y` ← `x`.
    fn copy(&mut self, x: &Self::Vector, y: &mut Self::Vector) -> Result<(), Self::Error> {
        self.combine(0.0, y, 1.0, x, 0.0, x)
    }
}

/// A backend whose policies are evaluated by BiCGSTAB.
pub struct Krylov<B: Linear> {
    backend: B,
    vectors: Vectors<B::Vector>,
}

struct Vectors<V> {
    x: V,
    best: V,
    residual: V,
    shadow: V,
    direction: V,
    /// M⁻¹ times the direction.
    preconditioned: V,
    image: V,
    step: V,
    /// M⁻¹ times the residual after half a step.
    half: V,
}

impl<B: Linear> Krylov<B> {
    /// Takes nine vectors.
    ///
    /// # Errors
    /// Those of the backend.
    pub fn new(mut backend: B) -> Result<Self, B::Error> {
        let vectors = Vectors {
            x: backend.vector()?,
            best: backend.vector()?,
            residual: backend.vector()?,
            shadow: backend.vector()?,
            direction: backend.vector()?,
            preconditioned: backend.vector()?,
            image: backend.vector()?,
            step: backend.vector()?,
            half: backend.vector()?,
        };
        Ok(Self { backend, vectors })
    }

    /// One start of BiCGSTAB from `x` and its true `residual`, until the 2-norm of the residual as updated is `reduction`
    /// times what it was, the method breaks down, or `most` products are done. Returns how many were.
    fn start(&mut self, reduction: f64, most: u32) -> Result<u32, B::Error> {
        let Vectors { x, residual: r, shadow, direction: p, preconditioned: y, image: v, step: t, half: z, .. } =
            &mut self.vectors;
        let backend = &mut self.backend;
        backend.copy(r, shadow)?;
        backend.copy(r, p)?;
        let (mut rho, first) = backend.dots(r, shadow, r)?;
        let (mut least, mut waited, mut products) = (first, 0, 0);
        while products + 2 <= most && !interrupt::requested() {
            backend.precondition(p, y)?;
            backend.apply(y, v)?;
            products += 1;
            let (projection, _) = backend.dots(shadow, v, v)?;
            let alpha = rho / projection;
            if !alpha.is_finite() {
                break;
            }
            // r becomes s = r − αv, then s − ωt.
            backend.combine(1.0, r, -alpha, v, 0.0, v)?;
            backend.precondition(r, z)?;
            backend.apply(z, t)?;
            products += 1;
            let (ts, tt) = backend.dots(t, r, t)?;
            let omega = if tt > 0.0 { ts / tt } else { 0.0 };
            backend.combine(1.0, x, alpha, y, omega, z)?;
            backend.combine(1.0, r, -omega, t, 0.0, t)?;
            let (next_rho, norm) = backend.dots(r, shadow, r)?;
            let beta = next_rho / rho * (alpha / omega);
            waited = if norm < least { 0 } else { waited + 1 };
            least = least.min(norm);
            let hopeless = waited > PATIENCE || norm > first / (REDUCTION * REDUCTION);
            if norm <= reduction * reduction * first || hopeless || !beta.is_finite() || !norm.is_finite() {
                break;
            }
            rho = next_rho;
            backend.combine(beta, p, 1.0, r, -beta * omega, v)?;
        }
        Ok(products)
    }

    /// Solves until the true residual is below the tolerance. Products with P^π count as sweeps.
    fn solve(&mut self, theta: f64, max_sweeps: u32) -> Result<Evaluation, B::Error> {
        let Self { backend, vectors } = self;
        backend.prepare()?;
        backend.load(&mut vectors.x)?;
        let mut norm = backend.residual(&vectors.x, &mut vectors.residual)?;
        let tolerance = theta.max(FORCING * norm);
        let (mut best, mut sweeps) = (f64::INFINITY, 1);
        // Starts in a row that did not halve the residual, and those that did not reduce it at all.
        let (mut failures, mut idle) = (0, 0);
        loop {
            let Self { backend, vectors } = self;
            failures = if norm < best / 2.0 { 0 } else { failures + 1 };
            idle = if norm < best { 0 } else { idle + 1 };
            if norm < best {
                best = norm;
                backend.copy(&vectors.x, &mut vectors.best)?;
            } else {
                backend.copy(&vectors.best, &mut vectors.x)?;
                norm = backend.residual(&vectors.x, &mut vectors.residual)?;
                sweeps += 1;
            }
            // Where the method fails again and again, sweeps take over.
            let fallback = if failures == 0 { 0 } else { SWEEPS << failures.min(16) };
            for _ in 0..fallback {
                if norm < tolerance || sweeps >= max_sweeps || interrupt::requested() {
                    break;
                }
                // TV = V + (TV − V)
                backend.combine(1.0, &mut vectors.x, 1.0, &vectors.residual, 0.0, &vectors.residual)?;
                norm = backend.residual(&vectors.x, &mut vectors.residual)?;
                sweeps += 1;
            }
            if norm < best {
                (best, idle) = (norm, 0);
                backend.copy(&vectors.x, &mut vectors.best)?;
            }
            if best < tolerance || sweeps >= max_sweeps || idle > MAX_IDLE || interrupt::requested() {
                backend.store(&vectors.best)?;
                return Ok(Evaluation { sweeps, residual: best });
            }
            // As if the residual kept its shape; half of that, for it does not.
            let reduction = (0.5 * tolerance / norm).clamp(REDUCTION, 0.5);
            sweeps += self.start(reduction, max_sweeps.saturating_sub(sweeps))?;
            let Self { backend, vectors } = self;
            norm = backend.residual(&vectors.x, &mut vectors.residual)?;
            sweeps += 1;
        }
    }
}

impl<B: Linear> State for Krylov<B> {
    type Error = B::Error;

    fn reset(&mut self, initial: Option<&[f64]>) -> Result<(), B::Error> {
        self.backend.reset(initial)
    }

    fn values(&mut self) -> Result<Vec<f64>, B::Error> {
        self.backend.values()
    }

    fn policy(&mut self) -> Result<Vec<u32>, B::Error> {
        self.backend.policy()
    }

    fn sweep_bytes(&mut self) -> Result<u64, B::Error> {
        self.backend.sweep_bytes()
    }
}

impl<B: Linear> Evaluate for Krylov<B> {
    /// Evaluates to `theta`, or to [`FORCING`] times the residual at the start where that is more.
    fn evaluate(&mut self, theta: f64, max_sweeps: u32) -> Result<Evaluation, B::Error> {
        self.solve(theta, max_sweeps)
    }

    fn improve(&mut self, tie: f64) -> Result<u64, B::Error> {
        self.backend.improve(tie)
    }
}
