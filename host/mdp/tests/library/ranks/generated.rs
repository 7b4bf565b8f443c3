//! Models that each rank generates in part, and rows that are made on demand.

use warpkov_mdp::SolveError;
use warpkov_mdp::backend::{GreedySweeps, State, Stop};
use warpkov_mdp::backends::device::{Exchanges, Ranks, SweepLayout, ValueIteration};
use warpkov_mdp::generate::{Forest, Garnet, QueueNetwork, SlipGrid};
use warpkov_mdp::model::Whole;
use warpkov_mdp::model::whole::{Actions, Columns, Described, Entries, Rows};
use warpkov_mdp::options::{Limits, Method, Reorder, SolveOptions, Target};
use warpkov_mdp::solve::Solve;
use warpkov_mdp::team::Team;
use warpkov_runtime::choose::DeviceChoice;
use warpkov_runtime::comm::{Communicator, Local};

use crate::random::Random;

use super::common::{PATIENCE, cpu, families, solved_in_parts};

/// A grid that each rank generates in part: the sweeps, the values and the certificate of one rank.
#[test]
fn a_grid_generated_in_parts_has_the_bits_of_one() {
    let walls = SlipGrid { walls: 0.2, obstacles: 0.1, ..SlipGrid::default() };
    for grid in [SlipGrid { width: 23, height: 31, ..SlipGrid::default() }, SlipGrid { width: 40, height: 17, ..walls }]
    {
        let grid = SlipGrid { gamma: 0.8, ..grid };
        let values = |ranks: u32| {
            let work = |comm: &Local| {
                let device = DeviceChoice::Emulated.open_kernels(false)?.0;
                let made = grid.patterns_of(comm.rank(), comm.size()).unwrap();
                let team = made.part().map_or_else(Team::alone, |part| Team::new(comm, part));
                let layout = SweepLayout::generated(&made).unwrap();
                let ranks = Ranks::new(&device, &team)?;
                let ghosts = ranks.map(|ranks| ranks.ghosts::<f64>(&device)).transpose()?;
                let ghosts = ghosts.map(|ghosts| Box::new(ghosts) as Box<dyn Exchanges<f64>>);
                let mut backend = ValueIteration::<f64, u32>::in_team(&device, &layout, ghosts)?;
                backend.backup(Stop::Change(0.0), 40)?;
                let own = made.part().map_or(0..made.states() as usize, |part| part.own.clone());
                Ok::<_, SolveError>(backend.values()?[own].to_vec())
            };
            Local::run(ranks, PATIENCE, work).unwrap().concat()
        };
        let one = values(1);
        for ranks in [2, 3, 5] {
            assert_eq!(values(ranks), one, "{ranks} ranks");
        }
    }
}

/// The entries of rows: columns, bits of values.
fn entries(of: &Entries) -> Vec<Vec<(u64, u64)>> {
    let col: Vec<u64> = match &of.col {
        Columns::Short(col) => col.iter().map(|&col| col.into()).collect(),
        Columns::Long(col) => col.to_vec(),
    };
    let first = of.row_ptr[0];
    let row = |ends: &[u64]| {
        let range = (ends[0] - first) as usize..(ends[1] - first) as usize;
        col[range.clone()].iter().copied().zip(of.val[range].iter().map(|value| value.to_bits())).collect()
    };
    of.row_ptr.windows(2).map(row).collect()
}

fn assert_same_rows(what: &str, found: &Rows, expected: &Rows) {
    let firsts = |rows: &Rows| (rows.states.start..=rows.states.end).map(|s| rows.first(s)).collect::<Vec<_>>();
    let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert_eq!((&found.states, firsts(found)), (&expected.states, firsts(expected)), "{what}");
    assert_eq!(matches!(found.actions, Actions::Uniform(_)), matches!(expected.actions, Actions::Uniform(_)));
    assert!(entries(&found.transitions) == entries(&expected.transitions), "{what}: P differs");
    assert!(entries(&found.rewards) == entries(&expected.rewards), "{what}: R differs");
    assert_eq!(bits(&found.action_rewards), bits(&expected.action_rewards), "{what}");
    assert_eq!((bits(&found.ends), &found.names), (bits(&expected.ends), &expected.names), "{what}");
    let rows: Vec<_> = found.places(0..found.count()).collect();
    assert!(
        rows.iter()
            .all(|at| found.state_of(at.row) == at.state && found.first(at.state) + u64::from(at.action) == at.row)
    );
}

/// The rows of any range of states are those of the whole model, bit for bit.
#[test]
fn rows_on_demand_are_those_of_the_whole_model() {
    let mut random = Random::new(3);
    for (name, source, mdp) in families() {
        let states = u64::from(mdp.states());
        assert_eq!((source.states(), source.gamma(), source.objective()), (states, mdp.gamma(), mdp.objective()));
        assert_eq!((source.labels(), source.action_names()), (Described::labels(&mdp), Described::action_names(&mdp)));
        assert_eq!(source.grid().as_deref(), mdp.grid());
        let any: Vec<_> = (0..8).map(|_| [random.below(states + 1), random.below(states + 1)]).collect();
        for [a, b] in [[0, states], [0, 0], [states, states], [states - 1, states]].into_iter().chain(any) {
            let range = a.min(b)..a.max(b);
            let what = format!("{name}, states {range:?}");
            assert_same_rows(&what, &source.rows(range.clone()).unwrap(), &Whole::rows(&mdp, range).unwrap());
        }
        let work: Vec<_> = (0..=4).map(|part| source.transitions_before(states * part / 4)).collect();
        assert!(work.is_sorted() && work[4] > 0, "{name}: {work:?}");
    }
}

/// A family that several ranks make, each its own part, is solved with the bits of one process.
#[test]
fn generated_parts_have_the_bits_of_one() {
    let mut number = 0;
    for (name, source, mdp) in families() {
        if mdp.gamma() >= 1.0 {
            continue;
        }
        let limits = Limits { target: Target::Theta(1e-9), max_sweeps: 60, ..Limits::default() };
        let options = SolveOptions { limits, reorder: Reorder::None, ..cpu(Some(Method::Values)) };
        let one = Solve::new(&mdp, &options).run().unwrap();
        number += 1;
        for ranks in [1, 2 + number % 6] {
            let found = solved_in_parts(&*source, ranks, &options).unwrap();
            assert_eq!((&found.values, &found.policy), (&one.values, &one.policy), "{name} on {ranks} ranks");
            assert_eq!((found.certificate, found.size), (one.certificate, one.size), "{name} on {ranks} ranks");
        }
    }
}

/// Models of more states than 32 bits number have rows everywhere, and no whole.
#[test]
fn rows_on_demand_have_numbers_of_64_bits() {
    let grid = SlipGrid { width: 100_000, height: 100_000, ..SlipGrid::default() };
    let queues = QueueNetwork { queues: 5, capacity: 99, ..QueueNetwork::default() };
    let garnet = Garnet { states: 10_000_000_000, ..Garnet::default() };
    let forest = Forest { ages: 10_000_000_000, ..Forest::default() };
    let sources: [Box<dyn Described>; 4] = [
        Box::new(grid.source().unwrap()),
        Box::new(queues.source().unwrap()),
        Box::new(garnet.source().unwrap()),
        Box::new(forest.source().unwrap()),
    ];
    for source in &sources {
        assert_eq!(source.states(), 10_000_000_000);
        for first in [0, (1 << 32) - 50, 7_654_321_098, source.states() - 100] {
            let rows = source.rows(first..first + 100).unwrap();
            let Columns::Long(col) = &rows.transitions.col else { panic!("columns of 32 bits") };
            assert!(rows.count() >= 200 && col.len() >= rows.count() && col.iter().all(|&col| col < source.states()));
        }
    }
    let rows = sources[0].rows(5_000_050_000..5_000_050_001).unwrap();
    let Columns::Long(col) = &rows.transitions.col else { panic!("columns of 32 bits") };
    assert_eq!(col[..3], [4_999_950_000, 5_000_049_999, 5_000_050_001]);
    let last = sources[0].rows(9_999_999_999..10_000_000_000).unwrap();
    assert_eq!(last.rewards.val.len(), 4, "every action may stay in the goal");
    for error in [grid.generate().err(), queues.generate().err(), garnet.generate().err(), forest.generate().err()] {
        assert!(error.unwrap().to_string().contains("4294967295"));
    }
}
