//! When a run has ended, progresses, or is slow.

use crate::model::Pomdp;
use crate::options::Limits;
use crate::solution::Round;

/// Number of consecutive expansions without progress that ends a run.
pub const PATIENCE: u32 = 64;

/// Least improvement of a value that helps to close the gap.
#[must_use]
pub fn min_improvement(model: &Pomdp, gap: f64) -> f64 {
    gap * (1.0 - model.gamma()) / 10.0
}

/// Watches how fast a gap closes, to say once that it is slow.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Seconds at which the gap is looked at again; infinite after it was slow.
    due: f64,
    /// The gap at half of these seconds.
    before: f64,
}

impl Patience {
    /// Seconds before the first comparison.
    const FIRST: f64 = 8.0;
    /// The ratio of two gaps, the second at twice the time of the first, above which a gap closes slowly.
    const SLOW: f64 = 0.8;

    /// Watches a run with these limits. One that time or the number of expansions ends is never slow.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        let ends = limits.time.is_some() || limits.iterations.is_some();
        Self { due: if ends { f64::INFINITY } else { Self::FIRST }, before: f64::INFINITY }
    }

    /// Whether the gap closes slowly. True at most once.
    pub fn is_slow(&mut self, round: &Round) -> bool {
        let (seconds, gap) = (round.seconds, round.gap());
        if seconds < self.due {
            return false;
        }
        let slow = gap > Self::SLOW * self.before;
        *self = Self { due: if slow { f64::INFINITY } else { 2.0 * seconds }, before: gap };
        slow
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The seconds of 1, 2, 3 … at which a gap is slow.
    fn slow(limits: &Limits, gap: &dyn Fn(f64) -> f64) -> Vec<u32> {
        let mut patience = Patience::new(limits);
        let round = |second: f64| Round {
            seconds: second,
            iterations: 0,
            backups: 0,
            beliefs: 1,
            vectors: 1,
            lower: 0.0,
            upper: gap(second),
        };
        (1_u32..=1000).filter(|&second| patience.is_slow(&round(second.into()))).collect()
    }

    #[test]
    fn a_gap_that_closes_slowly_is_noticed_once() {
        let slow_at = |gap: &dyn Fn(f64) -> f64| slow(&Limits::default(), gap);
        // Halved in each doubling of the time: never. Decreased by a tenth: at the first comparison.
        assert!(slow_at(&|seconds| 1.0 / seconds).is_empty());
        assert_eq!(slow_at(&|seconds| seconds.powf(0.9_f64.log2())), [16]);
        assert_eq!(slow_at(&|_| 1e-3), [16]);
        // Slow only later: at the second comparison after it.
        assert_eq!(slow_at(&|seconds| 1.0 / seconds.min(40.0)), [128]);
    }

    #[test]
    fn a_run_that_time_ends_is_not_slow() {
        let time = Limits { time: Some(Duration::from_secs(2000)), ..Limits::default() };
        let iterations = Limits { iterations: Some(1), ..Limits::default() };
        assert!([time, iterations].iter().all(|limits| slow(limits, &|_| 1.0).is_empty()));
    }
}
