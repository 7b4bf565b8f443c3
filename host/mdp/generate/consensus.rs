//! The shared coin of randomised consensus: Aspnes and Herlihy, *Fast randomized consensus using shared memory* (1990);
//! as modelled by Kwiatkowska, Norman and Segala (2001) and in the Quantitative Verification Benchmark Set
//! (`consensus`).

use super::Error;
use super::explore::explore;
use crate::model::Mdp;
use warpkov_common::parameters::{Parameters as _, parameters};

parameters! {
    /// N processes that agree on a coin by a random walk of a shared counter. An action selects the process that moves
    /// next.
    ///
    /// A process flips its own coin, moves the counter up on heads or down on tails, and then reads the counter, whose
    /// range is 0 … 2(K + 1)N. Within N of the lower end, the process decides for tails; within N of the upper end, for
    /// heads; otherwise it flips again. Every step earns 1 until all processes have decided. The state is then absorbing
    /// with reward 0. Undiscounted.
    ///
    /// Labels: `init`; `finished`, all processes have decided; `agree`, all coins are equal; `all_coins_equal_0` and
    /// `all_coins_equal_1`. As in the benchmark, a coin counts as tails before and after its use, so `agree` and the last
    /// two labels are meaningful in finished states only.
    ///
    /// By default, 272 states.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Consensus {
        /// N, the number of processes, 1 to 10.
        pub processes: u32 = 2, "N" in 1..=MOST as u32;
        /// K, the bound of the random walk, 1 to 10⁶.
        pub bound: u32 = 2, "K" in 1..=1_000_000;
    }
}

/// Program counter of a process.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum At {
    Flip,
    /// About to move the counter; true after heads.
    Write(bool),
    Check,
    /// True for heads.
    Decided(bool),
}

/// Capacity of a state: the maximum of `processes`.
const MOST: usize = 10;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct State {
    counter: u32,
    processes: [At; MOST],
}

impl Consensus {
    /// Generates the model.
    ///
    /// # Errors
    /// A field is out of its range, or there are too many states.
    pub fn generate(&self) -> Result<Mdp, Error> {
        self.check()?;
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

    /// Reference: states from the benchmark set, transitions from PRISM's website.
    #[test]
    fn counts_are_those_of_the_benchmark() {
        for (processes, bound, states, transitions) in [(2, 2, 272, 492), (2, 16, 2064, 3852), (4, 2, 22_656, 75_232)] {
            let mdp = Consensus { processes, bound }.generate().unwrap();
            assert_eq!((mdp.states(), mdp.transitions().nnz()), (states, transitions));
        }
    }
}
