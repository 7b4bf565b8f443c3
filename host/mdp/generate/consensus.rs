//! The shared coin of randomised consensus: Aspnes and Herlihy, *Fast randomized consensus using shared memory* (1990); as
//! modelled by Kwiatkowska, Norman and Segala (2001) and in the Quantitative Verification Benchmark Set (`consensus`).

use super::Error;
use super::explore::explore;
use crate::common::parameters::count;
use crate::mdp::model::Mdp;

/// N processes that agree on a coin by a random walk of a shared counter; which process moves next is the choice.
///
/// Each flips a coin of its own, moves the counter up on heads and down on tails, and then looks at it: where it is N or
/// less from the lower end of 0 … 2(K + 1)N, it decides for tails, N or less from the upper one for heads; else it flips
/// again. Every step earns 1 until all have decided; then they stay as they are, and nothing is earned. Undiscounted.
///
/// Labels: `init`; `finished`, where all have decided; `agree`, where all coins are equal; `all_coins_equal_0` and
/// `all_coins_equal_1`. (As in the benchmark, coins count as tails before and after they are used, so that only those of
/// finished states matter.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Consensus {
    /// N, the number of processes, 1 to 10.
    pub processes: u32,
    /// K, how far the walk goes, 1 to 10⁶.
    pub bound: u32,
}

/// N = 2, K = 2: 272 states.
impl Default for Consensus {
    fn default() -> Self {
        Self { processes: 2, bound: 2 }
    }
}

/// Where a process is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum At {
    Flip,
    /// It has flipped, and knows whether it came up heads.
    Write(bool),
    Check,
    Decided(bool),
}

/// The most processes that a state holds.
const MOST: usize = 10;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct State {
    counter: u32,
    processes: [At; MOST],
}

impl Consensus {
    /// Makes the model.
    ///
    /// # Errors
    /// If a field is out of its range, or there are too many states.
    pub fn generate(&self) -> Result<Mdp, Error> {
        count("processes", self.processes, 1, MOST as u32)?;
        count("bound", self.bound, 1, 1_000_000)?;
        let (all, range) = (self.processes as usize, 2 * (self.bound + 1) * self.processes);
        let start = State { counter: range / 2, processes: [At::Flip; MOST] };
        let finished = |state: &State| state.processes[..all].iter().all(|at| matches!(at, At::Decided(_)));
        let names: Vec<_> = (1..=all).map(|process| format!("process{process}")).chain(["done".to_owned()]).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let explored = explore(start, &names, |state, search| {
            let with = |process: usize, counter: u32, at: At| {
                let mut next = State { counter, ..*state };
                next.processes[process] = at;
                next
            };
            let counter = state.counter;
            for (process, &at) in state.processes[..all].iter().enumerate() {
                let next = match at {
                    At::Flip => {
                        let flipped = [false, true].map(|heads| (0.5, with(process, counter, At::Write(heads))));
                        search.action(process as u32, 1.0, flipped);
                        continue;
                    }
                    At::Write(false) if counter > 0 => with(process, counter - 1, At::Check),
                    At::Write(true) if counter < range => with(process, counter + 1, At::Check),
                    At::Check if counter <= self.processes => with(process, counter, At::Decided(false)),
                    At::Check if counter >= range - self.processes => with(process, counter, At::Decided(true)),
                    At::Check => with(process, counter, At::Flip),
                    At::Write(_) | At::Decided(_) => continue,
                };
                search.action(process as u32, 1.0, [(1.0, next)]);
            }
            if finished(state) {
                search.action(self.processes, 0.0, [(1.0, *state)]);
            }
        })?;
        let heads = |state: &State| {
            let heads = state.processes[..all].iter().filter(|at| matches!(at, At::Write(true) | At::Decided(true)));
            heads.count()
        };
        let explored = explored
            .label("finished", finished)
            .label("agree", |state| heads(state) == 0 || heads(state) == all)
            .label("all_coins_equal_0", |state| heads(state) == 0)
            .label("all_coins_equal_1", |state| heads(state) == all);
        Ok(explored.mdp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// States as in the benchmark set; transitions as on the site of PRISM.
    #[test]
    fn counts_are_those_of_the_benchmark() {
        for (processes, bound, states, transitions) in [(2, 2, 272, 492), (2, 16, 2064, 3852), (4, 2, 22_656, 75_232)] {
            let mdp = Consensus { processes, bound }.generate().unwrap();
            assert_eq!((mdp.states(), mdp.transitions().nnz()), (states, transitions));
        }
    }
}
