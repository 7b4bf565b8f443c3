//! The upper bound of a POMDP on every device, against its definition in f64.

use warpkov::pomdp::backend::{PointBackup, Trials, Walks};
use warpkov::pomdp::backends::device::{Backups, Limits, Walkers};
use warpkov::pomdp::belief::Belief;
use warpkov::pomdp::model::Pomdp;
use warpkov::pomdp::projection::Projection;
use warpkov::pomdp::solve::bounds::{fib, mdp, qmdp};
use warpkov::runtime::Precise;
use warpkov_runtime::device::AnyDevice;

use crate::check::{close, epsilon, same};
use crate::pomdp::of_actions;
use crate::random::Random;
use crate::{Outcome, Suite};

pub fn add(suite: &mut Suite) {
    suite.add("pomdp_upper::f32", upper_bounds::<f32>);
    suite.add("pomdp_upper::f64", upper_bounds::<f64>);
}

/// The upper bound, by its definition.
struct Known<'m> {
    model: &'m Pomdp,
    /// Q(s, a) at s·A + a.
    informed: Vec<f64>,
    /// Beliefs with upper bounds on V\*.
    points: Vec<(Belief, f64)>,
}

impl Known<'_> {
    fn informed(&self, belief: &Belief, action: usize) -> f64 {
        let actions = self.model.actions() as usize;
        belief.iter().map(|(s, p)| p * self.informed[s as usize * actions + action]).sum()
    }

    /// The minimum of maxₐ Σ b(s) Q(s, a) and the sawtooth bounds of all points.
    fn at(&self, belief: &Belief) -> f64 {
        let of_state = self.informed.chunks(self.model.actions() as usize);
        let corners: Vec<f64> =
            of_state.map(|values| values.iter().copied().fold(f64::NEG_INFINITY, f64::max)).collect();
        let own = belief.to_dense(self.model.states());
        let most =
            (0..self.model.actions() as usize).map(|a| self.informed(belief, a)).fold(f64::NEG_INFINITY, f64::max);
        self.points.iter().fold(most, |least, (point, value)| {
            let ratio = point.iter().map(|(s, p)| own[s as usize] / p).fold(f64::INFINITY, f64::min);
            least.min(belief.dot(&corners) + ratio * (value - point.dot(&corners)))
        })
    }

    /// maxₐ r(b, a) + γ Σₒ p(o | b, a) · bound(b^{a,o}).
    fn ahead(&self, belief: &Belief) -> f64 {
        let (rewards, mut projection) = (self.model.expected_rewards(), Projection::default());
        let value = |action: u32| {
            let mut value = self.model.reward(&rewards, belief, action);
            projection
                .each(self.model, belief, action, |_, prob, next| value += self.model.gamma() * prob * self.at(&next));
            value
        };
        (0..self.model.actions()).map(value).fold(f64::NEG_INFINITY, f64::max)
    }
}

/// The bounds agree with the definition after each batch of points, also after removal of dominated points.
fn upper_bounds<T: Precise>(device: &AnyDevice, _: usize) -> Outcome {
    let mut random = Random::new(78);
    for (states, actions, observations, rounds) in [(1, 1, 1, 1), (9, 2, 3, if T::WIDE { 7 } else { 1 }), (70, 3, 2, 1)]
    {
        let model = random.pomdp(states, actions, observations, 3, 2);
        let rewards = model.expected_rewards();
        let seen = mdp::mdp(&model, &rewards, 1e-9, &mut || false)?;
        let informed =
            fib::fib(&model, &rewards, qmdp::qmdp(&model, &rewards, &seen, &mut || false), 1e-3, &mut || false);
        let backups = Backups::<T>::new(device, &model, None, Limits::default())?;
        let mut tested = Walkers::new(device, &model, backups, &informed)?;
        tested.set_vectors(&of_actions(&random.vectors(1, states), vec![0]))?;
        let best_in = vec![0; states as usize];
        let walks = Walks { count: 16, optimistic: 8, guided: 0, explored: 0.5, best_in };
        let mut known = Known { model: &model, informed, points: Vec::new() };
        let tolerance = 64.0 * epsilon::<T>() + if rounds > 1 { 1e-6 } else { 0.0 };
        for round in 0..rounds {
            let walked = tested.walk(&walks, 3, 1 << 40, round, &mut || false)?;
            for number in (0..walked.batches).rev() {
                let beliefs = tested.beliefs(number)?;
                let before: Vec<f64> = beliefs.iter().map(|belief| known.at(belief)).collect();
                close("the bound before", &tested.upper(&beliefs)?, &before, tolerance, 0.0)?;
                let ahead: Vec<f64> = beliefs.iter().map(|belief| known.ahead(belief)).collect();
                let fallen = before.iter().zip(&ahead).map(|(before, ahead)| before - ahead).fold(0.0, f64::max);
                close("how much it falls", &[tested.tighten(number, 0.0)?], &[fallen], tolerance, 0.0)?;
                let lower = beliefs.into_iter().zip(ahead).zip(&before).filter(|((_, ahead), before)| ahead < before);
                known.points.extend(lower.map(|(point, _)| point));
            }
        }
        let start = [model.start().clone()];
        let bound = tested.upper(&start)?;
        close("the bound of b₀", &bound, &[known.at(&start[0])], tolerance, 0.0)?;
        let first = Known { points: Vec::new(), ..known }.at(&start[0]);
        same("which fell", &[states == 1 || bound[0] < first - 0.01], &[true])?;
    }
    Ok(())
}
