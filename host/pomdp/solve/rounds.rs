//! Rounds of ranks that sample their own beliefs, and the end of a run.

use super::apart::{Apart, ROUND};
use super::clock::Standing;
use super::interval::Interval;
use super::search::Search;
use super::team::{News, joined};
use crate::backend::Plans;
use crate::solution::Status;

impl Search<'_, '_> {
    /// From now on, this rank samples its own beliefs, and exchanges its findings with the other ranks once a round.
    pub fn part(&mut self) {
        self.apart = Some(Apart {
            shared: self.lower_bound.count(),
            sent: self.upper_bound.sawtooth.time(),
            backups: self.backups + ROUND,
            iterations: self.clock.allowance(),
            moved: Vec::new(),
            others: (Interval::ALL, 0, 0),
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
        let plans = self.lower_bound.plans(apart.shared);
        let points = self.upper_bound.sawtooth.changed(apart.sent).collect();
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
        (apart.shared, apart.sent) = (self.lower_bound.count(), self.upper_bound.sawtooth.time());
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
        self.lower_bound.vectors.truncate(shared);
        self.lower_bound.supports.truncate(shared);
        for (i, next) in (0..vectors.len()).zip(next.chunks(width)) {
            self.lower_bound.push_whole(vectors.actions()[i], vectors.vector(i), next);
        }
        apart.renumber(&mut self.graph, first);
    }

    /// Notes that a node may refer to vectors of the round.
    pub(super) fn note_moved(&mut self, node: u32) {
        if let Some(apart) = &mut self.apart {
            apart.moved.push(node);
        }
    }

    /// Whether it holds on any rank, if ranks are apart; otherwise on this one.
    pub(super) fn any(&self, holds: bool) -> bool {
        if self.apart.is_some() { self.clock.team().any(holds) } else { holds }
    }
}
