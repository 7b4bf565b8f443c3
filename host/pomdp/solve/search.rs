//! State shared by all point-based solvers: the belief graph with both bounds, expansion and backup.
//!
//! | file | what it adds |
//! | --- | --- |
//! | `nodes` | the bounds at beliefs, from those that `lower` and `upper` have |
//! | `prune` | pruning of both, and the limit of memory |
//! | `rounds` | ranks that sample their own beliefs |

use super::apart::Apart;
use super::bounds::sawtooth::Sawtooth;
use super::bounds::{ActionValues, blind, fib, mdp, qmdp};
use super::branch::{Branch, first_largest};
use super::clock::{Clock, Standing};
use super::gamma::{Gamma, WithRetired};
use super::graph::{Child, Edge, Graph, NONE, Node};
use super::interval::{Interval, slack};
use super::lower::LowerBound;
use super::team::{News, Point};
use super::upper::{UpperBound, informed_bound};
use crate::alpha::{AlphaVectors, VectorSet};
use crate::backend::Plans;
use crate::backends::cpu::Assembler;
use crate::belief::Belief;
use crate::cells::Cells;
use crate::checkpoint::{Checkpoint, Snapshot};
use crate::compact::{Compact, closure};
use crate::model::Pomdp;
use crate::projection::Projection;
use crate::support::Supports;
use warpkov_common::memory;
use warpkov_common::numbers::max_norm;
use warpkov_mdp::SolveError;

/// Beliefs and bounds on their values, for a maximisation problem.
pub struct Search<'m, 'o> {
    /// The model.
    pub model: &'m Pomdp,
    /// r(s, a) at s·A + a.
    pub rewards: Vec<f64>,
    /// max |r(s, a)| / (1 − γ).
    pub magnitude: f64,
    /// Γ and what belongs to it.
    pub lower_bound: LowerBound<'m>,
    /// The fast informed bound, and sawtooth points.
    pub upper_bound: UpperBound,
    /// Limits and progress of the run.
    pub clock: Clock<'o>,
    /// The belief graph.
    pub graph: Graph,
    /// B: nodes for backups, in the order of their addition.
    pub points: Vec<u32>,
    /// Initial beliefs and their probabilities; they are the first nodes. Without a fully observed component, only b₀.
    pub starts: Vec<(f64, u32)>,
    /// The initial belief at which expansions start.
    pub root: u32,
    /// Number of backups.
    pub backups: u64,
    /// Estimate of the work so far, in multiplications. It is the same in equal runs, unlike the time.
    pub work: u64,
    projection: Projection,
    /// What the other ranks know, if each rank samples its own beliefs.
    pub(super) apart: Option<Apart>,
}

/// Bounds that a search begins with.
pub struct Initial {
    /// Upper bound on the optimal value of the underlying MDP, per state.
    seen: Vec<f64>,
    /// Fast informed bound Q(s, a).
    informed: ActionValues,
    /// Blind policies.
    blind: AlphaVectors,
    /// Points of the upper bound that a checkpoint brought.
    points: Vec<Point>,
    /// Bound on the rounding errors of the upper bound.
    above: f64,
}

/// Tolerance of the fast informed bound, relative to the gap of the initial bounds.
const FIB_TOLERANCE: f64 = 1e-3;

/// Work of computing and interning a successor, and for each state of its belief, in multiplications.
const WORK_OF_SUCCESSOR: [u64; 2] = [256, 8];

/// Number of states of a belief above which expanding one action justifies a check of the clock.
const LARGE_SUPPORT: usize = 1 << 14;

impl<'m, 'o> Search<'m, 'o> {
    /// Computes the initial bounds, blind policies and the fast informed bound, and adds the initial beliefs to B. Both
    /// bounds are iterated to a small fraction of the requested gap, or until the clock ends the run. Pruning reduces Γ to at
    /// most `max_vectors` vectors, plus retired ones.
    ///
    /// # Errors
    /// If γ = 1, and the errors of [`mdp::mdp`].
    pub fn new(model: &'m Pomdp, max_vectors: usize, mut clock: Clock<'o>) -> Result<Self, SolveError> {
        if model.gamma() >= 1.0 {
            return Err(SolveError::Undiscounted);
        }
        let (rewards, precision) = (model.expected_rewards(), clock.gap_limit());
        let largest = max_norm(&rewards);
        let magnitude = largest / (1.0 - model.gamma());
        let mut seen = mdp::mdp(model, &rewards, (precision / 10.0).max(magnitude * 1e-12), &mut || clock.late())?;
        let factors = qmdp::qmdp(model, &rewards, &seen, &mut || clock.late());
        let assembler = Assembler::new(model, &rewards);
        let mut blind = blind::blind(model, &rewards, &assembler, precision / 10.0, &mut || clock.late());
        let gap: f64 = model
            .starts()
            .iter()
            .map(|(prob, start)| {
                let lower = blind.best(start).map_or(-magnitude, |(_, value)| value);
                prob * (informed_bound(&factors, model.actions() as usize, start) - lower)
            })
            .sum();
        let mut informed =
            fib::fib(model, &rewards, factors, (FIB_TOLERANCE * gap).max(precision / 10.0), &mut || clock.late());
        // All ranks begin with the same bounds, also if the time ends one of these computations.
        let team = clock.team();
        [&mut seen[..], &mut informed, blind.values_mut()].into_iter().for_each(|numbers| team.first(numbers));
        clock.share_status();
        let initial = Initial { seen, informed, blind, points: Vec::new(), above: 0.0 };
        Ok(Self::begun(model, rewards, assembler, initial, max_vectors, clock))
    }

    /// The bounds with which another search of the model may begin: blind policies, and the present upper bound.
    #[must_use]
    pub fn initial(&self) -> Initial {
        let UpperBound { seen, informed, sawtooth, slack, .. } = &self.upper_bound;
        let (blind, points) = (self.lower_bound.blind(), sawtooth.changed(0).collect());
        Initial { seen: seen.clone(), informed: informed.clone(), blind, points, above: *slack }
    }

    /// A search that begins with known bounds.
    #[must_use]
    pub fn from_bounds(model: &'m Pomdp, initial: Initial, max_vectors: usize, clock: Clock<'o>) -> Self {
        let rewards = model.expected_rewards();
        let assembler = Assembler::new(model, &rewards);
        Self::begun(model, rewards, assembler, initial, max_vectors, clock)
    }

    /// [`from_bounds`](Self::from_bounds) with the model's r(s, a) and its assembler.
    fn begun(
        model: &'m Pomdp,
        rewards: Vec<f64>,
        assembler: Assembler<'m>,
        initial: Initial,
        max_vectors: usize,
        clock: Clock<'o>,
    ) -> Self {
        let Initial { seen, informed, blind, points, above: known } = initial;
        let magnitude = max_norm(&rewards) / (1.0 - model.gamma());
        let starts = model.starts();
        let largest = |factors: &[f64]| factors.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let corners = informed.chunks(model.actions() as usize).map(largest).collect();
        let floor = rewards.iter().copied().fold(f64::INFINITY, f64::min) / (1.0 - model.gamma());
        let mut vectors = Gamma::new(Cells::new(model), floor);
        (0..blind.len()).for_each(|i| vectors.push(0, blind.actions()[i], blind.vector(i)));
        let mut graph = Graph::default();
        let starts: Vec<(f64, u32)> = starts.into_iter().map(|(prob, start)| (prob, graph.intern(start))).collect();
        for &(_, start) in &starts {
            let node = &mut graph.nodes[start as usize];
            node.upper = informed_bound(&informed, model.actions() as usize, &node.belief);
        }
        let [below, above] = slack(model, magnitude);
        let mut search = Self {
            model,
            rewards,
            magnitude,
            lower_bound: LowerBound {
                vectors,
                supports: Supports::new(model.observation_count(), blind.len()),
                assembler,
                permanent: model.actions() as usize,
                max_vectors,
                pruned: 0,
                slack: below,
            },
            upper_bound: UpperBound {
                seen,
                informed,
                sawtooth: Sawtooth::new(corners),
                pruned: 0,
                slack: above.max(known),
            },
            clock,
            graph,
            points: Vec::new(),
            root: 0,
            starts,
            backups: 0,
            work: 0,
            projection: Projection::default(),
            apart: None,
        };
        for start in 0..search.starts.len() as u32 {
            search.add_point(start);
        }
        points.iter().for_each(|(belief, drop)| search.add_upper(belief, *drop));
        search.choose_root(&mut Branch::default());
        search
    }

    /// Makes expansions start at the initial belief with the largest weighted gap, or at another with a similar one if
    /// `branch` says so.
    pub fn choose_root(&mut self, branch: &mut Branch) {
        let mut gaps = Vec::with_capacity(self.starts.len());
        for i in 0..self.starts.len() {
            let (prob, start) = self.starts[i];
            gaps.push(prob * (self.upper(start) - self.lower(start)));
        }
        if let Some(chosen) = branch.choose(&gaps) {
            self.root = self.starts[chosen].1;
        }
    }

    /// Adds a node to B.
    pub fn add_point(&mut self, node: u32) {
        let own = &mut self.graph.nodes[node as usize];
        own.touched = self.clock.iterations;
        if !std::mem::replace(&mut own.is_point, true) {
            self.points.push(node);
        }
    }

    /// Checks all limits during an expansion. A full memory ends only the expansion, other limits the run.
    pub fn over(&mut self) -> bool {
        let standing = self.standing();
        self.clock.over(Standing { bytes: 0, ..standing }) || self.is_full()
    }

    /// Goes on from a checkpoint: takes its vectors, points and beliefs. If ranks are to search `apart`, the first rank has
    /// done the backups.
    pub fn resume(&mut self, checkpoint: &Checkpoint, apart: bool) {
        let Checkpoint { plans, points, beliefs, slack, .. } = checkpoint;
        self.lower_bound.resume(plans, self.model.observation_count());
        for node in self.graph.nodes.iter_mut() {
            (node.vector, node.lower, node.scanned) = (NONE, f64::NEG_INFINITY, 0);
        }
        let [below, above] = slack;
        self.lower_bound.slack = self.lower_bound.slack.max(*below);
        self.upper_bound.slack = self.upper_bound.slack.max(*above);
        for (belief, upper) in points {
            self.add_upper(belief, upper - self.upper_bound.sawtooth.base(belief));
        }
        for belief in beliefs {
            let node = self.intern(belief.clone());
            self.add_point(node);
        }
        self.clock.resume(checkpoint, apart);
        if !apart || self.clock.team().rank() == 0 {
            self.backups = checkpoint.backups;
        }
        self.choose_root(&mut Branch::default());
    }

    /// The state of the search, with `plans` in place of its vectors if there are some.
    #[must_use]
    pub fn snapshot(&self, plans: Option<Plans>, backups: u64, slack: [f64; 2]) -> Snapshot<'_> {
        let (vectors, next): (Box<dyn VectorSet>, _) = match plans {
            Some(Plans { vectors, next }) => (Box::new(vectors), next),
            None => {
                let LowerBound { vectors, supports, .. } = &self.lower_bound;
                let next = supports.joined(vectors.count() as u32);
                (Box::new(WithRetired { active: vectors, retired: supports.retired() }), next)
            }
        };
        Snapshot {
            states: self.model.states(),
            vectors,
            next,
            points: Box::new(|visit| {
                let upper = |belief: &Belief, drop: f64| self.upper_bound.sawtooth.base(belief) + drop;
                self.upper_bound.sawtooth.changed(0).try_for_each(|(belief, drop)| visit(&belief, upper(&belief, drop)))
            }),
            beliefs: Box::new(|visit| {
                self.points.iter().try_for_each(|&node| visit(&self.graph.nodes[node as usize].belief, 0.0))
            }),
            iterations: self.clock.expansions(),
            backups,
            seconds: self.clock.seconds(),
            upper: self.clock.upper(),
            slack,
            rounds: &self.clock.rounds,
        }
    }

    /// The bounds on rounding errors of the lower and the upper bound.
    #[must_use]
    pub fn slack(&self) -> [f64; 2] {
        [self.lower_bound.slack, self.upper_bound.slack]
    }

    /// Adds the successors of a node under every action. Stores nothing if time runs out.
    pub(super) fn expand(&mut self, node: u32) {
        if !self.graph.nodes[node as usize].edges.is_empty() {
            return;
        }
        let belief = self.graph.nodes[node as usize].belief.clone();
        let mut projection = std::mem::take(&mut self.projection);
        let actions = self.model.actions();
        let mut edges = Vec::with_capacity(actions as usize);
        for action in 0..actions {
            let reward = self.model.reward(&self.rewards, &belief, action);
            let mut children = Vec::new();
            projection.each(self.model, &belief, action, |observation, prob, next| {
                self.work += WORK_OF_SUCCESSOR[0] + WORK_OF_SUCCESSOR[1] * next.states().len() as u64;
                children.push(Child { observation, node: self.intern(next), prob });
            });
            children.shrink_to_fit();
            edges.push(Edge { action, reward, children });
            if belief.states().len() >= LARGE_SUPPORT && self.clock.late() {
                self.projection = projection;
                return;
            }
        }
        self.projection = projection;
        self.graph.connect(node, edges);
    }

    /// Backs up a node: adds the vector of the best action to Γ if it improves the node by more than `min_improvement`,
    /// and lowers the upper bound. Returns the movement of each bound.
    pub fn backup(&mut self, node: u32, min_improvement: f64) -> Interval {
        self.backups += 1;
        let intervals = self.intervals(node);
        let known = self.lower(node);
        let upper = self.reduce_upper(node, &intervals);
        let lowers: Vec<f64> = intervals.iter().map(|interval| interval.lower).collect();
        let Some(best) = first_largest(&lowers).filter(|&best| lowers[best] > known + min_improvement) else {
            return Interval { lower: 0.0, upper };
        };
        let Node { belief, edges, .. } = &self.graph.nodes[node as usize];
        let observations = self.model.observation_count();
        let made = self.lower_bound.backup(belief, &edges[best], &self.graph.nodes, observations);
        self.work += (made.values.len() * made.next.len()) as u64;
        let value = self.lower_bound.vectors.dot(made.group, belief, &made.values);
        if value <= known {
            return Interval { lower: 0.0, upper };
        }
        self.lower_bound.push(&made);
        self.note_moved(node);
        let node = &mut self.graph.nodes[node as usize];
        (node.lower, node.vector) = (value, self.lower_bound.count() as u32 - 1);
        node.scanned = node.vector + 1;
        Interval { lower: value - known, upper }
    }

    /// Bounds on V\*(b₀) that include rounding errors, the best of all ranks.
    pub fn bounds(&mut self) -> Interval {
        let own = self.own_bounds();
        let Some(Apart { others: (others, ..), .. }) = &self.apart else { return own };
        own.and(*others)
    }

    /// Bounds on V\*(b₀) from the vectors and points of this rank.
    pub(super) fn own_bounds(&mut self) -> Interval {
        let (below, above) = (self.lower_bound.slack, self.upper_bound.slack);
        let (mut lower, mut upper) = (0.0, 0.0);
        for i in 0..self.starts.len() {
            let (prob, start) = self.starts[i];
            lower += prob * self.lower(start);
            upper += prob * self.upper(start);
        }
        Interval { lower: lower - below, upper: upper + above }
    }

    /// The present state of the run.
    pub fn standing(&mut self) -> Standing {
        let (backups, beliefs) = self.apart.as_ref().map_or((0, 0), |apart| (apart.others.1, apart.others.2));
        Standing {
            bounds: self.bounds(),
            backups: self.backups + backups,
            beliefs: self.points.len() + beliefs,
            vectors: self.lower_bound.count() + self.lower_bound.supports.retired().len(),
            bytes: self.bytes() as u64,
        }
    }

    /// Successors of an action at a node: (o, p(o|b, a), b^{a,o}).
    pub fn successors(&mut self, node: u32, action: u32) -> Vec<(u32, f64, Belief)> {
        let mut successors = Vec::new();
        let belief = &self.graph.nodes[node as usize].belief;
        self.projection.each(self.model, belief, action, |o, prob, next| successors.push((o, prob, next)));
        successors
    }

    /// Vectors behind the blind policies that a resumed search begins with, and its points.
    #[must_use]
    pub fn known(&self) -> News {
        let plans = self.lower_bound.plans(self.lower_bound.permanent);
        News { plans, points: self.upper_bound.sawtooth.changed(0).collect() }
    }

    /// The [closure] of Γ and the retired vectors, and the clock.
    #[must_use]
    pub fn into_vectors(self) -> (Compact, Clock<'o>) {
        let Self { model, lower_bound: LowerBound { vectors, supports, .. }, upper_bound, clock, graph, .. } = self;
        // Frees memory for the compaction.
        drop((graph, upper_bound));
        let next = supports.joined(vectors.count() as u32);
        let found = closure(model, &WithRetired { active: &vectors, retired: supports.retired() }, &next);
        drop((vectors, supports, next));
        memory::release();
        (found, clock)
    }

    /// The clock of the run.
    #[must_use]
    pub fn into_clock(self) -> Clock<'o> {
        self.clock
    }
}
