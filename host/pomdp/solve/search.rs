//! State shared by all point-based solvers: the belief graph, Γ, and both bounds.
//!
//! The file is one piece because every operation keeps nodes, Γ and sawtooth points consistent with each other.

use std::borrow::Cow;

use rayon::prelude::*;

use super::bounds::sawtooth::Sawtooth;
use super::bounds::{ActionValues, blind, fib, mdp, qmdp};
use super::clock::{Clock, Standing};
use super::graph::{Child, Edge, Graph, MERGED, NONE, Nodes};
use super::team::{News, joined};
use crate::alpha::AlphaVectors;
use crate::backend::Plans;
use crate::belief::Belief;
use crate::checkpoint::{Checkpoint, Snapshot};
use crate::cpu::{Assembler, Vectors};
use crate::model::Pomdp;
use crate::projection::Projection;
use crate::reduce::{reduced, support};
use crate::solution::{Status, Support};
use crate::support::Supports;
use warpkov_common::memory;
use warpkov_common::numbers::max_norm;
use warpkov_mdp::SolveError;
use warpkov_mdp::model::Csr;

/// Unit roundoff of `f64`.
const UNIT: f64 = f64::EPSILON / 2.0;

/// A successor below this fraction of the sum of its action's weighted gaps keeps its known upper bound.
const NEGLIGIBLE_GAP: f64 = 0.01;

/// Successors may skip new vectors if together they hold at most this fraction of the sum of weighted gaps.
const SKIPPED_GAP: f64 = 0.05;

/// Fraction of the memory limit at which [`Search::shrink`] releases memory.
const MEMORY_FULL: f64 = 0.98;

/// Fraction of the memory limit in use after that.
const MEMORY_AFTER: f64 = 0.6;

/// Fraction of the memory limit above which sawtooth points are dropped.
const POINTS_SHARE: f64 = 0.25;

/// Fraction of the memory limit above which vectors are dropped.
const VECTORS_SHARE: f64 = 0.4;

/// Copies of all vectors that a reduction may take: those that it keeps, in both layouts.
const COPIES: f64 = 1.5;

/// Sawtooth points examined by pruning, per new point.
const EXAMINED: usize = 4;

/// Beliefs and bounds on their values, for a maximisation problem.
pub struct Search<'m, 'o> {
    /// The model.
    pub model: &'m Pomdp,
    /// r(s, a) at s·A + a.
    pub rewards: Vec<f64>,
    /// max |r(s, a)| / (1 − γ).
    pub magnitude: f64,
    /// Upper bound on the optimal value of the underlying MDP, per state.
    pub seen: Vec<f64>,
    /// Fast informed bound Q(s, a): its expectation at b is an upper bound on Q(b, a).
    pub informed: ActionValues,
    /// Upper bounds at beliefs, interpolated.
    pub sawtooth: Sawtooth,
    /// Γ.
    pub vectors: Vectors,
    /// Continuations of the vectors of Γ, and retired vectors.
    supports: Supports,
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
    assembler: Assembler<'m>,
    projection: Projection,
    /// Limit of |Γ| after pruning.
    max_vectors: usize,
    /// The first `permanent` vectors of Γ, the blind policies, are never pruned.
    permanent: usize,
    /// |Γ| after the last pruning.
    pruned: usize,
    /// Number of sawtooth points after their last pruning.
    pruned_points: usize,
    /// Bounds on the rounding errors of the lower and the upper bound.
    slack: [f64; 2],
    /// What the other ranks know, if each rank samples its own beliefs.
    apart: Option<Apart>,
}

/// The state of a search whose ranks sample their own beliefs. Γ is the same on all ranks after each [round](Search::meet).
struct Apart {
    /// |Γ| at the begin of the round.
    shared: usize,
    /// Value of [`Sawtooth::time`] at the begin of the round.
    sent: u32,
    /// Number of backups at which this rank ends the round.
    backups: u64,
    /// Number of expansions at which this rank ends the round.
    iterations: u64,
    /// Nodes whose best vector was added in the round, or that were compared with such vectors.
    moved: Vec<u32>,
    /// Bounds, backups and |B| of the other ranks at the begin of the round.
    others: (Interval, u64, usize),
}

/// Backups of a rank per round. A round ends after an expansion.
const ROUND: u64 = 128;

/// Tolerance of the fast informed bound, relative to the gap of the initial bounds.
const FIB_TOLERANCE: f64 = 1e-3;

/// Number of multiplications that justifies parallel work.
const PARALLEL_PRODUCTS: usize = 1 << 18;

/// Work of comparing a belief with a sawtooth point, in multiplications.
const WORK_OF_POINT: u64 = 8;

/// Work of computing and interning a successor, and for each state of its belief, in multiplications.
const WORK_OF_SUCCESSOR: [u64; 2] = [256, 8];

/// Multiplications between two checks of the clock.
const PRODUCTS_PER_CHECK: usize = 1 << 26;

/// Number of states of a belief above which expanding one action justifies a check of the clock.
const LARGE_SUPPORT: usize = 1 << 14;

/// Number of pairs of belief and sawtooth point that justifies parallel work.
const PARALLEL_POINTS: usize = 1 << 16;

/// Lower and upper bound on Q(b, a) or V\*(b).
#[derive(Clone, Copy, Debug)]
pub struct Interval {
    /// Lower bound.
    pub lower: f64,
    /// Upper bound.
    pub upper: f64,
}

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
        let starts = model.starts();
        let gap: f64 = starts
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
        let largest = |factors: &[f64]| factors.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let corners = informed.chunks(model.actions() as usize).map(largest).collect();
        let vectors = Vectors::new(&blind);
        let mut graph = Graph::default();
        let starts: Vec<(f64, u32)> = starts.into_iter().map(|(prob, start)| (prob, graph.intern(start))).collect();
        for &(_, start) in &starts {
            let node = &mut graph.nodes[start as usize];
            node.upper = informed_bound(&informed, model.actions() as usize, &node.belief);
        }
        let mut search = Self {
            model,
            rewards,
            assembler,
            magnitude,
            seen,
            informed,
            sawtooth: Sawtooth::new(corners),
            vectors,
            supports: Supports::new(model.states(), model.observation_count(), blind.len()),
            clock,
            graph,
            points: Vec::new(),
            root: 0,
            starts,
            backups: 0,
            work: 0,
            projection: Projection::default(),
            max_vectors,
            permanent: model.actions() as usize,
            pruned: 0,
            pruned_points: 0,
            slack: slack(model, magnitude),
            apart: None,
        };
        for start in 0..search.starts.len() as u32 {
            search.add_point(start);
        }
        search.choose_root(&mut Branch::default());
        Ok(search)
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
        let Checkpoint { plans: Plans { vectors, next }, points, beliefs, slack, .. } = checkpoint;
        let (width, permanent) = (self.model.observation_count() as usize, self.permanent);
        // The larger of two values of a blind policy supports all that continue with either.
        let mut blind = vectors.retain(|i| i < permanent);
        let fresh = self.alpha().retain(|i| i < permanent);
        blind.values_mut().iter_mut().zip(fresh.values()).for_each(|(value, fresh)| *value = value.max(*fresh));
        self.vectors = Vectors::new(&blind);
        self.supports = Supports::new(self.model.states(), self.model.observation_count(), permanent);
        for i in permanent..vectors.len() {
            self.push(vectors.actions()[i], vectors.vector(i), &next[i * width..][..width]);
        }
        for node in self.graph.nodes.iter_mut() {
            (node.vector, node.lower, node.scanned) = (NONE, f64::NEG_INFINITY, 0);
        }
        self.slack.iter_mut().zip(slack).for_each(|(own, slack)| *own = own.max(*slack));
        for (belief, upper) in points {
            self.add_upper(belief, upper - self.sawtooth.base(belief));
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
        let (vectors, next) = match plans {
            Some(Plans { vectors, next }) => (vec![Cow::Owned(vectors)], next),
            None => {
                let parts = [self.alpha(), self.supports.retired()];
                (parts.map(Cow::Borrowed).into(), self.supports.joined(self.alpha().len() as u32))
            }
        };
        Snapshot {
            vectors,
            next,
            points: Box::new(|visit| {
                let upper = |belief: &Belief, drop: f64| self.sawtooth.base(belief) + drop;
                self.sawtooth.changed(0).try_for_each(|(belief, drop)| visit(&belief, upper(&belief, drop)))
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
        self.slack
    }

    /// Vectors behind the blind policies that a resumed search begins with, and its points.
    #[must_use]
    pub fn known(&self) -> News {
        let plans =
            Plans { vectors: self.alpha().from(self.permanent), next: self.supports.from(self.permanent).to_vec() };
        News { plans, points: self.sawtooth.changed(0).collect() }
    }

    /// The blind policies, which are never pruned.
    #[must_use]
    pub fn blind(&self) -> AlphaVectors {
        self.alpha().retain(|i| i < self.permanent)
    }

    /// From now on, this rank samples its own beliefs, and exchanges its findings with the other ranks once a round.
    pub fn part(&mut self) {
        let bounds = Interval { lower: f64::NEG_INFINITY, upper: f64::INFINITY };
        self.apart = Some(Apart {
            shared: self.alpha().len(),
            sent: self.sawtooth.time(),
            backups: self.backups + ROUND,
            iterations: self.clock.allowance(),
            moved: Vec::new(),
            others: (bounds, 0, 0),
        });
    }

    /// Checks all limits between expansions. Releases memory if it is full, and ends the run only if that is not
    /// enough. Releasing memory renumbers nodes. If ranks are [apart](Self::part), they meet at the end of each round.
    pub fn ended(&mut self) -> bool {
        while let Some(apart) = &self.apart {
            let goes_on =
                self.clock.status.is_none() && self.backups < apart.backups && self.clock.iterations < apart.iterations;
            if goes_on && !self.over() {
                return false;
            }
            self.meet();
            if self.clock.status.is_some() {
                return true;
            }
        }
        if self.clock.status.is_none() && self.is_full() {
            self.shrink();
            if self.is_full() {
                self.clock.status.get_or_insert(Status::Memory);
            }
        }
        self.over()
    }

    /// The end of a round: all ranks exchange their new vectors and points, and decide together whether the run ends. A
    /// stalled rank ends it only if all are.
    fn meet(&mut self) {
        let (team, code, own) = (self.clock.team(), self.clock.code(), self.own_bounds());
        let Some(mut apart) = self.apart.take() else { return };
        let stalled = u64::from(self.clock.status == Some(Status::Stalled));
        let head = [
            code,
            stalled,
            u64::from(self.is_full()),
            self.clock.iterations,
            self.backups,
            self.points.len() as u64,
            own.lower.to_bits(),
            own.upper.to_bits(),
        ];
        let plans = Plans { vectors: self.alpha().from(apart.shared), next: self.supports.from(apart.shared).to_vec() };
        let points = self.sawtooth.changed(apart.sent).collect();
        let all = team.exchange(&head, &News { plans, points });
        if team.is_broken() {
            self.clock.stopped();
            return;
        }
        self.replace_vectors(&mut apart, &all);
        for (rank, (_, news)) in all.iter().enumerate() {
            if rank != team.rank() {
                news.points.iter().for_each(|(belief, drop)| self.add_upper(belief, *drop));
            }
        }
        (apart.shared, apart.sent) = (self.alpha().len(), self.sawtooth.time());
        let sum = |field: usize| all.iter().map(|(head, _)| head[field]).sum::<u64>();
        let bound = |field: usize| all.iter().map(move |(head, _)| f64::from_bits(head[field]));
        let bounds = Interval {
            lower: bound(6).fold(f64::NEG_INFINITY, f64::max),
            upper: bound(7).fold(f64::INFINITY, f64::min),
        };
        apart.others = (bounds, sum(4) - self.backups, sum(5) as usize - self.points.len());
        self.apart = Some(apart);
        self.prune_if_grown();
        let mut ended = all.iter().all(|(head, _)| head[1] != 0).then_some(Status::Stalled);
        if sum(2) > 0 {
            self.shrink();
            if team.any(self.is_full()) {
                ended = Some(Status::Memory);
            }
        }
        let standing = Standing { bounds, bytes: 0, ..self.standing() };
        self.clock.conclude(all.iter().map(|(head, _)| head[0]), ended, sum(3) - self.clock.iterations, standing);
        let (backups, iterations) = (self.backups + ROUND, self.clock.allowance());
        if let Some(apart) = &mut self.apart {
            (apart.backups, apart.iterations) = (backups, iterations);
        }
    }

    /// Replaces the vectors of the round by those of all ranks, in the order of ranks.
    fn replace_vectors(&mut self, apart: &mut Apart, all: &[(Vec<u64>, News)]) {
        let (shared, width) = (apart.shared, self.model.observation_count() as usize);
        let (Plans { vectors, next }, first) = joined(self.model.states(), shared, all, self.clock.team().rank());
        self.vectors.truncate(shared);
        self.supports.truncate(shared);
        for (i, next) in (0..vectors.len()).zip(next.chunks(width)) {
            self.push(vectors.actions()[i], vectors.vector(i), next);
        }
        apart.moved.sort_unstable();
        apart.moved.dedup();
        for node in apart.moved.drain(..) {
            let node = &mut self.graph.nodes[node as usize];
            if node.vector != NONE && node.vector as usize >= shared {
                node.vector += (first - shared) as u32;
            }
            node.scanned = node.scanned.min(shared as u32);
        }
    }

    /// Lowers the upper bound at a belief to the bound of the vertices plus `drop`, if that is lower.
    pub fn add_upper(&mut self, belief: &Belief, drop: f64) {
        if drop >= 0.0 {
            return;
        }
        let value = self.sawtooth.base(belief) + drop;
        let Some(node) = self.graph.find(belief) else {
            let informed = informed_bound(&self.informed, self.model.actions() as usize, belief);
            if value < self.sawtooth.bound(belief, informed, 0) {
                self.sawtooth.put(belief, drop, None);
            }
            return;
        };
        if value < self.upper(node) {
            let node = &mut self.graph.nodes[node as usize];
            node.upper = value;
            node.point = self.sawtooth.put(belief, drop, (node.point != NONE).then_some(node.point)).unwrap_or(NONE);
        }
    }

    /// Notes that a node may refer to vectors of the round.
    fn note_moved(&mut self, node: u32) {
        if let Some(apart) = &mut self.apart {
            apart.moved.push(node);
        }
    }

    /// Whether it holds on any rank, if ranks are apart; otherwise on this one.
    fn any(&self, holds: bool) -> bool {
        if self.apart.is_some() { self.clock.team().any(holds) } else { holds }
    }

    /// Whether the clock is [late](Clock::late) or memory is full.
    pub fn late(&mut self) -> bool {
        self.is_full() || self.clock.late()
    }

    fn is_full(&self) -> bool {
        self.bytes() as f64 >= MEMORY_FULL * self.clock.memory() as f64
    }

    /// The lower bound at a node: max over α ∈ Γ of b·α.
    pub fn lower(&mut self, node: u32) -> f64 {
        let found = self.best_new_vector(node);
        self.record_best(node, found)
    }

    /// The best of the vectors that were added since the last comparison at this node.
    fn best_new_vector(&self, node: u32) -> Option<(u32, f64)> {
        let node = &self.graph.nodes[node as usize];
        self.vectors.best_from(&node.belief, node.scanned as usize)
    }

    /// Records that the node has been compared with all vectors, of which `found` is the best new one.
    fn record_best(&mut self, node: u32, found: Option<(u32, f64)>) -> f64 {
        let (count, known) = (self.vectors.alpha().len(), self.graph.nodes[node as usize].scanned as usize);
        if self.apart.as_ref().is_some_and(|apart| known <= apart.shared && count > apart.shared) {
            self.note_moved(node);
        }
        let node = &mut self.graph.nodes[node as usize];
        self.work += (node.belief.states().len() * (count - known)) as u64;
        node.scanned = count as u32;
        if let Some((vector, value)) = found
            && value > node.lower
        {
            (node.vector, node.lower) = (vector, value);
        }
        node.lower
    }

    /// Updates the lower bounds of a node's successors with all new vectors, in parallel if that pays. Skips actions
    /// that cannot be optimal, and successors of little weight. Every successor has some vector afterwards.
    fn update_successors(&mut self, node: u32, edges: &[Edge]) {
        let least = self.lower(node);
        let own = self.graph.nodes[node as usize].vector;
        for child in edges.iter().flat_map(|edge| &edge.children) {
            let node = &mut self.graph.nodes[child.node as usize];
            if node.vector == NONE {
                (node.vector, node.lower) = (own, node.belief.dot(self.vectors.alpha().vector(own as usize)));
                self.note_moved(child.node);
            }
        }
        let count = self.alpha().len();
        let products = |node: u32| {
            let node = &self.graph.nodes[node as usize];
            node.belief.states().len() * (count - node.scanned as usize)
        };
        let mut stale = Vec::new();
        for edge in edges.iter().filter(|edge| self.stored_upper_of(edge) > least) {
            let off: f64 = edge.children.iter().map(|child| child.prob * self.gap(child.node)).sum();
            let enough = SKIPPED_GAP * off / edge.children.len() as f64;
            let heavy = edge.children.iter().filter(|child| child.prob * self.gap(child.node) >= enough);
            stale.extend(heavy.map(|child| child.node).filter(|&node| products(node) > 0));
        }
        self.update_lower_bounds(&stale);
    }

    /// Compares nodes with all new vectors, in parallel if that pays. Returns `false` if time ran out.
    fn update_lower_bounds(&mut self, nodes: &[u32]) -> bool {
        let count = self.alpha().len();
        let mut rest = nodes;
        while !rest.is_empty() {
            // Chunks bound the time between two checks of the clock.
            let (mut products, mut taken) = (0, 0);
            while products < PRODUCTS_PER_CHECK && taken < rest.len() {
                let node = &self.graph.nodes[rest[taken] as usize];
                products += node.belief.states().len() * (count - node.scanned as usize);
                taken += 1;
            }
            let (now, later) = rest.split_at(taken);
            rest = later;
            if products < PARALLEL_PRODUCTS {
                now.iter().for_each(|&node| _ = self.lower(node));
            } else {
                let (nodes, vectors) = (&self.graph.nodes, &self.vectors);
                let best = |&node: &u32| {
                    let node = &nodes[node as usize];
                    vectors.best_from(&node.belief, node.scanned as usize)
                };
                let found: Vec<_> = now.par_iter().map(best).collect();
                for (&node, found) in now.iter().zip(found) {
                    self.record_best(node, found);
                }
            }
            if products >= PRODUCTS_PER_CHECK && !rest.is_empty() && self.clock.late() {
                return false;
            }
        }
        true
    }

    /// The upper bound at a node, current with all sawtooth points.
    pub fn upper(&mut self, node: u32) -> f64 {
        let node = &mut self.graph.nodes[node as usize];
        if node.read == self.sawtooth.time() {
            return node.upper;
        }
        self.work += WORK_OF_POINT * u64::from(self.sawtooth.time() - node.read);
        node.upper = self.sawtooth.bound(&node.belief, node.upper, node.read);
        node.read = self.sawtooth.time();
        node.upper
    }

    /// The index of a belief's node. A new node gets the fast informed bound.
    pub fn intern(&mut self, belief: Belief) -> u32 {
        let node = self.graph.intern(belief);
        let new = &mut self.graph.nodes[node as usize];
        if new.upper == f64::INFINITY {
            new.upper = informed_bound(&self.informed, self.model.actions() as usize, &new.belief);
        }
        node
    }

    /// Adds the successors of a node under every action. Stores nothing if time runs out.
    fn expand(&mut self, node: u32) {
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

    /// Updates the upper bounds of nodes, in parallel if that pays.
    fn update_upper_bounds(&mut self, mut nodes: Vec<u32>) {
        let time = self.sawtooth.time();
        nodes.sort_unstable();
        nodes.dedup();
        let points = |nodes: &Nodes, node: &u32| (time - nodes[*node as usize].read) as usize;
        let mut rest = &nodes[..];
        while !rest.is_empty() {
            let (mut work, mut taken) = (0, 0);
            while work < PRODUCTS_PER_CHECK / 8 && taken < rest.len() {
                work += points(&self.graph.nodes, &rest[taken]);
                taken += 1;
            }
            let (now, later) = rest.split_at(taken);
            rest = later;
            if work < PARALLEL_POINTS {
                now.iter().for_each(|&node| _ = self.upper(node));
            } else {
                let (nodes, sawtooth) = (&self.graph.nodes, &self.sawtooth);
                let bound = |&node: &u32| {
                    let node = &nodes[node as usize];
                    if node.read == time { node.upper } else { sawtooth.bound(&node.belief, node.upper, node.read) }
                };
                let bounds: Vec<f64> = now.par_iter().map(bound).collect();
                for (&node, bound) in now.iter().zip(bounds) {
                    let node = &mut self.graph.nodes[node as usize];
                    self.work += WORK_OF_POINT * u64::from(time - node.read);
                    (node.upper, node.read) = (bound, time);
                }
            }
            if !rest.is_empty() && self.clock.late() {
                return;
            }
        }
    }

    /// Bounds on Q(b, a) for each action. The upper bound is current for the action that maximises it, and possibly
    /// stale for the others.
    pub fn intervals(&mut self, node: u32) -> Vec<Interval> {
        self.intervals_of(&[node]).pop().unwrap_or_default()
    }

    /// [`intervals`](Self::intervals) of several nodes, whose successors are bounded together.
    fn intervals_of(&mut self, nodes: &[u32]) -> Vec<Vec<Interval>> {
        for &node in nodes {
            self.expand(node);
            let edges = std::mem::take(&mut self.graph.nodes[node as usize].edges);
            self.update_successors(node, &edges);
            self.graph.nodes[node as usize].edges = edges;
        }
        // Upper bounds, and whether they are current.
        let known = |edge: &Edge| (self.stored_upper_of(edge), false);
        let edges_of = |node: &u32| &self.graph.nodes[*node as usize].edges;
        let mut uppers: Vec<Vec<(f64, bool)>> =
            nodes.iter().map(|node| edges_of(node).iter().map(known).collect()).collect();
        let mut left: Vec<usize> = (0..nodes.len()).collect();
        loop {
            let mut best_of = Vec::new();
            let mut heavy = Vec::new();
            left.retain(|&i| {
                let values: Vec<f64> = uppers[i].iter().map(|upper| upper.0).collect();
                let Some(best) = first_largest(&values).filter(|&best| !uppers[i][best].1) else { return false };
                let children = &self.graph.nodes[nodes[i] as usize].edges[best].children;
                // Stale bounds suffice for successors of little weight.
                let enough =
                    NEGLIGIBLE_GAP * children.iter().map(|child| child.prob * self.gap(child.node)).sum::<f64>();
                let weighs = |child: &&Child| child.prob * self.gap(child.node) >= enough;
                heavy.extend(children.iter().filter(weighs).map(|child| child.node));
                best_of.push(best);
                true
            });
            if left.is_empty() {
                break;
            }
            self.update_upper_bounds(heavy);
            for (&i, best) in left.iter().zip(best_of) {
                uppers[i][best] = (self.stored_upper_of(&self.graph.nodes[nodes[i] as usize].edges[best]), true);
            }
        }
        let gamma = self.model.gamma();
        let lower = |edge: &Edge| {
            let value = |child: &Child| child.prob * self.graph.nodes[child.node as usize].lower;
            edge.reward + gamma * edge.children.iter().map(value).sum::<f64>()
        };
        let of_node = |(node, uppers): (&u32, Vec<(f64, bool)>)| {
            let edges = self.graph.nodes[*node as usize].edges.iter();
            edges.zip(uppers).map(|(edge, (upper, _))| Interval { lower: lower(edge), upper }).collect()
        };
        nodes.iter().zip(uppers).map(of_node).collect()
    }

    /// Gap from the stored bounds.
    fn gap(&self, node: u32) -> f64 {
        let node = &self.graph.nodes[node as usize];
        node.upper - node.lower
    }

    /// Upper bound on Q(b, a) from the stored bounds of the successors.
    fn stored_upper_of(&self, edge: &Edge) -> f64 {
        let upper = |child: &Child| child.prob * self.graph.nodes[child.node as usize].upper;
        edge.reward + self.model.gamma() * edge.children.iter().map(upper).sum::<f64>()
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
        let (action, vector, next) = self.vector(node, best);
        self.work += (vector.len() * next.len()) as u64;
        let value = self.graph.nodes[node as usize].belief.dot(&vector);
        if value <= known {
            return Interval { lower: 0.0, upper };
        }
        self.push(action, &vector, &next);
        self.note_moved(node);
        let node = &mut self.graph.nodes[node as usize];
        (node.lower, node.vector) = (value, self.vectors.alpha().len() as u32 - 1);
        node.scanned = node.vector + 1;
        Interval { lower: value - known, upper }
    }

    /// Adds a vector with its continuations to Γ.
    pub fn push(&mut self, action: u32, vector: &[f64], next: &[u32]) {
        self.vectors.push(action, vector);
        self.supports.push(next);
    }

    /// Lowers the upper bound at a node to its one-step lookahead. Returns the decrease.
    pub fn tighten(&mut self, node: u32) -> f64 {
        let intervals = self.intervals(node);
        self.reduce_upper(node, &intervals)
    }

    /// [`tighten`](Self::tighten) for several nodes from the same bounds. Returns the total decrease.
    pub fn tighten_all(&mut self, nodes: &[u32]) -> f64 {
        let intervals = self.intervals_of(nodes);
        nodes.iter().zip(intervals).map(|(&node, intervals)| self.reduce_upper(node, &intervals)).sum()
    }

    /// Lowers the upper bound of a node to the largest upper bound of its actions. Returns the decrease.
    fn reduce_upper(&mut self, node: u32, intervals: &[Interval]) -> f64 {
        let value = intervals.iter().map(|interval| interval.upper).fold(f64::NEG_INFINITY, f64::max);
        let known = self.upper(node);
        // `intervals` is empty if time ran out.
        if intervals.is_empty() || value >= known {
            return 0.0;
        }
        let node = &mut self.graph.nodes[node as usize];
        node.upper = value;
        let number = (node.point != NONE).then_some(node.point);
        node.point = self.sawtooth.lower(&node.belief, value, number).unwrap_or(NONE);
        known - value
    }

    /// The backup vector of an edge: its action, its entries, and its continuations.
    fn vector(&self, node: u32, edge: usize) -> (u32, Vec<f64>, Vec<u32>) {
        let Edge { action, ref children, .. } = self.graph.nodes[node as usize].edges[edge];
        // Observations of probability 0 continue like the most probable one.
        let likeliest = children.iter().max_by(|a, b| a.prob.total_cmp(&b.prob));
        let vector = |child: &Child| self.graph.nodes[child.node as usize].vector;
        let mut next = vec![likeliest.map_or(0, vector); self.model.observation_count() as usize];
        for child in children {
            next[child.observation as usize] = vector(child);
        }
        (action, self.assembler.vector(self.vectors.alpha(), action, &next), next)
    }

    /// Prunes Γ between expansions, unless ranks are [apart](Self::part) and prune it together at the end of a round.
    pub fn prune_after_expansion(&mut self) {
        if self.apart.is_none() {
            self.prune_if_grown();
        }
    }

    /// Prunes Γ if it has grown by a quarter, and examines sawtooth points in proportion to the new ones.
    fn prune_if_grown(&mut self) {
        if self.alpha().len() > self.pruned + self.pruned / 4 + 32 {
            self.prune();
        }
        let new = self.sawtooth.len().saturating_sub(std::mem::replace(&mut self.pruned_points, self.sawtooth.len()));
        let (sawtooth, clock) = (&mut self.sawtooth, &mut self.clock);
        sawtooth.prune(EXAMINED * new, &mut || clock.late());
    }

    /// Reduces Γ to blind policies and the vectors that are best at a belief of B. If these exceed the limit, the best
    /// vectors at the initial beliefs and those that are best most often stay. Beliefs that were not compared with all
    /// vectors in time count for their best so far.
    pub fn prune(&mut self) {
        self.prune_to(self.max_vectors);
    }

    fn prune_to(&mut self, max_vectors: usize) {
        let count = self.alpha().len();
        let mut uses = vec![0_u64; count];
        uses[..self.permanent.min(count)].fill(u64::MAX / 2);
        for start in 0..self.starts.len() as u32 {
            self.lower(start);
            uses[self.graph.nodes[start as usize].vector as usize] = u64::MAX / 2;
        }
        if !self.clock.late() {
            let points = std::mem::take(&mut self.points);
            self.update_lower_bounds(&points);
            self.points = points;
        }
        for &node in &self.points {
            let vector = self.graph.nodes[node as usize].vector;
            if vector != NONE {
                uses[vector as usize] += 1;
            }
        }
        if self.apart.is_some() {
            let all = self.clock.team().all(&uses);
            uses = (0..count).map(|i| all.iter().fold(0, |sum: u64, uses| sum.saturating_add(uses[i]))).collect();
        }
        let mut least = 1;
        if uses.iter().filter(|&&uses| uses > 0).count() > max_vectors {
            let mut sorted = uses.clone();
            sorted.sort_unstable_by(|a, b| b.cmp(a));
            least = sorted[max_vectors] + 1;
        }
        let stays: Vec<bool> = uses.iter().map(|&uses| uses >= least).collect();
        // `before[i]` is the number of remaining vectors with an index below i.
        let mut before = vec![0; count + 1];
        for i in 0..count {
            before[i + 1] = before[i] + u32::from(stays[i]);
        }
        self.pruned = before[count] as usize;
        // Ranks that are apart drop the same retired vectors.
        let late = self.apart.is_some().then(|| self.clock.late()).map(|late| self.any(late));
        let clock = &mut self.clock;
        self.supports.retain(self.vectors.alpha(), &stays, &mut || late.unwrap_or_else(|| clock.late()));
        if let Some(apart) = &mut self.apart {
            apart.shared = self.pruned;
            apart.moved.clear();
        }
        if self.pruned == count {
            return;
        }
        self.vectors.retain(|i| stays[i]);
        for node in self.graph.nodes.iter_mut().filter(|node| node.vector != NONE) {
            if stays[node.vector as usize] {
                node.vector = before[node.vector as usize];
                node.scanned = before[node.scanned as usize];
            } else {
                (node.vector, node.lower, node.scanned) = (NONE, f64::NEG_INFINITY, 0);
            }
        }
    }

    /// Releases memory: vectors, sawtooth points, and beliefs not visited for longest.
    fn shrink(&mut self) {
        let memory = self.clock.memory() as f64;
        let limit = |part: f64| (part * memory) as usize;
        self.prune();
        if self.sawtooth.bytes() > limit(POINTS_SHARE) {
            self.sawtooth.shrink(limit(POINTS_SHARE / 2.0));
        }
        // Halves Γ repeatedly, because retired vectors may keep memory in use.
        while self.any(self.vectors.needed() + self.supports.bytes() > limit(VECTORS_SHARE)) {
            let count = self.alpha().len();
            self.prune_to((count / 2).max(self.permanent + self.starts.len()));
            if self.alpha().len() == count {
                break;
            }
        }
        let taken = self.sawtooth.bytes() + self.vectors.needed() + self.supports.bytes();
        self.points = self.graph.shrink(self.starts.len(), &self.points, limit(MEMORY_AFTER).saturating_sub(taken));
        self.vectors.shrink_to_fit();
        memory::release();
    }

    /// Bounds on V\*(b₀) that include rounding errors, the best of all ranks.
    pub fn bounds(&mut self) -> Interval {
        let own = self.own_bounds();
        let Some(Apart { others: (others, ..), .. }) = &self.apart else { return own };
        Interval { lower: own.lower.max(others.lower), upper: own.upper.min(others.upper) }
    }

    /// Bounds on V\*(b₀) from the vectors and points of this rank.
    fn own_bounds(&mut self) -> Interval {
        let [below, above] = self.slack;
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
            vectors: self.alpha().len() + self.supports.retired().len(),
            bytes: self.bytes() as u64,
        }
    }

    /// The optimal action of the underlying MDP in a state.
    pub fn best_seen(&self, state: u32) -> u32 {
        let actions = self.model.actions();
        let factor = |action: u32| {
            let (successors, probs) = self.model.successors(state, action);
            let next: f64 = successors.iter().zip(probs).map(|(&s, p)| p * self.seen[s as usize]).sum();
            self.rewards[(state * actions + action) as usize] + self.model.gamma() * next
        };
        first_largest(&(0..actions).map(factor).collect::<Vec<_>>()).unwrap_or_default() as u32
    }

    /// Successors of an action at a node: (o, p(o|b, a), b^{a,o}).
    pub fn successors(&mut self, node: u32, action: u32) -> Vec<(u32, f64, Belief)> {
        let mut successors = Vec::new();
        let belief = &self.graph.nodes[node as usize].belief;
        self.projection.each(self.model, belief, action, |o, prob, next| successors.push((o, prob, next)));
        successors
    }

    /// The policy of Γ and the retired vectors after its [reduction](reduced), its [support], and the clock. Without the memory for
    /// the reduction, all vectors of the support stay.
    #[must_use]
    pub fn into_vectors(self) -> (AlphaVectors, Support, Clock<'o>) {
        let Self { model, vectors, supports, mut clock, graph, sawtooth, .. } = self;
        // Frees memory for the reduction.
        drop((graph, sawtooth));
        let (mut all, next) = supports.join(vectors.into_alpha());
        drop(supports);
        memory::release();
        let (support, reached) = support(model, &all, &next);
        let needed = (1.0 + COPIES) * size_of_val(all.values()) as f64;
        if needed > clock.memory() as f64 {
            all.keep(|i| reached[i]);
            return (all, support, clock);
        }
        (reduced(model, &all, &next, &mut || clock.overdue()), support, clock)
    }

    /// The clock of the run.
    #[must_use]
    pub fn into_clock(self) -> Clock<'o> {
        self.clock
    }

    /// Bytes of beliefs, vectors and sawtooth points.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.graph.bytes()
            + self.vectors.bytes()
            + self.supports.bytes()
            + self.sawtooth.bytes()
            + 4 * self.points.capacity()
    }

    /// Γ.
    #[must_use]
    pub fn alpha(&self) -> &AlphaVectors {
        self.vectors.alpha()
    }
}

/// A number whose digits choose between branches of similar merit, so that ranks go different ways. The first rank has 0, and
/// always takes the best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Branch(pub usize);

/// Least merit of a branch that a rank may take instead of the best, relative to it.
const SIMILAR: f64 = 0.1;

impl Branch {
    /// The index of the branch to take, by the merits of all: the largest of them, the first in case of ties; or another of at
    /// least `SIMILAR` times its merit, which consumes a digit.
    pub fn choose(&mut self, merits: &[f64]) -> Option<usize> {
        let best = first_largest(merits)?;
        let similar = |&i: &usize| merits[i] > 0.0 && merits[i] >= SIMILAR * merits[best];
        let mut ways: Vec<usize> = if self.0 == 0 { Vec::new() } else { (0..merits.len()).filter(similar).collect() };
        if ways.len() < 2 {
            return Some(best);
        }
        ways.sort_by(|&a, &b| merits[b].total_cmp(&merits[a]));
        let chosen = ways[self.0 % ways.len()];
        self.0 /= ways.len();
        Some(chosen)
    }
}

/// Index of the largest number, the first in case of ties.
pub fn first_largest(numbers: &[f64]) -> Option<usize> {
    let indexed = numbers.iter().copied().enumerate();
    indexed.reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(index, _)| index)
}

/// maxₐ Σ b(s) Q(s, a).
pub(super) fn informed_bound(informed: &ActionValues, actions: usize, belief: &Belief) -> f64 {
    let mut sums = vec![0.0; actions];
    for (state, prob) in belief.iter() {
        let factors = &informed[state as usize * actions..][..actions];
        sums.iter_mut().zip(factors).for_each(|(sum, factor)| *sum += prob * factor);
    }
    sums.into_iter().fold(f64::NEG_INFINITY, f64::max)
}

/// Bounds on the accumulated rounding errors of the lower and the upper bound.
///
/// A backup has at most N [terms]; its error and that of [merged](MERGED) beliefs are discounted and sum to at most
/// 1/(1 − γ) times one of them.
pub(super) fn slack(model: &Pomdp, magnitude: f64) -> [f64; 2] {
    let below = 4.0 * terms(model) * UNIT * magnitude / (1.0 - model.gamma());
    [below, below + 2.0 * MERGED * magnitude / (1.0 - model.gamma())]
}

/// N, an upper limit of the number of products and sums in a backup: the longest rows of T and O, and a belief.
pub(super) fn terms(model: &Pomdp) -> f64 {
    let longest =
        |matrix: &Csr| matrix.row_ptr().windows(2).map(|ends| ends[1] - ends[0]).max().unwrap_or_default() as f64;
    let terms = longest(model.process().transitions()) + longest(model.observations()) + 16.0;
    terms + f64::from(model.observation_count()) + f64::from(model.states())
}
