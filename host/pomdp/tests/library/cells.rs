//! Cells of states, against the least division that the definition demands, and searches by cells, against exact solutions.

use std::collections::BTreeSet;

use warpkov_common::numbers::max_norm;
use warpkov_mdp::model::{Choices, Csr, MdpParts};
use warpkov_pomdp::belief::Belief;
use warpkov_pomdp::cells::Cells;
use warpkov_pomdp::generate::{FourByThree, Layout, RockSample, Tag, Tiger};
use warpkov_pomdp::model::{Pomdp, PomdpParts};
use warpkov_pomdp::options::{Expansion, Gap, Limits, Scheme, SolveOptions};
use warpkov_pomdp::solution::Status;

use crate::common::{is_attained, options, solve};
use crate::random::Random;

fn csr(rows: &[Vec<(u32, f64)>]) -> Csr {
    let mut row_ptr = vec![0];
    row_ptr.extend(rows.iter().scan(0, |end, row| {
        *end += row.len() as u64;
        Some(*end)
    }));
    let (col, val): (Vec<u32>, Vec<f64>) = rows.iter().flatten().copied().unzip();
    Csr::new(row_ptr, col, val).unwrap()
}

/// States (x, y) at x·`hidden` + y, of which x is observed after each action. The start has any x, or only the first.
fn mixed(random: &mut Random, [seen, hidden, actions, signals]: [u32; 4], known: bool, size: f64) -> Pomdp {
    let states = seen * hidden;
    let share = |random: &mut Random, count: u32| {
        let weights: Vec<f64> = (0..count).map(|_| random.unit().powi(3)).collect();
        let sum: f64 = weights.iter().sum();
        weights.into_iter().map(|weight| weight / sum).collect::<Vec<f64>>()
    };
    let rows: Vec<Vec<(u32, f64)>> = (0..states * actions)
        .map(|_| {
            // Few places to go to, so that cells may split and join.
            let x = random.below(u64::from(seen)) as u32;
            let other = random.below(u64::from(seen)) as u32;
            let mut probs = vec![0.0; states as usize];
            for (place, prob) in [x, other].into_iter().zip(share(random, 2)) {
                let below = share(random, hidden);
                (0..hidden).for_each(|y| probs[(place * hidden + y) as usize] += prob * below[y as usize]);
            }
            (0..states).zip(probs).filter(|(_, prob)| *prob > 0.0).collect()
        })
        .collect();
    let observed: Vec<Vec<(u32, f64)>> = (0..actions * states)
        .map(|row| {
            let x = row % states / hidden;
            let probs = share(random, signals);
            (0..signals).map(|signal| x * signals + signal).zip(probs).collect()
        })
        .collect();
    let rewards: Vec<f64> = (0..states * actions).map(|_| size * (random.unit() - 0.5)).collect();
    let process = MdpParts {
        states,
        choices: Choices::Uniform(actions),
        gamma: 0.2 + 0.5 * random.unit(),
        transitions: csr(&rows),
        action_rewards: rewards.into(),
        ..MdpParts::default()
    };
    let start = (0..if known { hidden } else { states }).collect();
    PomdpParts {
        process,
        observation_count: seen * signals,
        observations: csr(&observed),
        start: Belief::uniform(start),
        seen: Vec::new(),
        names: Default::default(),
    }
    .validated()
    .unwrap()
}

/// The least division by its definition: sets of states that an initial belief, or a set, may lead to are joined until none changes.
fn least(model: &Pomdp) -> BTreeSet<BTreeSet<u32>> {
    let after = |set: &BTreeSet<u32>| {
        let mut sets = Vec::new();
        for action in 0..model.actions() {
            for observation in 0..model.observation_count() {
                let is_seen = |next: &u32| {
                    let (observations, probs) = model.observed(action, *next);
                    observations.iter().zip(probs).any(|(&o, &p)| o == observation && p > 0.0)
                };
                let next: BTreeSet<u32> = set
                    .iter()
                    .flat_map(|&state| {
                        let (next, probs) = model.successors(state, action);
                        next.iter().copied().zip(probs.iter().copied()).filter(|(_, p)| *p > 0.0).map(|(s, _)| s)
                    })
                    .filter(is_seen)
                    .collect();
                sets.extend(Some(next).filter(|next| !next.is_empty()));
            }
        }
        sets
    };
    let mut sets: Vec<BTreeSet<u32>> =
        model.starts().iter().flat_map(|(_, start)| after(&start.states().iter().copied().collect())).collect();
    loop {
        let before: BTreeSet<BTreeSet<u32>> = sets.iter().cloned().collect();
        let mut joined: Vec<BTreeSet<u32>> = Vec::new();
        for mut set in sets.iter().cloned().chain(sets.iter().flat_map(after)) {
            joined.retain(|other| {
                let apart = other.is_disjoint(&set);
                if !apart {
                    set.extend(other);
                }
                apart
            });
            joined.push(set);
        }
        sets = joined;
        if sets.iter().cloned().collect::<BTreeSet<_>>() == before {
            return before;
        }
    }
}

/// The cells that beliefs come to after the first step, as sets.
fn found(model: &Pomdp) -> BTreeSet<BTreeSet<u32>> {
    let cells = Cells::new(model);
    let mut all = vec![0; model.states() as usize];
    for cell in 0..cells.count() as u32 {
        for (rank, &state) in (0..).zip(cells.states(cell)) {
            assert_eq!((cells.of(state), cells.rank(state)), (cell, rank));
            all[state as usize] += 1;
        }
    }
    assert!(all.iter().all(|&times| times == 1));
    (0..cells.count() as u32).map(|cell| cells.states(cell).iter().copied().collect()).collect()
}

#[test]
fn cells_are_the_least_division() {
    let mut random = Random::new(77);
    let mut counts = BTreeSet::new();
    for index in 0..200 {
        let shape = [1 + random.below(5), 1 + random.below(4), 1 + random.below(3), 1 + random.below(3)];
        let model = mixed(&mut random, shape.map(|count| count as u32), index % 2 == 0, 1.0);
        let (least, found) = (least(&model), found(&model));
        let reached: BTreeSet<u32> = least.iter().flatten().copied().collect();
        let rest: BTreeSet<u32> = (0..model.states()).filter(|state| !reached.contains(state)).collect();
        let expected: BTreeSet<_> = least.into_iter().chain(Some(rest).filter(|rest| !rest.is_empty())).collect();
        assert_eq!(found, expected, "model {index}");
        counts.insert(found.len());
    }
    assert!(counts.len() >= 4, "{counts:?}");
}

#[test]
fn cells_of_known_models() {
    let sizes = |model: &Pomdp| -> Vec<usize> { found(model).iter().map(BTreeSet::len).collect() };
    // The tiger, and the robot of the grid, are never seen.
    assert_eq!(sizes(&Tiger::default().generate().unwrap()), [2]);
    assert!(sizes(&FourByThree::default().generate().unwrap()).len() > 1);
    // The rover knows its cell, not its rocks; the end is known.
    let rocks = RockSample::new(Layout::R5x5).generate().unwrap();
    let sizes_of_rocks = sizes(&rocks);
    assert!(sizes_of_rocks.len() == 26 && sizes_of_rocks.iter().filter(|&&size| size == 32).count() == 25);
    // The robot knows its place: 29 of them, with the opponent in any of 29, or tagged.
    let tag = Tag::default().generate().unwrap();
    assert!(sizes(&tag).iter().all(|&size| size <= 30), "{:?}", sizes(&tag));
}

/// Searches of all kinds bound the exact value, and their policies earn what they say.
#[test]
fn searches_by_cells_hold_and_their_policies_earn_it() {
    let mut random = Random::new(78);
    let mut several = 0;
    for index in 0..60 {
        let size = 10_f64.powf(12.0 * random.unit() - 6.0);
        let shape = [1 + random.below(3), 1 + random.below(3), 2, 1 + random.below(2)].map(|count| count as u32);
        let model = mixed(&mut random, shape, index % 2 == 0, size);
        several += usize::from(Cells::new(&model).count() > 1);
        let exact =
            SolveOptions { exact: true, limits: Limits { gap: Gap::NONE, ..Limits::default() }, ..options(1.0, 1) };
        let exact = SolveOptions { limits: Limits { vectors: 2048, iterations: None, ..exact.limits }, ..exact };
        let exact = solve(&model, &exact);
        let gap = 1e-3 * max_norm(&model.expected_rewards()) / (1.0 - model.gamma());
        for (expansion, scheme) in [
            (Expansion::Mixed, None),
            (Expansion::Hsvi, Some(Scheme::Path)),
            (Expansion::Walks, Some(Scheme::Full)),
            (Expansion::Ger, Some(Scheme::Randomized)),
        ] {
            let by = SolveOptions { expansion: Some(expansion), scheme, ..options(gap, 60) };
            let solution = solve(&model, &by);
            let what = format!("model {index}, {expansion} {scheme:?}");
            let (own, best) = (solution.end(), exact.end());
            let room = 1e-12 * max_norm(&model.expected_rewards()) / (1.0 - model.gamma());
            assert!(own.lower <= best.upper + room && own.upper >= best.lower - room, "{what}: {own:?}, {best:?}");
            if expansion != Expansion::Ger {
                assert_eq!(solution.status, Status::Gap, "{what}: {own:?}");
            }
            is_attained(&model, &solution, 0, &what);
        }
    }
    assert!(several >= 20, "{several}");
}
