//! Policy evaluation by BiCGSTAB.
//!
//! V^π solves (I − γP^π)V = r^π. Sweeps reduce the error by γ each, which is slow for γ near 1 and slowly mixing
//! chains. BiCGSTAB (van der Vorst, *SIAM J. Sci. Stat. Comput.* 13, 1992) needs about the square root of that number
//! of products with P^π, and fewer with a preconditioner. The preconditioner acts from the right, so residuals are
//! those of the original system.
//!
//! BiCGSTAB can break down. It then restarts from the true residual r^π − (I − γP^π)V. If a restart does not halve the
//! residual, sweeps precede the next one, since sweeps always contract. The result is the V with the smallest true
//! residual.
//!
//! Policy iteration does not need exact values of early policies. The tolerance of an evaluation is [`FORCING`] times
//! its initial residual, the Bellman residual of V, but at least θ. This is inexact policy iteration (Gargiani,
//! Liao-McPherson, Zanelli and Lygeros, *Inexact GMRES policy iteration for large-scale Markov decision processes*,
//! 2022).
//!
//! A residual δ leaves an error of up to δ/(1 − γ) in V, which is large for γ near 1. Greedy actions for such a V may be
//! worse than the old ones, and policies may repeat. Two rules make the iteration converge:
//! - The tolerance is at most max |r(s, a)|. So |V| is at most twice max |r|/(1 − γ), the bound of all values, where it would
//!   grow from policy to policy.
//! - If eight policies in a row have not halved the Bellman residual, greedy sweeps V ← TV precede the next evaluation,
//!   and twice as many each further one. Greedy sweeps contract, so they take over where evaluations do not help.
//!
//! The initial residual of an evaluation is the Bellman residual of V. Below θ, it proves V without a stable policy.

use crate::backend::{Evaluate, Evaluation, GreedySweeps, State, Stop};
use crate::model::{CHUNK, Mdp};
use crate::team::Team;
use warpkov_common::parallel;
use warpkov_runtime::comm;

/// Factor by which an evaluation reduces the residual.
pub const FORCING: f64 = 1e-2;

/// Base of the number of sweeps before a restart: 2ⁿ times as many after n starts in a row that did not halve the
/// residual.
const SWEEPS: u32 = 8;

/// Maximum consecutive starts, including their sweeps, without a smaller residual. After these, rounding errors prevent
/// further progress.
const MAX_IDLE: u32 = 3;

/// Iterations without a smaller residual before a restart.
const PATIENCE: u32 = 1000;

/// Maximum reduction of the residual per start. Beyond this factor, the updated residual drifts from the true one.
const REDUCTION: f64 = 1e-8;

/// Policies in a row that do not halve the Bellman residual before greedy sweeps precede evaluations.
const REPEATS: u32 = 8;

/// What a model says about the values of all its policies.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Upper bound on |r(s, a)|.
    reward: f64,
    /// Upper bound on |V(s)|.
    value: f64,
}

impl Scale {
    /// The scale of a model, of which each rank of `team` has a part.
    ///
    /// # Errors
    /// If a rank fails.
    pub fn new(mdp: &Mdp, team: &Team) -> Result<Self, comm::Error> {
        let chunks = parallel::map(mdp.expected_rewards().chunks(CHUNK).enumerate(), |(chunk, rewards)| {
            let (mut reward, mut sum): (f64, f64) = (0.0, 0.0);
            for (row, expected) in (chunk * CHUNK..).zip(rewards) {
                reward = reward.max(expected.abs());
                sum = sum.max(mdp.transitions().row(row).1.iter().sum());
            }
            [reward, sum]
        });
        let mut found = chunks.into_iter().fold([0.0, 0.0], |[a, b]: [f64; 2], [x, y]| [a.max(x), b.max(y)]);
        team.max(&mut found)?;
        let [reward, sum] = found;
        // For rounding errors.
        let margin = 1.0 - mdp.gamma() * sum * (1.0 + 1e-12);
        Ok(Self { reward, value: if margin > 0.0 { reward / margin } else { f64::INFINITY } })
    }
}

/// Operations of BiCGSTAB on state vectors and on the system (I − γP)x = r of the current policy, all in f64.
pub trait Linear: Evaluate + GreedySweeps {
    /// A vector with one number per state; 0 for terminal states.
    type Vector;

    /// Whether a stop was requested, on any rank, before the last [`dots`](Self::dots) or
    /// [`residual`](Self::residual): these take the request along, so that it costs no message.
    fn stopped(&self) -> bool;

    /// Allocates a zero vector.
    fn vector(&mut self) -> Result<Self::Vector, Self::Error>;

    /// Prepares [`apply`](Self::apply) and [`residual`](Self::residual) for the system of the current policy.
    fn prepare(&mut self) -> Result<(), Self::Error>;

    /// `x` ← V.
    fn load(&mut self, x: &mut Self::Vector) -> Result<(), Self::Error>;

    /// V ← `x`.
    fn store(&mut self, x: &Self::Vector) -> Result<(), Self::Error>;

    /// `y` ← (I − γP)`x`. May change the ghosts of `x`; those of `y` are 0.
    fn apply(&mut self, x: &mut Self::Vector, y: &mut Self::Vector) -> Result<(), Self::Error>;

    /// `y` ← M⁻¹`x` for a fixed linear M ≈ I − γP.
    fn precondition(&mut self, x: &Self::Vector, y: &mut Self::Vector) -> Result<(), Self::Error> {
        self.copy(x, y)
    }

    /// `y` ← r − (I − γP)`x`. Returns ‖y‖∞, or infinity if an element is NaN. May change the ghosts of `x`; those of `y`
    /// are 0.
    fn residual(&mut self, x: &mut Self::Vector, y: &mut Self::Vector) -> Result<f64, Self::Error>;

    /// `x`·`y` and `x`·`z`, deterministic for the same vectors.
    fn dots(&mut self, x: &Self::Vector, y: &Self::Vector, z: &Self::Vector) -> Result<(f64, f64), Self::Error>;

    /// `y` ← `a``y` + `b``x` + `c``z`. For `a` = 0, `y` may hold anything.
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

/// A backend of policy iteration with BiCGSTAB as its policy evaluation.
pub struct Krylov<B: Linear> {
    backend: B,
    vectors: Vectors<B::Vector>,
    scale: Scale,
    progress: Progress,
}

/// How far policies have come since the last reset.
#[derive(Clone, Copy)]
struct Progress {
    /// The tie margin of the last improvement; `None` before the first.
    tie: Option<f64>,
    /// Upper bound on ‖TV − V‖∞ of the V that the last evaluation began with.
    bellman: f64,
    /// The least `bellman`.
    least: f64,
    /// Consecutive policies that did not halve it.
    failures: u32,
    /// Whether the last evaluation ended before θ.
    rough: bool,
}

impl Progress {
    const NONE: Self = Self { tie: None, bellman: f64::INFINITY, least: f64::INFINITY, failures: 0, rough: false };

    /// Takes note of the initial residual of an evaluation. Returns the number of greedy sweeps that precede it.
    fn begin(&mut self, residual: f64) -> u32 {
        // The policy is greedy up to the tie margin.
        self.bellman = self.tie.map_or(f64::INFINITY, |tie| residual + tie);
        self.failures = if self.bellman < self.least / 2.0 { 0 } else { self.failures + 1 };
        self.least = self.least.min(self.bellman);
        if self.failures <= REPEATS { 0 } else { SWEEPS << (self.failures - REPEATS).min(24) }
    }
}

struct Vectors<V> {
    x: V,
    best: V,
    residual: V,
    shadow: V,
    direction: V,
    /// M⁻¹ · direction.
    preconditioned: V,
    image: V,
    step: V,
    /// M⁻¹ · residual after the first half-step.
    half: V,
}

impl<B: Linear> Krylov<B> {
    /// Allocates nine vectors for a model of this scale.
    ///
    /// # Errors
    /// Errors of the backend.
    pub fn new(mut backend: B, scale: Scale) -> Result<Self, B::Error> {
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
        Ok(Self { backend, vectors, scale, progress: Progress::NONE })
    }

    /// One run of BiCGSTAB from `x` and its true `residual`. Ends when the 2-norm of the updated residual falls to
    /// `reduction` times its initial value, on breakdown, or after `most` products. Returns the number of products.
    fn start(&mut self, reduction: f64, most: u32) -> Result<u32, B::Error> {
        let Vectors { x, residual: r, shadow, direction: p, preconditioned: y, image: v, step: t, half: z, .. } =
            &mut self.vectors;
        let backend = &mut self.backend;
        backend.copy(r, shadow)?;
        backend.copy(r, p)?;
        let (mut rho, first) = backend.dots(r, shadow, r)?;
        let (mut least, mut idle_iterations, mut products) = (first, 0, 0);
        while products + 2 <= most && !backend.stopped() {
            backend.precondition(p, y)?;
            backend.apply(y, v)?;
            products += 1;
            let (projection, _) = backend.dots(shadow, v, v)?;
            let alpha = rho / projection;
            if !alpha.is_finite() {
                break;
            }
            // r holds s = r − αv here, and s − ωt below.
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
            idle_iterations = if norm < least { 0 } else { idle_iterations + 1 };
            least = least.min(norm);
            let no_progress = idle_iterations > PATIENCE || norm > first / (REDUCTION * REDUCTION);
            if norm <= reduction * reduction * first || no_progress || !beta.is_finite() || !norm.is_finite() {
                break;
            }
            rho = next_rho;
            backend.combine(beta, p, 1.0, r, -beta * omega, v)?;
        }
        Ok(products)
    }

    /// Prepares the system of the current policy, with x = V. Returns its residual.
    fn load(&mut self) -> Result<f64, B::Error> {
        let Self { backend, vectors, .. } = self;
        backend.prepare()?;
        backend.load(&mut vectors.x)?;
        backend.residual(&mut vectors.x, &mut vectors.residual)
    }

    /// Solves until the true residual is below the tolerance. Each product with P^π counts as a sweep.
    fn solve(&mut self, theta: f64, max_sweeps: u32) -> Result<Evaluation, B::Error> {
        let mut norm = self.load()?;
        let mut sweeps = 1;
        let greedy = self.progress.begin(norm).min(max_sweeps.saturating_sub(1));
        self.progress.rough = norm >= theta;
        if self.progress.bellman < theta {
            return Ok(Evaluation { sweeps, residual: norm });
        }
        if greedy > 0 {
            let swept = self.backend.backup(Stop::Change(theta), greedy)?;
            sweeps += swept.sweeps;
            norm = self.load()?;
            self.progress.rough = swept.residual() >= theta;
            if swept.fixed || swept.residual() < theta || sweeps >= max_sweeps {
                return Ok(Evaluation { sweeps, residual: swept.residual() });
            }
        }
        let tolerance = theta.max((FORCING * norm).min(self.scale.reward));
        let mut best = f64::INFINITY;
        // Consecutive starts that did not halve the residual, and consecutive starts that did not reduce it.
        let (mut failures, mut idle) = (0, 0);
        loop {
            let Self { backend, vectors, .. } = self;
            failures = if norm < best / 2.0 { 0 } else { failures + 1 };
            idle = if norm < best { 0 } else { idle + 1 };
            if norm < best {
                best = norm;
                backend.copy(&vectors.x, &mut vectors.best)?;
            } else {
                backend.copy(&vectors.best, &mut vectors.x)?;
                norm = backend.residual(&mut vectors.x, &mut vectors.residual)?;
                sweeps += 1;
            }
            // After failed starts, sweeps reduce the residual first.
            let fallback = if failures == 0 { 0 } else { SWEEPS << failures.min(16) };
            for _ in 0..fallback {
                if norm < tolerance || sweeps >= max_sweeps || backend.stopped() {
                    break;
                }
                // A sweep: TV = V + (TV − V).
                backend.combine(1.0, &mut vectors.x, 1.0, &vectors.residual, 0.0, &vectors.residual)?;
                norm = backend.residual(&mut vectors.x, &mut vectors.residual)?;
                sweeps += 1;
            }
            if norm < best {
                (best, idle) = (norm, 0);
                backend.copy(&vectors.x, &mut vectors.best)?;
            }
            if best < tolerance || sweeps >= max_sweeps || idle > MAX_IDLE || backend.stopped() {
                // Else V may be far from all values, and keeps what it was.
                if best <= self.scale.reward {
                    backend.store(&vectors.best)?;
                }
                self.progress.rough = best >= theta;
                return Ok(Evaluation { sweeps, residual: best });
            }
            // The 2-norm must fall as far as the ∞-norm, with a factor of 2 to spare.
            let reduction = (0.5 * tolerance / norm).clamp(REDUCTION, 0.5);
            sweeps += self.start(reduction, max_sweeps.saturating_sub(sweeps))?;
            let Self { backend, vectors, .. } = self;
            norm = backend.residual(&mut vectors.x, &mut vectors.residual)?;
            sweeps += 1;
        }
    }
}

impl<B: Linear> State for Krylov<B> {
    type Error = B::Error;

    fn reset(&mut self, initial: Option<&[f64]>) -> Result<(), B::Error> {
        self.progress = Progress::NONE;
        self.backend.reset(initial)
    }

    /// V. If its policy was evaluated to less than θ, it is cut to the bounds of all values. Else it may leave them by less than its
    /// error: a cut would raise the residual of neighbours with the same error.
    fn values(&mut self) -> Result<Vec<f64>, B::Error> {
        let mut values = self.backend.values()?;
        let most = if self.progress.rough { self.scale.value } else { f64::INFINITY };
        values.iter_mut().for_each(|value| *value = value.clamp(-most, most));
        Ok(values)
    }

    fn policy(&mut self) -> Result<Vec<u32>, B::Error> {
        self.backend.policy()
    }

    fn sweep_bytes(&mut self) -> Result<u64, B::Error> {
        self.backend.sweep_bytes()
    }
}

impl<B: Linear> Evaluate for Krylov<B> {
    /// Evaluates to the residual `theta`, or to [`FORCING`] times the initial residual if that is larger.
    fn evaluate(&mut self, theta: f64, max_sweeps: u32) -> Result<Evaluation, B::Error> {
        self.solve(theta, max_sweeps)
    }

    fn improve(&mut self, tie: f64) -> Result<u64, B::Error> {
        self.progress.tie = Some(tie);
        self.backend.improve(tie)
    }

    fn bellman_residual(&self) -> f64 {
        self.progress.bellman
    }
}
