//! Validated models are types: no public function creates an invalid one, and functions that take a model and other
//! data check that they match before a kernel reads either.

use std::panic::{AssertUnwindSafe, catch_unwind};

use warpkov::hmm::backend::Recursions;
use warpkov::hmm::backends::device::{Batch, Limits as BatchLimits};
use warpkov::hmm::generate::IceCream;
use warpkov::hmm::model::{Covariances, Emissions, HmmParts};
use warpkov::hmm::sequences::{Observations, Sequences};
use warpkov::mdp::analysis::reorder::Order;
use warpkov::mdp::backend::{Correct, State};
use warpkov::mdp::backends::device::{
    PolicyLayout, Projected, Streamed, Streaming, SweepLayout, System, ValueIteration,
};
use warpkov::mdp::backends::krylov::Linear;
use warpkov::mdp::baselines::divided::{BlockIteration, Division, ResultIteration};
use warpkov::mdp::generate::Forest;
use warpkov::mdp::io::read_json;
use warpkov::mdp::model::validate::Invalid;
use warpkov::mdp::model::{ActionNames, Choices, Csr, Grid, Mdp, MdpParts, Objective};
use warpkov::mdp::options::{BlockDivided, Storage};
use warpkov::pomdp::alpha::AlphaVectors;
use warpkov::pomdp::backend::{PointBackup, Trials, Walks};
use warpkov::pomdp::backends::device::{Backups, Limits, Walkers};
use warpkov::pomdp::belief::Belief;
use warpkov::pomdp::generate::Tiger;
use warpkov::pomdp::io::{Format, read_from};
use warpkov::pomdp::model::{Pomdp, PomdpParts};
use warpkov::pomdp::reference::{Operands, Transitions, full_backup, one_step_lookahead};
use warpkov_device::emulator::Emulator;
use warpkov_device::launch::Device;
use warpkov_runtime::device::AnyDevice;

/// Two states and two actions: action 0 stays, action 1 goes to the other state.
fn mdp() -> MdpParts {
    MdpParts {
        states: 2,
        choices: Choices::Uniform(2),
        gamma: 0.5,
        transitions: csr(&[0, 1, 2, 3, 4], &[0, 1, 1, 0], &[1.0; 4]).unwrap(),
        ends: vec![0.0; 4].into(),
        rewards: csr(&[0, 1, 1, 1, 1], &[0], &[3.0]).unwrap(),
        action_rewards: vec![1.0; 4].into(),
        labels: [("init".to_owned(), vec![0])].into(),
        action_names: Some(ActionNames { names: vec!["stay".to_owned()], of_row: vec![0; 4] }),
        state_names: None,
        grid: Some(Grid { width: 2, height: 1, goal: 1, walls: vec![], obstacles: vec![0] }),
        objective: Objective::Maximize,
    }
}

fn csr(row_ptr: &[u64], col: &[u32], val: &[f64]) -> Result<Csr, warpkov::mdp::model::InvalidCsr> {
    Csr::new(row_ptr.to_vec(), col.to_vec(), val.to_vec())
}

/// The error of validating the changed parts.
#[track_caller]
fn of_mdp(change: impl FnOnce(&mut MdpParts)) -> String {
    let mut parts = mdp();
    change(&mut parts);
    let error: Option<Invalid> = parts.validated().err();
    error.expect("no model").to_string()
}

#[test]
fn invalid_matrices_are_refused() {
    let message = |row_ptr: &[u64], col: &[u32], val: &[f64]| csr(row_ptr, col, val).err().unwrap().to_string();
    assert_eq!(message(&[1, 2], &[0, 0], &[1.0; 2]), "indptr[0] is 1, expected 0");
    assert_eq!(message(&[0, 2, 1, 2], &[0, 0], &[1.0; 2]), "indptr falls from 2 to 1 in row 1");
    assert_eq!(message(&[0, 1], &[0, 0], &[1.0; 2]), "indptr ends at 1, expected the number of entries 2");
    assert_eq!(
        message(&[0, u64::MAX], &[0], &[1.0]),
        format!("indptr ends at {}, expected the number of entries 1", u64::MAX)
    );
    assert_eq!(message(&[0, 1], &[0], &[1.0; 2]), "indices has 1 elements, data has 2, expected equal lengths");
    assert_eq!(message(&[], &[0], &[1.0]), "indptr ends at 0, expected the number of entries 1");
    let valid = csr(&[0, 1], &[7], &[1.0]).unwrap();
    assert!(valid.clone().with_values(vec![1.0; 2]).is_err() && valid.with_values(vec![2.0]).is_ok());
    assert_eq!((Csr::empty(3).rows(), Csr::empty(3).row(2).0.len(), Csr::default().rows()), (3, 0, 0));
}

#[test]
fn invalid_decision_processes_are_refused() {
    assert!(mdp().validated().is_ok());
    let p = |row_ptr: &[u64], col: &[u32], val: &[f64]| csr(row_ptr, col, val).unwrap();
    for message in [
        of_mdp(|m| m.states = 0),
        of_mdp(|m| m.states = 3),
        of_mdp(|m| m.states = u32::MAX),
        of_mdp(|m| m.choices = Choices::Uniform(0)),
        of_mdp(|m| m.choices = Choices::Uniform(3)),
        of_mdp(|m| m.choices = Choices::Ragged(vec![0, 4].into())),
        of_mdp(|m| m.choices = Choices::Ragged(vec![1, 2, 4].into())),
        of_mdp(|m| m.choices = Choices::Ragged(vec![0, 5, 4].into())),
        of_mdp(|m| m.choices = Choices::Ragged(vec![0, 2, 9].into())),
        of_mdp(|m| m.choices = Choices::Ragged(vec![0, 0, 0].into())),
        of_mdp(|m| m.gamma = f64::NAN),
        of_mdp(|m| m.gamma = 1.0 + 1e-15),
        of_mdp(|m| m.gamma = -1e-300),
        of_mdp(|m| m.transitions = Csr::default()),
        of_mdp(|m| m.transitions = Csr::empty(4)),
        of_mdp(|m| m.transitions = p(&[0, 1, 2, 3], &[0, 1, 1], &[1.0; 3])),
        of_mdp(|m| m.transitions = p(&[0, 1, 2, 3, 4], &[0, 1, 2, 0], &[1.0; 4])),
        of_mdp(|m| m.transitions = p(&[0, 1, 2, 3, 4], &[0, 1, u32::MAX, 0], &[1.0; 4])),
        of_mdp(|m| m.transitions = p(&[0, 1, 2, 3, 4], &[0, 1, 1, 0], &[1.0, f64::NAN, 1.0, 1.0])),
        of_mdp(|m| m.transitions = p(&[0, 1, 2, 3, 4], &[0, 1, 1, 0], &[1.0, 1.1, 1.0, 1.0])),
        of_mdp(|m| m.transitions = p(&[0, 2, 3, 4, 5], &[0, 1, 1, 1, 0], &[-0.5, 1.5, 1.0, 1.0, 1.0])),
        of_mdp(|m| m.transitions = p(&[0, 2, 3, 4, 5], &[1, 1, 1, 1, 0], &[0.5, 0.5, 1.0, 1.0, 1.0])),
        of_mdp(|m| m.ends = vec![0.0; 3].into()),
        of_mdp(|m| m.ends = vec![0.0, 0.0, 0.0, f64::NAN].into()),
        of_mdp(|m| m.rewards = p(&[0, 1], &[0], &[3.0])),
        of_mdp(|m| m.rewards = p(&[0, 1, 1, 1, 1], &[2], &[3.0])),
        of_mdp(|m| m.rewards = p(&[0, 1, 1, 1, 1], &[0], &[f64::INFINITY])),
        of_mdp(|m| m.rewards = p(&[0, 2, 2, 2, 2], &[1, 1], &[1.0; 2])),
        of_mdp(|m| m.action_rewards = vec![1.0; 5].into()),
        of_mdp(|m| m.action_rewards = vec![1.0, 1.0, f64::NAN, 1.0].into()),
        of_mdp(|m| m.labels = [("x".to_owned(), vec![2])].into()),
        of_mdp(|m| m.labels = [("x".to_owned(), vec![1, 0])].into()),
        of_mdp(|m| m.action_names = Some(ActionNames { names: vec!["stay".to_owned()], of_row: vec![0; 3] })),
        of_mdp(|m| m.action_names = Some(ActionNames { names: vec!["stay".to_owned()], of_row: vec![0, 0, 0, 1] })),
        of_mdp(|m| m.grid.as_mut().unwrap().width = 3),
        of_mdp(|m| m.grid.as_mut().unwrap().goal = 2),
        of_mdp(|m| m.grid.as_mut().unwrap().walls = vec![2]),
    ] {
        assert!(message.len() > 10, "{message}");
    }
    // The other constructors and conversions.
    let valid = mdp().validated().unwrap();
    let bad = csr(&[0, 1], &[3], &[1.0]).unwrap();
    assert!(Mdp::new(1, 1, 0.5, bad, Csr::default(), None).is_err());
    assert!(valid.clone().with_gamma(f64::NAN).is_err() && valid.clone().with_gamma(2.0).is_err());
    let parts = MdpParts { states: 1, grid: None, ..valid.clone().with_objective(Objective::Minimize).into_parts() };
    assert!(parts.validated().is_err());
    for old in [vec![0, 0], vec![0, 2], vec![1, u32::MAX]] {
        assert_eq!(Order::new(old), None);
    }
    assert!(panics(|| drop(Order::new(vec![0]).unwrap().apply(&valid))), "an order of another number of states");
    let json = |p: &str| format!(r#"{{"S": 1, "A": 1, "gamma": 0.5, "P": {p}}}"#);
    for p in [
        r#"{"indptr": [0, 1], "indices": [1], "data": [1]}"#,
        r#"{"indptr": [0, 2], "indices": [0], "data": [1]}"#,
        r#"{"indptr": [1, 1], "indices": [0], "data": [1]}"#,
        r#"{"indptr": [0, 1], "indices": [0], "data": [1, 2]}"#,
    ] {
        assert!(read_json(json(p).as_bytes(), "m").is_err(), "{p}");
    }
}

/// Whether every constructor refuses the tiger after a change.
fn of_pomdp(change: impl FnOnce(&mut PomdpParts)) -> bool {
    let mut parts = Tiger::default().generate().unwrap().into_parts();
    change(&mut parts);
    parts.clone().with_any_observations().is_err() && parts.validated().is_err()
}

#[test]
fn invalid_partially_observable_models_are_refused() {
    let tiger = Tiger::default().generate().unwrap();
    assert!(!of_pomdp(|_| ()));
    let rows = |col: u32, val: f64| {
        csr(&[0, 1, 2, 3, 4, 5, 6], &[0, 0, 0, 0, 0, col], &[1.0, 1.0, 1.0, 1.0, 1.0, val]).unwrap()
    };
    assert!(of_pomdp(|m| m.process.gamma = 1.5));
    assert!(of_pomdp(|m| m.process.states = 3));
    assert!(of_pomdp(|m| m.process.ends = vec![0.0; 6].into()));
    assert!(of_pomdp(|m| m.process.choices = Choices::Ragged(vec![0, 3, 6].into())));
    assert!(of_pomdp(|m| m.process.action_rewards = vec![1e300; 6].into()));
    assert!(of_pomdp(|m| m.observation_count = 0));
    assert!(of_pomdp(|m| m.observation_count = 1));
    assert!(of_pomdp(|m| m.observations = Csr::empty(5)));
    assert!(of_pomdp(|m| m.observations = rows(2, 1.0)));
    assert!(of_pomdp(|m| m.observations = rows(0, f64::NAN)));
    assert!(of_pomdp(
        |m| m.observations = csr(&[0, 2, 3, 4, 5, 6, 7], &[0; 7], &[0.5, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0]).unwrap()
    ));
    assert!(of_pomdp(|m| m.start = Belief::at(2)));
    assert!(of_pomdp(|m| m.start = Belief::default()));
    assert!(of_pomdp(|m| m.seen = vec![0]));
    assert!(of_pomdp(|m| m.seen = vec![0, 2]));
    assert!(of_pomdp(|m| m.seen = vec![0, 1]), "what is said to be seen is not");
    assert!(of_pomdp(|m| m.names.states = vec!["left".to_owned()]));
    assert!(PomdpParts { observations: rows(0, 0.5), ..tiger.into_parts() }.validated().is_err());
    let json = |z: &str, start: &str| {
        format!(
            r#"{{"S": 1, "A": 1, "O": 1, "gamma": 0.5, "P": {{"indptr": [0, 1], "indices": [0], "data": [1]}}, "Z": {z}{start}}}"#
        )
    };
    let z = r#"{"indptr": [0, 1], "indices": [0], "data": [1]}"#;
    let read =
        |text: String| read_from(text.as_bytes(), "m", Some(Format::Json)).map(drop).map_err(|error| error.to_string());
    assert_eq!(read(json(z, "")), Ok(()));
    for (z, start) in [
        (r#"{"indptr": [0, 2], "indices": [0], "data": [1]}"#, ""),
        (r#"{"indptr": [0, 1], "indices": [1], "data": [1]}"#, ""),
        (z, r#", "start": {"states": [1], "probs": [1]}"#),
        (z, r#", "start": {"states": [0], "probs": [1, 2]}"#),
        (z, r#", "start": {"states": [0], "probs": [0.5]}"#),
    ] {
        assert!(read(json(z, start)).is_err(), "{z} {start}");
    }
}

#[test]
fn invalid_beliefs_and_alpha_vectors_are_refused() {
    assert!(Belief::new(vec![0, 3], vec![0.25, 0.75]).is_ok());
    for (states, probs) in [
        (vec![3, 0], vec![0.25, 0.75]),
        (vec![1, 1], vec![0.25, 0.75]),
        (vec![0, 3], vec![1.0]),
        (vec![0], vec![0.25, 0.75]),
        (vec![], vec![]),
        (vec![0, 3], vec![0.25, 0.7]),
        (vec![0, 3], vec![1.25, -0.25]),
        (vec![0, 3], vec![1.0, 0.0]),
        (vec![0, 3], vec![f64::NAN, 1.0]),
        (vec![0, 3], vec![f64::INFINITY, 1.0]),
    ] {
        assert!(Belief::new(states.clone(), probs.clone()).is_err(), "{states:?} {probs:?}");
    }
    for dense in [&[0.5, 0.4][..], &[f64::NAN, 1.0], &[-0.5, 1.5], &[]] {
        assert!(Belief::dense(dense).is_err(), "{dense:?}");
    }
    assert_eq!(Belief::uniform(vec![3, 1, 3]), Belief::new(vec![1, 3], vec![0.5; 2]).unwrap(), "in order, each once");
    assert!(Belief::at(4).is_below(5) && !Belief::at(4).is_below(4));

    assert!(AlphaVectors::from_parts(2, vec![0.0; 4], vec![0, 1]).is_ok());
    for (states, values, actions) in [(2, 3, 2), (2, 4, 1), (0, 1, 1), (u32::MAX, 1, usize::from(u16::MAX))] {
        assert!(AlphaVectors::from_parts(states, vec![0.0; values], vec![0; actions]).is_err());
    }
    let mut vectors = AlphaVectors::new(2);
    assert!(panics(|| vectors.push(0, &[1.0])) && panics(|| vectors.push(0, &[1.0; 3])) && vectors.is_empty());
    vectors.push(7, &[1.0; 2]);
    assert!(vectors.fit(2, 8) && !vectors.fit(2, 7) && !vectors.fit(3, 8));
}

#[test]
fn invalid_hidden_markov_models_and_sequences_are_refused() {
    let categorical = |symbols, probs: &[f64]| Emissions::Categorical { symbols, probs: probs.to_vec() };
    let gaussian = |dimensions, means: usize, covariances| Emissions::Gaussian {
        dimensions,
        means: vec![0.0; means],
        covariances,
    };
    let diagonal = |x: &[f64]| Covariances::Diagonal(x.to_vec());
    let full = |x: &[f64]| Covariances::Full(x.to_vec());
    let valid = HmmParts {
        start: vec![0.5, 0.5],
        transitions: vec![0.8, 0.1, 0.1, 0.8],
        end: Some(vec![0.1, 0.1]),
        emissions: categorical(2, &[0.5; 4]),
        names: Default::default(),
    };
    assert!(valid.clone().validated().is_ok());
    let changes: [&dyn Fn(&mut HmmParts); 22] = [
        &|m| m.start.clear(),
        &|m| m.start.push(0.0),
        &|m| m.start = vec![0.5, 0.4],
        &|m| m.start = vec![f64::NAN, 1.0],
        &|m| m.start = vec![-0.5, 1.5],
        &|m| m.transitions.push(0.0),
        &|m| m.transitions[1] = 0.3,
        &|m| m.transitions[1] = f64::INFINITY,
        &|m| m.end = None,
        &|m| m.end = Some(vec![0.1]),
        &|m| m.end = Some(vec![0.1, f64::NAN]),
        &|m| m.emissions = categorical(0, &[]),
        &|m| m.emissions = categorical(3, &[0.5; 4]),
        &|m| m.emissions = categorical(u32::MAX, &[0.5; 4]),
        &|m| m.emissions = categorical(2, &[0.5, 0.6, 0.5, 0.5]),
        &|m| m.emissions = gaussian(0, 0, diagonal(&[])),
        &|m| m.emissions = gaussian(1, 1, diagonal(&[1.0; 2])),
        &|m| m.emissions = gaussian(1, 2, diagonal(&[1.0])),
        &|m| m.emissions = gaussian(1, 2, diagonal(&[1.0, 0.0])),
        &|m| m.emissions = gaussian(2, 4, full(&[1.0; 4])),
        &|m| m.emissions = gaussian(1, 2, full(&[1.0, -1.0])),
        &|m| m.names.symbols = vec!["one".to_owned()],
    ];
    for (number, change) in changes.iter().enumerate() {
        let mut parts = valid.clone();
        change(&mut parts);
        assert!(parts.validated().is_err(), "change {number}");
    }

    let symbols = |symbols: &[u32]| Observations::Symbols(symbols.to_vec());
    let vectors = |dimensions, values: &[f64]| Observations::Vectors { dimensions, values: values.to_vec() };
    assert!(Sequences::new(vec![0, 1, 3], symbols(&[0, 1, 2])).is_ok());
    for (offsets, observations) in [
        (vec![], symbols(&[])),
        (vec![0], symbols(&[])),
        (vec![0, 0, 3], symbols(&[0, 1, 2])),
        (vec![0, 2, 1], symbols(&[0])),
        (vec![1, 3], symbols(&[0, 1, 2])),
        (vec![0, 4], symbols(&[0, 1, 2])),
        (vec![0, u64::MAX], symbols(&[0, 1, 2])),
        (vec![0, 1], symbols(&[u32::MAX])),
        (vec![0, 1], vectors(0, &[])),
        (vec![0, 1], vectors(2, &[1.0, 2.0, 3.0])),
        (vec![0, 2], vectors(2, &[1.0, 2.0])),
        (vec![0, 1], vectors(2, &[1.0, f64::NAN])),
    ] {
        assert!(Sequences::new(offsets.clone(), observations).is_err(), "{offsets:?}");
    }
    assert!(Sequences::of_symbols::<[u32; 0]>(&[]).is_err() && Sequences::of_symbols(&[[]]).is_err());
    let model = valid.validated().unwrap();
    let seen = |observations| Sequences::new(vec![0, 1], observations).unwrap();
    assert!(seen(symbols(&[1])).fit(&model) && seen(symbols(&[1])).check(&model).is_ok());
    for observations in [symbols(&[2]), vectors(1, &[0.0])] {
        assert!(!seen(observations.clone()).fit(&model) && seen(observations).check(&model).is_err());
    }
}

/// Backends detect mismatched arguments before a kernel runs. (An access out of bounds in a kernel would be an error of
/// the emulator, not a panic of the host.)
#[test]
fn backends_check_their_arguments() {
    let device = &AnyDevice::from(Emulator::default());
    let forest = Forest::default().generate().unwrap();
    let states = forest.states() as usize;
    for values in [vec![], vec![0.0; states - 1], vec![0.0; states + 1]] {
        let (plan, streaming) =
            (|| SweepLayout::new(&forest, Some(Storage::Rows)).unwrap(), |plan| Streaming::new(plan, 1 << 20, 1 << 30));
        let mut sweeps = ValueIteration::<f64, u32>::new(device, &plan()).unwrap();
        assert!(panics(|| drop(sweeps.reset(Some(&values)))));
        assert!(panics(|| drop(sweeps.set_rewards(&values[..values.len().min(1)]))));
        let sliced = SweepLayout::new(&forest, Some(Storage::Slices)).and_then(streaming);
        if let Some(streaming) = sliced {
            let mut streamed = Streamed::<f64, u32>::new(device, &streaming).unwrap();
            assert!(panics(|| drop(streamed.reset(Some(&values)))));
        }
        let mut projected = Projected::<f64, u32>::new(device, &forest, PolicyLayout::Slices).unwrap();
        assert!(panics(|| drop(projected.reset(Some(&values)))));
        let mut results = ResultIteration::<f64, u32>::new(device, &forest).unwrap();
        assert!(panics(|| drop(results.reset(Some(&values)))));
        let division = Division::new(&forest, BlockDivided::PLAIN).unwrap();
        let mut blocks = BlockIteration::<f64, u32>::new(device, &forest, &division).unwrap();
        assert!(panics(|| drop(blocks.reset(Some(&values)))));
        let mut system = System::<u32>::new(device, &forest, PolicyLayout::Slices).unwrap();
        let (whole, mut other) = (system.vector().unwrap(), device.upload(&values).unwrap());
        assert!(panics(|| drop(system.dots(&whole, &other, &whole))));
        assert!(panics(|| drop(system.store(&other))));
        let mut target = system.vector().unwrap();
        assert!(panics(|| drop(system.apply(&mut other, &mut target))));
    }
    assert!(panics(|| drop(Projected::<f64, u32>::new(device, &forest, PolicyLayout::Rows { lanes: 3 }))));

    let tiger = Tiger::default().generate().unwrap();
    let backups = |model: &Pomdp| Backups::<f64>::new(device, model, None, Limits::default()).unwrap();
    let mut tested = backups(&tiger);
    let vectors =
        |states: u32, action| AlphaVectors::from_parts(states, vec![0.0; states as usize], vec![action]).unwrap();
    assert!(panics(|| drop(tested.set_vectors(&vectors(3, 0)))) && panics(|| drop(tested.set_vectors(&vectors(2, 3)))));
    assert!(panics(|| drop(tested.best(&[Belief::at(0)]))), "there is no vector");
    tested.set_vectors(&vectors(2, 2)).unwrap();
    assert!(panics(|| drop(tested.backup(&[Belief::at(2)]))) && panics(|| drop(tested.best(&[Belief::at(u32::MAX)]))));
    assert!(panics(|| drop(Walkers::new(device, &tiger, backups(&tiger), &[0.0; 5]))));
    let wide = warpkov::pomdp::generate::FourByThree::default().generate().unwrap();
    assert!(panics(|| drop(Walkers::new(device, &tiger, backups(&wide), &[0.0; 6]))));
    for best_in in [vec![0], vec![0, 3]] {
        let mut walkers = Walkers::new(device, &tiger, backups(&tiger), &[0.0; 6]).unwrap();
        walkers.set_vectors(&vectors(2, 2)).unwrap();
        let walks = Walks { count: 2, optimistic: 1, guided: 1, explored: 0.0, best_in };
        assert!(panics(|| drop(walkers.walk(&walks, 1, 1 << 20, 1, &mut || false))));
    }
    let mut walkers = Walkers::new(device, &tiger, backups(&tiger), &[0.0; 6]).unwrap();
    walkers.set_vectors(&vectors(2, 2)).unwrap();
    let walks = Walks { count: 2, optimistic: 0, guided: 1, explored: 0.0, best_in: vec![0, 0] };
    walkers.walk(&walks, 1, 1 << 20, 1, &mut || false).unwrap();
    walkers.set_vectors(&AlphaVectors::new(2)).unwrap();
    assert!(panics(|| drop(walkers.improve(0, 0.0))) && panics(|| drop(walkers.prune(0, 1, 0))), "there is no vector");
    let operands = Operands::new(&tiger, &vectors(2, 0), &[Belief::at(0)]);
    let changes: [&dyn Fn(&mut Operands); 6] = [
        &|o| o.states = 3,
        &|o| o.observation_count = 3,
        &|o| _ = o.rewards.pop(),
        &|o| o.vectors.clear(),
        &|o| o.transitions = Transitions::Deterministic(vec![0, 1, 2, 0, 0, 0]),
        &|o| o.transitions = Transitions::Sparse(Csr::empty(5)),
    ];
    for change in changes {
        let mut operands = operands.clone();
        change(&mut operands);
        assert!(panics(|| drop(full_backup::<f64>(device, &operands))));
        assert!(panics(|| drop(one_step_lookahead::<f64>(device, &operands, &[1.0, 0.0], None))));
    }
    let lookahead =
        |belief: &[f64], inverse| panics(|| drop(one_step_lookahead::<f64>(device, &operands, belief, inverse)));
    assert!(lookahead(&[1.0], None) && lookahead(&[1.0, 0.0], Some(&[0, 1])) && lookahead(&[1.0, 0.0], Some(&[2; 6])));

    // The model has three symbols.
    let model = IceCream.generate().unwrap();
    for observations in [Observations::Symbols(vec![3]), Observations::Vectors { dimensions: 1, values: vec![0.0] }] {
        let sequences = Sequences::new(vec![0, 1], observations).unwrap();
        let mut batch = Batch::<f64>::new(device, &sequences, BatchLimits::default()).unwrap();
        assert!(panics(|| drop(batch.set_models(std::slice::from_ref(&model)))));
        let mut batch = warpkov::hmm::backends::cpu::Batch::<f64>::new(&sequences);
        assert!(panics(|| _ = batch.set_models(std::slice::from_ref(&model))));
    }
    let sequences = Sequences::of_symbols(&[[0]]).unwrap();
    let mut batch = Batch::<f64>::new(device, &sequences, BatchLimits::default()).unwrap();
    let emissions = Emissions::Categorical { symbols: 4, probs: vec![0.25; 8] };
    let other = HmmParts { emissions, names: Default::default(), ..model.clone().into_parts() }.validated().unwrap();
    assert!(panics(|| drop(batch.set_models(&[model, other]))), "models of two shapes");
}

/// Whether a function panics.
fn panics(of: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(of)).is_err()
}
