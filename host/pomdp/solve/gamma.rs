//! Γ of a search: a vector spans the [cell](Cells) of the belief that it was made for.
//!
//! Let f = min r / (1 − γ): no policy is worth less. A vector on a cell is f in all other states. If all vectors of Γ are at least f, and
//! [supported](crate::support) by others, so is this one, because f ≤ r(s, a) + γ f. The beliefs of a search lie in one cell each, but for
//! initial ones, so that a vector takes the memory and the work of its cell alone. Blind policies span all states, and so do all vectors if
//! there is one cell.

use std::borrow::Cow;
use std::iter::once;
use std::ops::Range;

use crate::alpha::{AlphaVectors, VectorSet};
use crate::backends::cpu::{Assembler, Vectors};
use crate::belief::Belief;
use crate::cells::Cells;
use crate::support::Retired;

/// The vectors of a cell, or those on all states.
struct Group {
    vectors: Vectors,
    /// The number of each in Γ.
    numbers: Vec<u32>,
}

/// Γ by cells.
pub struct Gamma {
    cells: Cells,
    /// f.
    floor: f64,
    /// First the vectors on all states. Then those on each cell, if there are several.
    groups: Vec<Group>,
    /// The group of each vector of Γ, and its place there.
    places: Vec<(u32, u32)>,
    /// Bytes allocated, and in use.
    bytes: [usize; 2],
}

impl Gamma {
    /// Γ without vectors.
    #[must_use]
    pub fn new(cells: Cells, floor: f64) -> Self {
        let own = (0..cells.count() as u32).filter(|_| cells.count() > 1).map(|cell| cells.states(cell).len());
        let group =
            |states: usize| Group { vectors: Vectors::new(&AlphaVectors::new(states as u32)), numbers: Vec::new() };
        let groups = once(cells.all()).chain(own).map(group).collect();
        Self { cells, floor, groups, places: Vec::new(), bytes: [0; 2] }
    }

    /// The group of the vectors that are made for a belief.
    #[must_use]
    pub fn group_of(&self, belief: &Belief) -> u32 {
        if self.groups.len() == 1 {
            return 0;
        }
        self.cells.of_belief(belief).map_or(0, |cell| cell + 1)
    }

    /// A belief in the states of its group.
    fn local<'b>(&self, group: u32, belief: &'b Belief) -> Cow<'b, Belief> {
        if group == 0 {
            return Cow::Borrowed(belief);
        }
        let states = belief.states().iter().map(|&state| self.cells.rank(state)).collect();
        Cow::Owned(Belief::built(states, belief.probs().to_vec()))
    }

    /// Index and value of a best vector of a group among those from number `first` on.
    fn best_in(&self, group: u32, belief: &Belief, first: usize) -> Option<(u32, f64)> {
        let Group { vectors, numbers } = &self.groups[group as usize];
        let first = numbers.partition_point(|&number| (number as usize) < first);
        if first == numbers.len() {
            return None;
        }
        vectors.best_from(&self.local(group, belief), first).map(|(place, value)| (numbers[place as usize], value))
    }

    /// Index and value of a best vector at `belief` among those from index `first` on, as [`Vectors::best_from`].
    #[must_use]
    pub fn best_from(&self, belief: &Belief, first: usize) -> Option<(u32, f64)> {
        if first >= self.count() {
            return None;
        }
        let (whole, group) = (self.best_in(0, belief, first), self.group_of(belief));
        let own = if group == 0 { None } else { self.best_in(group, belief, first) };
        match (whole, own) {
            (Some(whole), Some(own)) => Some(if own.1 > whole.1 { own } else { whole }),
            (whole, own) => whole.or(own),
        }
    }

    /// A vector for a belief, and its value, without a comparison of all: `vector` if it spans the belief, or else a best one of those on
    /// all states.
    #[must_use]
    pub fn any(&self, vector: u32, belief: &Belief) -> (u32, f64) {
        let group = self.places[vector as usize].0;
        let whole = if group == 0 || group == self.group_of(belief) { None } else { self.best_in(0, belief, 0) };
        whole.unwrap_or_else(|| (vector, self.value(vector as usize, belief)))
    }

    /// Multiplications of a comparison of a belief with the vectors from index `first` on.
    #[must_use]
    pub fn products(&self, belief: &Belief, first: usize) -> usize {
        if first >= self.count() {
            return 0;
        }
        let new = |group: u32| {
            let numbers = &self.groups[group as usize].numbers;
            numbers.len() - numbers.partition_point(|&number| (number as usize) < first)
        };
        let group = self.group_of(belief);
        belief.states().len() * (new(0) + if group == 0 { 0 } else { new(group) })
    }

    /// The vector of a group that begins with `action` and continues with vector `next[o]` after observation o.
    #[must_use]
    pub fn assembled(&self, assembler: &Assembler, group: u32, action: u32, next: &[u32]) -> Vec<f64> {
        if let [Group { vectors, .. }] = &self.groups[..] {
            return assembler.vector(vectors.alpha(), action, next);
        }
        let rows: Vec<(u32, &[f64])> = next.iter().map(|&vector| self.piece(vector as usize)).collect();
        let value = |observation: u32, state: u32| self.entry(rows[observation as usize], state);
        match group.checked_sub(1) {
            Some(cell) => assembler.part(self.cells.states(cell), action, value),
            None => assembler.part(&(0..self.cells.all() as u32).collect::<Vec<u32>>(), action, value),
        }
    }

    /// The entry of a piece at any state.
    fn entry(&self, (group, piece): (u32, &[f64]), state: u32) -> f64 {
        match group {
            0 => piece[state as usize],
            group if group == self.cells.of(state) + 1 => piece[self.cells.rank(state) as usize],
            _ => self.floor,
        }
    }

    /// Appends a vector on the states of a group.
    pub fn push(&mut self, group: u32, action: u32, values: &[f64]) {
        let own = &mut self.groups[group as usize];
        let before = own.bytes();
        self.places.push((group, own.numbers.len() as u32));
        own.numbers.push(self.places.len() as u32 - 1);
        own.vectors.push(action, values);
        let after = own.bytes();
        self.bytes = [0, 1].map(|i| self.bytes[i] + after[i] - before[i]);
    }

    /// Appends a vector with an entry for each state, on one cell if it is f in all others.
    pub fn push_whole(&mut self, action: u32, vector: &[f64]) {
        let floor = self.floor;
        let mut higher = (0..).zip(vector).filter(|(_, value)| **value != floor).map(|(state, _)| self.cells.of(state));
        let cell = higher.next().filter(|&first| higher.all(|cell| cell == first));
        match cell.filter(|_| self.groups.len() > 1) {
            Some(cell) => self.push_part(cell + 1, action, vector),
            None => self.push(0, action, vector),
        }
    }

    /// Appends what a vector with an entry for each state has on the states of a group.
    pub fn push_part(&mut self, group: u32, action: u32, vector: &[f64]) {
        match group.checked_sub(1) {
            None => self.push(0, action, vector),
            Some(cell) => {
                let values = self.cells.states(cell).iter().map(|&state| vector[state as usize]);
                self.push(group, action, &values.collect::<Vec<f64>>());
            }
        }
    }

    /// The value at a belief of a vector on the states of a group in which the belief lies.
    #[must_use]
    pub fn dot(&self, group: u32, belief: &Belief, values: &[f64]) -> f64 {
        self.local(group, belief).dot(values)
    }

    /// These vectors, with an entry for each state.
    #[must_use]
    pub fn whole(&self, part: Range<usize>) -> Cow<'_, AlphaVectors> {
        if let [Group { vectors, .. }] = &self.groups[..]
            && part == (0..self.count())
        {
            return Cow::Borrowed(vectors.alpha());
        }
        let mut all = AlphaVectors::new(self.cells.all() as u32);
        part.for_each(|i| all.push(self.action(i), &self.row(i)));
        Cow::Owned(all)
    }

    /// f.
    #[must_use]
    pub fn floor(&self) -> f64 {
        self.floor
    }

    /// The entries of a piece at all states.
    fn spread<'p>(&self, piece: (u32, &'p [f64])) -> Cow<'p, [f64]> {
        match piece.0 {
            0 => Cow::Borrowed(piece.1),
            _ => (0..self.cells.all() as u32).map(|state| self.entry(piece, state)).collect(),
        }
    }

    /// The value of a piece at any belief.
    fn of_piece(&self, piece: (u32, &[f64]), belief: &Belief) -> f64 {
        match piece {
            (group, vector) if group == 0 || group == self.group_of(belief) => self.dot(group, belief, vector),
            piece => belief.iter().map(|(state, prob)| prob * self.entry(piece, state)).sum(),
        }
    }

    /// Keeps every vector i with `before[i] < before[i + 1]`, as vector `before[i]`.
    pub fn retain(&mut self, before: &[u32]) {
        let keep = |i: usize| before[i] < before[i + 1];
        self.places = vec![(0, 0); before.last().map_or(0, |all| *all as usize)];
        for (group, Group { vectors, numbers }) in (0..).zip(&mut self.groups) {
            vectors.retain(|place| keep(numbers[place] as usize));
            numbers.retain(|&number| keep(number as usize));
            for (place, number) in (0..).zip(numbers) {
                *number = before[*number as usize];
                self.places[*number as usize] = (group, place);
            }
        }
        self.count_bytes();
    }

    /// Keeps only the first `count` vectors.
    pub fn truncate(&mut self, count: usize) {
        for Group { vectors, numbers } in &mut self.groups {
            numbers.truncate(numbers.partition_point(|&number| (number as usize) < count));
            vectors.truncate(numbers.len());
        }
        self.places.truncate(count);
        self.count_bytes();
    }

    /// Releases unused capacity.
    pub fn shrink_to_fit(&mut self) {
        self.groups.iter_mut().for_each(|group| group.vectors.shrink_to_fit());
        self.count_bytes();
    }

    fn count_bytes(&mut self) {
        let all: Vec<[usize; 2]> = self.groups.iter().map(Group::bytes).collect();
        self.bytes = [0, 1].map(|i| all.iter().map(|bytes| bytes[i]).sum());
    }

    /// Bytes allocated.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes[0]
    }

    /// Bytes in use, without spare capacity.
    #[must_use]
    pub fn needed(&self) -> usize {
        self.bytes[1]
    }
}

impl Group {
    /// Bytes allocated, and in use.
    fn bytes(&self) -> [usize; 2] {
        [self.vectors.bytes(), self.vectors.needed()]
    }
}

impl VectorSet for Gamma {
    fn count(&self) -> usize {
        self.places.len()
    }

    fn action(&self, i: usize) -> u32 {
        let (group, place) = self.places[i];
        self.groups[group as usize].vectors.alpha().actions()[place as usize]
    }

    fn piece(&self, i: usize) -> (u32, &[f64]) {
        let (group, place) = self.places[i];
        (group, self.groups[group as usize].vectors.alpha().vector(place as usize))
    }

    fn value(&self, i: usize, belief: &Belief) -> f64 {
        self.of_piece(self.piece(i), belief)
    }

    fn row(&self, i: usize) -> Cow<'_, [f64]> {
        self.spread(self.piece(i))
    }
}

/// Γ, and behind it the vectors that are retired from it.
pub struct WithRetired<'g> {
    /// Γ.
    pub active: &'g Gamma,
    /// The retired vectors.
    pub retired: &'g [Retired],
}

impl VectorSet for WithRetired<'_> {
    fn count(&self) -> usize {
        self.active.count() + self.retired.len()
    }

    fn action(&self, i: usize) -> u32 {
        match i.checked_sub(self.active.count()) {
            None => self.active.action(i),
            Some(retired) => self.retired[retired].action,
        }
    }

    fn piece(&self, i: usize) -> (u32, &[f64]) {
        match i.checked_sub(self.active.count()) {
            None => self.active.piece(i),
            Some(retired) => (self.retired[retired].group, &self.retired[retired].values),
        }
    }

    fn value(&self, i: usize, belief: &Belief) -> f64 {
        self.active.of_piece(self.piece(i), belief)
    }

    fn row(&self, i: usize) -> Cow<'_, [f64]> {
        self.active.spread(self.piece(i))
    }
}
