//! Solving a discounted model: the loop of a method on a backend, until a certificate proves V.
//!
//! | room | contents |
//! | --- | --- |
//! | [`loops`] | policy iteration, value iteration and modified policy iteration, written once for all backends |
//! | [`certify`] | runs of a loop with ever tighter stopping rules, until a certificate proves V |
//! | [`session`] | where a solve starts, who observes it, and where its checkpoints go |
//! | [`place`] | device, method and precision, requested or chosen |
//! | `ranks` | solves on several ranks |
//! | `auto` | the order of the states and the method, where they are open |
//! | `once` | a solve in the model's own order, with one method |
//!
//! Backends maximise. Each backend owns its copy of the model, V and π, and starts at V = 0 with the first action of
//! every state.

mod auto;
pub mod certify;
pub mod loops;
mod once;
pub mod place;
mod ranks;
pub mod session;

use std::time::Instant;

use warpkov_runtime::comm::{Communicator, Local};

use self::auto::{by_method, order};
use self::ranks::{solve_parts, solve_shared};
pub use self::session::{Initial, Observer, Session};
use self::session::{Start, Watch};
use crate::analysis::divide::agreed;
use crate::auto::Features;
use crate::error::SolveError;
use crate::model::{Mdp, Whole};
use crate::options::{Reorder, SolveOptions};
use crate::solution::Solution;
use crate::team::Team;

/// A discounted model to solve, γ < 1, and how.
pub struct Solve<'a> {
    model: OnRanks<'a>,
    options: &'a SolveOptions,
    session: Session<'a>,
}

/// What the ranks have of a model.
enum OnRanks<'a> {
    /// Every rank all of it.
    All(&'a Mdp),
    /// Each rank reads its part.
    Parts(&'a dyn Whole),
}

impl<'a> Solve<'a> {
    /// A model that every rank has whole. The solution of rank 0 has the values and the policy of all states, those of
    /// the other ranks none.
    #[must_use]
    pub fn new(mdp: &'a Mdp, options: &'a SolveOptions) -> Self {
        Self { model: OnRanks::All(mdp), options, session: Session::default() }
    }

    /// A model of which each rank reads, solves and returns a part: contiguous states, in the order of the model, of about equal work.
    /// No rank holds more than its part and its ghosts. The solution of a rank has the values and the policy of its own
    /// states, from number [`first`](Solution::first).
    #[must_use]
    pub fn in_parts(whole: &'a dyn Whole, options: &'a SolveOptions) -> Self {
        Self { model: OnRanks::Parts(whole), options, session: Session::default() }
    }

    /// Sets where the solve starts, who observes it, and where its checkpoints go.
    #[must_use]
    pub fn session(self, session: Session<'a>) -> Self {
        Self { session, ..self }
    }

    /// Calls `observe` after each round.
    #[must_use]
    pub fn observed(self, observe: Observer<'a>) -> Self {
        let session = Session { observe: Some(observe), ..self.session };
        Self { session, ..self }
    }

    /// Solves on one rank and certifies the result.
    ///
    /// # Errors
    /// As for [`run_on`](Self::run_on).
    pub fn run(self) -> Result<Solution, SolveError> {
        self.run_on(&Local::alone())
    }

    /// Solves on all ranks of `comm` and certifies the result. A run that reaches a limit is not an error; its
    /// [`Status`](crate::solution::Status) says so. A checkpoint that cannot be written is no error here: see
    /// [`Checkpoints::finish`](warpkov_common::checkpoint::Checkpoints::finish).
    ///
    /// # Errors
    /// [`SolveError::Initial`] if the initial values have the wrong length, [`SolveError::Undiscounted`] for γ = 1; errors of the
    /// layout and the device; [`SolveError::Part`] on all ranks if one cannot read its part or its initial values, if a part has
    /// too many states, or if the checkpoint belongs to another model; and if a rank fails.
    pub fn run_on(self, comm: &dyn Communicator) -> Result<Solution, SolveError> {
        let Self { model, options, session } = self;
        let whole: &dyn Whole = match model {
            OnRanks::All(mdp) => mdp,
            OnRanks::Parts(whole) => whole,
        };
        if let Initial::Values(values) = session.initial
            && values.len() as u64 != whole.states()
        {
            return Err(SolveError::Initial { found: values.len(), expected: whole.states() });
        }
        if whole.gamma() >= 1.0 {
            return Err(SolveError::Undiscounted);
        }
        session.run(comm, whole, options, |options, start, initial, watch| match model {
            OnRanks::Parts(whole) => solve_parts(comm, whole, None, initial, start, options, watch),
            OnRanks::All(mdp) if comm.size() > 1 => solve_shared(comm, mdp, initial, start, options, watch),
            OnRanks::All(mdp) => {
                let values = agreed(initial(0..mdp.states().into()), comm)?;
                solve_alone(mdp, Start { values: values.as_deref(), ..start }, options, watch)
            }
        })
    }
}

/// Solves on one rank, in the order of states that pays.
fn solve_alone(mdp: &Mdp, start: Start, options: &SolveOptions, watch: &mut Watch) -> Result<Solution, SolveError> {
    let begun = Instant::now();
    if let Some((order, note)) = order(mdp, options) {
        let initial = start.values.map(|values| order.to_new(values));
        let start = Start { values: initial.as_deref(), ..start };
        let options = SolveOptions { reorder: Reorder::None, ..*options };
        let ordered = order.apply(mdp);
        let prepared = begun.elapsed();
        let mut watch = watch.mapped(|values| Ok(order.to_old(&values)));
        let mut solution = solve_alone(&ordered, start, &options, &mut watch)?;
        solution.notes.insert(0, note);
        solution.phases.prepare += prepared;
        solution.setup += prepared;
        let (values, policy) = (order.to_old(&solution.values), order.to_old(&solution.policy));
        return Ok(Solution { values, policy, ..solution });
    }
    let features = Features::if_auto(mdp, &Team::alone(), options)?;
    by_method(mdp, &Team::alone(), start, options, features, begun, watch)
}
