//! Models of the tests with ranks, their solutions, and files of parts.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use warpkov_mdp::SolveError;
use warpkov_mdp::generate::{
    CarRental, Forest, Gambler, Garnet, Inventory, QueueNetwork, RewardOf, SlipGrid, SuttonGrid, WetFloor,
};
use warpkov_mdp::io::{self as files, Mapped, ReadOptions};
use warpkov_mdp::model::whole::Described;
use warpkov_mdp::model::{Mdp, Objective, Whole};
use warpkov_mdp::options::{Method, SolveOptions};
use warpkov_mdp::solution::Solution;
use warpkov_mdp::solve::{Session, Solve};
use warpkov_runtime::choose::DeviceChoice;
use warpkov_runtime::comm::Local;

use crate::random::Random;

pub const PATIENCE: Duration = Duration::from_secs(60);

/// Models whose parts have ghosts of all kinds: neighbours alone, ranks far away, all states, none.
pub fn models() -> Vec<Mdp> {
    let mut random = Random::new(11);
    let garnet = |states, window| Garnet { states, window, terminals: 0.05, ragged: true, ..Garnet::default() };
    let grid = SlipGrid { width: 97, height: 60, walls: 0.1, ..SlipGrid::default() };
    vec![
        random.mdp(1, 2, 1, 0.5),
        random.mdp(5, 3, 3, 0.9),
        random.mdp(700, 3, 20, 0.9),
        random.ragged(2500, 4, 6, 0.95),
        garnet(6000, None).generate().unwrap(),
        garnet(6000, Some(3)).generate().unwrap(),
        grid.generate().unwrap(),
        grid.generate().unwrap().with_objective(Objective::Minimize),
    ]
}

/// Families whose rows are made on demand, each with its whole model.
pub fn families() -> Vec<(&'static str, Box<dyn Described>, Mdp)> {
    let mut all: Vec<(&'static str, Box<dyn Described>, Mdp)> = Vec::new();
    macro_rules! add {
        ($($family:expr),+ $(,)?) => {$(
            let family = $family;
            let name = stringify!($family).split([' ', ':']).next().unwrap();
            all.push((name, Box::new(family.source().unwrap()), family.generate().unwrap()));
        )+};
    }
    let walls = SlipGrid { width: 83, height: 71, walls: 0.2, obstacles: 0.15, ..SlipGrid::default() };
    let ragged = Garnet { states: 10_000, ragged: true, terminals: 0.3, ..Garnet::default() };
    let (reward_of, reward_density) = (RewardOf::Transition, 0.4);
    add! {
        SlipGrid { width: 57, height: 90, ..SlipGrid::default() },
        SlipGrid { walls: 0.01, ..walls },
        walls,
        SlipGrid { slip: 1.0, goal_reward: -2.0, ..walls },
        WetFloor { redirected: 0.2, real_rewards: true, ..WetFloor::new(90, 61, 4) },
        WetFloor { reward_states: Some(0), ..WetFloor::new(40, 31, 2) },
        SuttonGrid::default(),
        Garnet { states: 3000, reward_of, reward_density, ..Garnet::default() },
        Garnet { power_law: true, branching: 300, window: Some(200), ..ragged },
        Garnet { reward_of, reward_density, ragged: false, ..ragged },
        Garnet { states: 8193, ragged: true, ..Garnet::default() },
        QueueNetwork { queues: 3, capacity: 12, ..QueueNetwork::default() },
        QueueNetwork { queues: 1, capacity: 1, ..QueueNetwork::default() },
        Forest { ages: 5000, ..Forest::default() },
        Gambler { goal: 300, ..Gambler::default() },
        Inventory { capacity: 5000, max_order: Some(9), demand_mean: Some(4.0), ..Inventory::default() },
        CarRental { max_cars: 12, max_moves: 4, ..CarRental::default() },
    }
    all
}

pub fn cpu(method: Option<Method>) -> SolveOptions {
    SolveOptions { device: DeviceChoice::Cpu, method, ..SolveOptions::default() }
}

pub fn solved(mdp: &Mdp, ranks: u32, initial: Option<&[f64]>, options: &SolveOptions) -> Solution {
    let work = |comm: &Local| {
        let session = Session { initial: initial.into(), ..Session::default() };
        Solve::new(mdp, options).session(session).run_on(comm)
    };
    Local::run(ranks, PATIENCE, work)
        .unwrap_or_else(|error: SolveError| panic!("{ranks} ranks: {error}"))
        .swap_remove(0)
}

/// Values and policy of all states, from the solutions of all ranks.
pub fn solved_in_parts(whole: &dyn Whole, ranks: u32, options: &SolveOptions) -> Result<Solution, SolveError> {
    let work = |comm: &Local| Solve::in_parts(whole, options).run_on(comm);
    let mut all = Local::run(ranks, PATIENCE, work)?.into_iter();
    let mut first = all.next().unwrap();
    for part in all {
        assert_eq!(part.first as usize, first.values.len(), "parts are adjacent");
        assert_eq!((part.size, part.certificate), (first.size, first.certificate));
        first.values.extend(part.values);
        first.policy.extend(part.policy);
    }
    Ok(first)
}

/// The distance of two solutions is at most the sum of their certified errors.
pub fn assert_agree(what: &str, found: &Solution, expected: &Solution) {
    let allowed = found.certificate.bound.unwrap() + expected.certificate.bound.unwrap();
    assert_eq!((found.values.len(), found.policy.len()), (expected.values.len(), expected.policy.len()), "{what}");
    for (state, (a, b)) in found.values.iter().zip(&expected.values).enumerate() {
        assert!((a - b).abs() <= allowed, "{what}: V({state}) is {a}, expected {b} within {allowed:e}");
    }
}

/// The tensors of a safetensors file, which `change` may change, and its metadata.
pub fn rewritten(path: &Path, to: &Path, change: impl Fn(&mut HashMap<String, (Dtype, Vec<u8>)>)) {
    let bytes = std::fs::read(path).unwrap();
    let metadata = SafeTensors::read_metadata(&bytes).unwrap().1.metadata().clone();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let mut arrays: HashMap<_, _> =
        tensors.tensors().into_iter().map(|(name, view)| (name, (view.dtype(), view.data().to_vec()))).collect();
    change(&mut arrays);
    let view = |(dtype, data): &'_ (Dtype, Vec<u8>)| (*dtype, vec![8 * data.len() / dtype.bitsize()]);
    let views = arrays.iter().map(|(name, array)| {
        let (dtype, shape) = view(array);
        (name, TensorView::new(dtype, shape, &array.1).unwrap())
    });
    safetensors::serialize_to_file(views, metadata, to).unwrap();
}

/// Gives columns and sets of states 64 bits.
pub fn widen(arrays: &mut HashMap<String, (Dtype, Vec<u8>)>, wide: Dtype) {
    for (name, (dtype, data)) in arrays {
        if *dtype == Dtype::U32 && name != "action_names.of_row" {
            let numbers = data.chunks_exact(4).map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap()));
            *data = numbers.flat_map(|number| u64::from(number).to_le_bytes()).collect();
            *dtype = wide;
        }
    }
}

pub fn open(path: &Path) -> Result<Mapped, files::Error> {
    files::open_parts(path, &ReadOptions::default()).map(|mapped| mapped.expect("a safetensors file"))
}
