//! The part of a model that a rank has: its states, its ghosts, and what it exchanges.

use std::ops::Range;

use warpkov_mdp::SolveError;
use warpkov_mdp::analysis::divide::{GhostOrder, balanced, cut};
use warpkov_mdp::analysis::partition::{by_parts, ghosts};
use warpkov_mdp::generate::{Forest, Garnet, SlipGrid};
use warpkov_mdp::model::whole::{Fault, Rows};
use warpkov_mdp::model::{Csr, Mdp, Objective, Whole};
use warpkov_mdp::options::Method;
use warpkov_mdp::report::{Report, Summary};
use warpkov_mdp::solution::RankShare;
use warpkov_mdp::solve::{Initial, Session, Solve};
use warpkov_runtime::comm::Local;

use super::common::{PATIENCE, assert_agree, cpu, models, solved, solved_in_parts};

#[test]
fn a_part_has_the_rows_of_its_states() {
    for mdp in models() {
        for (ranks, order) in (1..=5).flat_map(|ranks| [(ranks, GhostOrder::Around), (ranks, GhostOrder::Behind)]) {
            let splits = Local::run(ranks, PATIENCE, |comm: &Local| balanced(&mdp, comm)).unwrap().swap_remove(0);
            assert!(splits.is_sorted() && splits.len() == ranks as usize + 1);
            let parts = Local::run(ranks, PATIENCE, |comm: &Local| cut(&mdp, &splits, order, comm)).unwrap();
            let mut entries = 0;
            for (rank, part) in parts.iter().enumerate() {
                let of_rank = part.part().unwrap();
                let (first, own) = (of_rank.first as usize, part.own());
                assert_eq!((first, own.len() as u64), (splits[rank] as usize, splits[rank + 1] - splits[rank]));
                let spare = usize::from(!of_rank.works);
                assert_eq!(part.states() as usize, of_rank.states());
                assert_eq!(part.never_terminates(), mdp.never_terminates());
                // The number in the whole model of each local state.
                let mut global = vec![0; part.states() as usize - spare];
                own.clone().for_each(|state| global[state] = first + state - own.start);
                for peer in &of_rank.peers {
                    let owner = parts[peer.rank as usize].part().unwrap();
                    let sends = &owner.peers.iter().find(|peer| peer.rank as usize == rank).unwrap().sends;
                    for (ghost, state) in peer.ghosts.clone().zip(sends.iter()) {
                        global[ghost] = owner.first as usize + state as usize - owner.own.start;
                    }
                }
                if of_rank.all_gather {
                    assert_eq!(global.len(), mdp.states() as usize, "all states");
                    assert!(of_rank.peers.iter().all(|peer| peer.sends.run() == Some(own.clone())));
                }
                match order {
                    GhostOrder::Around => {
                        assert!(global.is_sorted_by(|a, b| a < b), "the order of the whole model is kept")
                    }
                    GhostOrder::Behind => assert_eq!(own.start, 0),
                }
                for state in 0..global.len() {
                    let rows = part.choices().rows(state);
                    if !own.contains(&state) {
                        assert!(rows.is_empty(), "a ghost has no actions");
                        continue;
                    }
                    let expected = mdp.choices().rows(global[state]);
                    assert_eq!(rows.len(), expected.len());
                    for (row, expected) in rows.zip(expected) {
                        let (col, val) = part.transitions().row(row);
                        let mut entry: Vec<_> = col.iter().map(|&s| global[s as usize] as u32).zip(val).collect();
                        entry.sort_by_key(|entry| entry.0);
                        let (col, val): (Vec<u32>, Vec<f64>) = entry.into_iter().unzip();
                        assert_eq!((&col[..], &val[..]), mdp.transitions().row(expected));
                        assert_eq!(part.end(row), mdp.end(expected));
                        entries += val.len();
                    }
                }
                let rewards = mdp.expected_rewards();
                let rows = mdp.choices().first(first)..mdp.choices().first(first + own.len());
                let expected = if of_rank.works { rewards[rows].to_vec() } else { vec![0.0; spare] };
                for (found, expected) in part.expected_rewards().iter().zip(&expected) {
                    // Behind, the terms of a sum have another order.
                    assert!((found - expected).abs() <= 1e-14 * expected.abs().max(1.0), "{found} and {expected}");
                }
            }
            assert_eq!(entries, mdp.transitions().nnz());
        }
    }
}

/// Ranks exchange all values if most are ghosts, and only then.
#[test]
fn most_states_as_ghosts_make_an_all_gather() {
    let far = Garnet { states: 4000, ..Garnet::default() };
    let near = Garnet { window: Some(20), ..far };
    let grid = SlipGrid { width: 60, height: 60, ..SlipGrid::default() }.generate().unwrap();
    // State 0 leads to all states, the others to themselves.
    let states = 4096;
    let ends = std::iter::once(0).chain((0..states).map(|state| u64::from(states + state))).collect::<Vec<_>>();
    let columns: Vec<u32> = (0..states).chain(1..states).collect();
    let probability = |at: usize| if at < states as usize { 1.0 / f64::from(states) } else { 1.0 };
    let probabilities: Vec<f64> = (0..columns.len()).map(probability).collect();
    let transitions = Csr::new(ends, columns.clone(), probabilities).unwrap();
    let rewards = Csr::new(transitions.row_ptr().to_vec(), columns.clone(), vec![1.0; columns.len()]).unwrap();
    let hub = Mdp::new(states, 1, 0.9, transitions, rewards, None).unwrap();
    // The most ranks with an all-gather: of the hub, one of two ranks needs all states of the other one.
    let models = [(far.generate().unwrap(), 7), (near.generate().unwrap(), 0), (grid, 0), (hub, 2)];
    for (number, (mdp, most)) in models.iter().enumerate() {
        for ranks in 2..=7 {
            let what = format!("model {number} on {ranks} ranks");
            let expected = ranks <= *most;
            let found = solved(mdp, ranks, None, &cpu(Some(Method::Values)));
            let all = |rank: &RankShare| rank.work.all_gather;
            assert!(found.ranks.iter().all(|rank| all(rank) == expected), "{what}: {:?}", found.ranks);
            let options = cpu(None);
            let report = Report::new(mdp, &options.limits, &found);
            let (mut text, mut json) = (Vec::new(), Vec::new());
            report.write_summary(&mut text).unwrap();
            report.write_json(&mut json, false).unwrap();
            let name = if expected { "all-gather" } else { "halo" };
            let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
            assert_eq!(json["exchange"], name, "{what}");
            assert!(String::from_utf8(text).unwrap().contains(&format!("(exchange: {name})")), "{what}");
        }
    }
}

#[test]
fn states_keep_their_order_within_parts() {
    let (order, borders) = by_parts(&[2, 0, 2, 0, 3, 0], 4);
    assert_eq!(order.old(), [1, 3, 5, 0, 2, 4]);
    assert_eq!(borders, [0, 3, 3, 5, 6]);
    // State s of a forest leads to s + 1, and to 0.
    let mdp = Forest { ages: 6, ..Forest::default() }.generate().unwrap();
    assert_eq!(ghosts(&mdp, &[0, 0, 0, 1, 1, 1], 2), 2);
    assert_eq!(ghosts(&mdp, &[0, 1, 0, 1, 0, 1], 2), 6);
    assert_eq!(ghosts(&mdp, &[0; 6], 1), 0);
}

#[test]
fn initial_values_reach_their_states() {
    let mdp = &models()[6];
    let options = cpu(Some(Method::Values));
    let whole = Solve::new(mdp, &options).run().unwrap();
    for ranks in [2, 5] {
        let again = solved(mdp, ranks, Some(&whole.values), &options);
        let sum = |of: fn(&RankShare) -> u64| again.ranks.iter().map(of).sum::<u64>();
        assert_eq!(sum(|rank| rank.work.states), u64::from(mdp.states()));
        assert_eq!(sum(|rank| rank.work.transitions), mdp.transitions().nnz() as u64);
        assert!(again.ranks.iter().all(|rank| rank.work.ghosts > 0 && rank.time.waiting > 0.0), "{:?}", again.ranks);
        assert!(again.run.sweeps() <= 2, "{} sweeps from the solution", again.run.sweeps());
        assert_agree("restart", &again, &whole);
    }
    let session = || Session { initial: Initial::Values(&[0.0]), ..Session::default() };
    let wrong = Local::run(2, PATIENCE, |comm: &Local| Solve::new(mdp, &options).session(session()).run_on(comm));
    assert!(matches!(wrong, Err(SolveError::Initial { found: 1, .. })), "{:?}", wrong.err());
}

/// A model of more states than a rank can number, of which only the count matters here.
struct Vast;

impl Whole for Vast {
    fn states(&self) -> u64 {
        20_000_000_000
    }

    fn gamma(&self) -> f64 {
        0.9
    }

    fn objective(&self) -> Objective {
        Objective::Maximize
    }

    fn transitions_before(&self, state: u64) -> u64 {
        state
    }

    fn rows(&self, states: Range<u64>) -> Result<Rows<'_>, Fault> {
        Err(format!("{states:?} is read").into())
    }
}

#[test]
fn too_few_ranks_are_told_how_many_are_necessary() {
    let options = cpu(Some(Method::Values));
    let message = |ranks| solved_in_parts(&Vast, ranks, &options).unwrap_err().to_string();
    let few = message(4);
    assert!(few.contains("5000000000 states") && few.contains("at least 5 ranks"), "{few}");
    assert_eq!(message(5), "0..4000000000 is read");
}
