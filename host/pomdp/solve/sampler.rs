//! The solver's loop with beliefs and bounds on the host.

use rand_chacha::ChaCha8Rng;

use super::error::Error;
use super::expand::Expand;
use super::patience::{PATIENCE, min_improvement};
use super::scheme;
use super::search::Search;
use crate::backend::PointBackup;
use crate::options::Scheme;
use crate::solution::Status;

/// How beliefs are sampled and backed up.
pub struct Sampler {
    /// How beliefs are sampled.
    pub expand: Expand,
    /// The random numbers of the samples.
    pub random: ChaCha8Rng,
    /// Which beliefs are backed up after an expansion.
    pub scheme: Scheme,
    /// Number of paths that are backed up together.
    pub trials: usize,
}

impl Sampler {
    /// Samples and backs up beliefs until the clock of the search ends the run. Calls `each` after each expansion.
    ///
    /// # Errors
    /// Errors of the backend, except a [stopped](Error::is_stop) launch, which ends the run.
    pub fn run<B: PointBackup<Error = Error>>(
        &mut self,
        search: &mut Search,
        backend: &mut B,
        each: &mut dyn FnMut(&mut Search),
    ) -> Result<(), Error> {
        let Self { expand, random, scheme, trials } = self;
        let mut idle = 0;
        while !search.ended() {
            let known = search.points.len();
            let gap = search.clock.gap_limit();
            let min_improvement = min_improvement(search.model, gap);
            let mut sampled: Vec<Vec<u32>> = Vec::new();
            for turn in 0..if *scheme == Scheme::Path { (*trials).max(1) } else { 1 } {
                sampled.push(expand.sample(search, random, gap, idle > 0, turn));
                if search.late() {
                    break;
                }
            }
            let progress = match (*scheme, &sampled[..]) {
                (Scheme::Path, [nodes]) => Ok(scheme::path(search, nodes, min_improvement)),
                (Scheme::Path, walks) => scheme::layers(search, backend, walks, min_improvement),
                (Scheme::Full, _) => scheme::full(search, backend, min_improvement),
                (Scheme::Randomized, _) => scheme::randomized(search, backend, random, min_improvement),
            };
            let mut progress = match progress {
                Err(error) if error.is_stop() => {
                    search.clock.stopped();
                    break;
                }
                progress => progress?,
            };
            if *scheme != Scheme::Path {
                progress += sampled.iter().map(|nodes| scheme::tighten(search, nodes)).sum::<f64>();
                progress += (0..search.starts.len() as u32).map(|start| search.tighten(start)).sum::<f64>();
            }
            search.prune_after_expansion();
            search.clock.iterations += 1;
            idle = if progress > 0.0 || search.points.len() > known { 0 } else { idle + 1 };
            if idle >= PATIENCE && !expand.deepens() {
                search.clock.status.get_or_insert(Status::Stalled);
            }
            each(search);
        }
        Ok(())
    }
}
