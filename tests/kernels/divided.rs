//! Result-divided and block-divided value iteration on every device: sweeps against the CPU in f64, launches
//! against the published algorithm, and complete runs against the optimal values.

use std::collections::BTreeMap;
use warpkov_runtime::device::AnyDevice;

use warpkov::mdp::backend::{Backups, GreedySweeps, State, Stop};
use warpkov::mdp::backends::cpu;
use warpkov::mdp::baselines::divided::{BlockIteration, Division, ResultIteration};
use warpkov::mdp::certificate::certify;
use warpkov::mdp::generate::SlipGrid;
use warpkov::mdp::model::{Mdp, NO_ACTION};
use warpkov::mdp::options::{BlockDivided, Grouping, Limits, Target};
use warpkov::mdp::solution::Status;
use warpkov::mdp::solve::loops::{policy_iteration, to_the_end, value_iteration};
use warpkov::runtime::Precise;
use warpkov_device::device::Offset;
use warpkov_device::launch::{Device, Shape};
use warpkov_kernels::mdp::change::{ExtremesArgs, extremes_of_change, of_sweep};

use crate::check::{close, epsilon, of, same};
use crate::random::Random;
use crate::{Outcome, Suite};

pub fn add(suite: &mut Suite) {
    suite.add("extremes_of_change::f32", extremes::<f32>);
    suite.add("extremes_of_change::f64", extremes::<f64>);
    instances! { suite,
        "result_divided_sweeps": result_sweeps,
        "block_divided_launch": block_launch,
        "block_divided_buffering": buffering,
        "block_divided_crowded": crowded,
    }
    // The longer cases, once per type.
    macro_rules! runs {
        ($($name:literal: $case:ident,)*) => {$(
            suite.add(concat!($name, "::f32_u32"), $case::<f32, u32>);
            suite.add(concat!($name, "::f64_u64"), $case::<f64, u64>);
        )*};
    }
    runs! {
        "result_divided": result_solves,
        "block_divided": block_solves,
        "value_iteration_span": span,
        "value_iteration_starts": starts,
    }
}

/// Every enhancement alone and all together; a thread per action, and other groups of states; blocks with and without a partial warp; blocks of one thread.
fn variants() -> Vec<BlockDivided> {
    let plain = BlockDivided::PLAIN;
    let small = BlockDivided { width: 4, height: 2, sweeps_per_launch: 3, ..plain };
    let prioritizing = BlockDivided { states_per_thread: 3, update_constant: 0.1, ..small };
    vec![
        plain,
        small,
        BlockDivided { buffering: true, ..small },
        prioritizing,
        BlockDivided { buffering: true, states_per_thread: 2, ..prioritizing },
        BlockDivided { width: 5, height: 3, states_per_thread: 5, sweeps_per_launch: 1, ..prioritizing },
        BlockDivided { width: 1, height: 1, sweeps_per_launch: 4, buffering: true, ..plain },
        BlockDivided { by_action: true, ..plain },
        BlockDivided { by_action: true, buffering: true, ..small },
        BlockDivided { grouping: Grouping::Rcm, ..small },
        BlockDivided { grouping: Grouping::Grown, ..small },
    ]
}

fn models(scale: usize) -> Result<Vec<Mdp>, Box<dyn std::error::Error>> {
    let mut random = Random::new(31);
    let n = scale as u32;
    let grid = SlipGrid { width: 11, height: 7, walls: 0.2, obstacles: 0.1, ..SlipGrid::default() };
    // One state; fewer states than a block; one action; long rows; many actions; states without actions and rows that
    // end; a grid whose size is not a multiple of the tile; grids of one row and of one column.
    Ok(vec![
        random.mdp(1, 2, 1, 0.5),
        random.mdp(7, 3, 4, 0.9),
        random.mdp(40 * n, 1, 6, 0.7),
        random.mdp(90, 2, 80, 0.8),
        random.mdp(5, 300, 5, 0.6),
        random.ragged(75 * n, 4, 5, 0.9),
        random.ragged(6, 300, 4, 0.7),
        SlipGrid { width: 11 * n.min(8), ..grid }.generate()?,
        SlipGrid { width: 23, height: 1, ..grid }.generate()?,
        SlipGrid { width: 1, height: 19, ..grid }.generate()?,
    ])
}

/// Bound on the rounding errors of many sweeps of a contraction in precision T.
fn tolerance<T: Precise>(model: &Mdp) -> f64 {
    16.0 * epsilon::<T>() / (1.0 - model.gamma()).powi(2)
}

/// Minimum and maximum of the changes, ignoring NaN. A turn after the bound is met leaves zeros.
fn extremes<T: Precise>(device: &AnyDevice, scale: usize) -> Outcome {
    let cases: [(Vec<f64>, (f64, f64)); 4] = [
        (Random::new(32).signed(3000 * scale), (-2.0, 3.0)),
        (vec![-0.5, -0.25, -0.75], (-0.75, -0.25)),
        (vec![0.5, f64::NAN, 0.25], (0.25, 0.5)),
        (vec![f64::NAN; 5], (0.0, 0.0)),
    ];
    for (mut change, expected) in cases {
        if change.len() > 5 {
            (change[100], change[2000], change[700]) = (-2.0, 3.0, f64::NAN);
        }
        let states = change.len() as u32;
        let (change, mut keys) = (device.upload(&of::<T>(&change))?, device.zeros::<u64>(6)?);
        let shape = Shape::grid_stride(u64::from(states), 256);
        let (span, size) = (expected.1 - expected.0, expected.1.max(-expected.0));
        for (by_span, bound, taken) in [(0, size, 3), (0, size + 1e-9, 1), (1, span, 3), (1, span + 1e-9, 1)] {
            device.clear(&mut keys)?;
            for turn in 0..3 {
                let extremes = ExtremesArgs { sweep: turn, bound, span: by_span, keys: &mut keys };
                extremes_of_change(device, shape, states, &change, extremes)?;
            }
            let found: Vec<_> = device.to_vec(&keys)?.chunks(2).map(|pair| of_sweep(pair[0], pair[1])).collect();
            let mut all = vec![expected; 3];
            all[taken..].fill((0.0, 0.0));
            same("extremes", &found, &all)?;
        }
    }
    Ok(())
}

/// The Q-factors r(s, a) + γ Σ P(s'|s, a) V(s') of a state.
fn factors(model: &Mdp, reward: &[f64], state: usize, v: impl Fn(usize) -> f64) -> Vec<f64> {
    let factor = |row: usize| {
        let (successors, probs) = model.transitions().row(row);
        let expected: f64 = successors.iter().zip(probs).map(|(&successor, p)| p * v(successor as usize)).sum();
        reward[row] + model.gamma() * expected
    };
    model.choices().rows(state).map(factor).collect()
}

fn largest(factors: &[f64]) -> f64 {
    factors.iter().copied().reduce(f64::max).unwrap_or_default()
}

/// Checks V ← TV and the extremes of its changes against the CPU, and that π is greedy for the previous V within
/// rounding.
fn sweeps<T: Precise>(tested: &mut impl GreedySweeps, model: &Mdp, counts: &[u32]) -> Outcome {
    let mut reference = cpu::Serial::<f64>::new(model);
    let reward = model.expected_rewards();
    let tolerance = tolerance::<T>(model);
    for &count in counts {
        let got = tested.backup(Stop::Change(0.0), count).map_err(|_| "a sweep failed")?;
        let Ok(_) = reference.backup(Stop::Change(0.0), count - 1);
        let Ok(before) = if count > 1 { reference.values() } else { Ok(vec![0.0; model.states() as usize]) };
        if count > 1 {
            let Ok(()) = reference.reset(Some(&before));
        } else {
            let Ok(()) = reference.reset(None);
        }
        let Ok(expected) = reference.backup(Stop::Change(0.0), 1);
        same("sweeps", &[got.sweeps], &[count])?;
        let extremes = [expected.least, expected.greatest];
        close("extremes", &[got.least, got.greatest], &extremes, tolerance, 0.0)?;
        let Ok(values) = reference.values();
        close("V", &tested.values().map_err(|_| "no values")?, &values, tolerance, 0.0)?;
        let policy = tested.policy().map_err(|_| "no policy")?;
        for (state, &action) in policy.iter().enumerate() {
            let factors = factors(model, &reward, state, |s| before[s]);
            let taken = factors.get(action as usize).copied();
            let good = taken.map_or(factors.is_empty() && action == NO_ACTION, |q| q >= largest(&factors) - tolerance);
            if !good {
                return Err(format!("π({state}) = {action} of {factors:?}").into());
            }
        }
        tested.reset(None).map_err(|_| "no reset")?;
        let Ok(()) = reference.reset(None);
    }
    Ok(())
}

fn result_sweeps<T: Precise, O: Offset>(device: &AnyDevice, scale: usize) -> Outcome {
    for model in models(scale)? {
        sweeps::<T>(&mut ResultIteration::<T, O>::new(device, &model)?, &model, &[1, 2, 40])?;
    }
    Ok(())
}

/// One launch by the algorithm of sections 3.2.1 and 3.3.2 of the source.
fn launch(model: &Mdp, division: &Division, v: &[f64]) -> Vec<f64> {
    let BlockDivided { width, height, sweeps_per_launch, states_per_thread, update_constant, .. } =
        *division.parameters();
    let reward = model.expected_rewards();
    // Block, thread, and cell of each state.
    let place = |state: usize| {
        let position = division.position(state as u32);
        let cell = position % division.cells();
        (position / division.cells(), cell % (width * height), cell)
    };
    let mut threads: BTreeMap<(u32, u32), Vec<usize>> = BTreeMap::new();
    let mut order: Vec<usize> = (0..v.len()).filter(|&state| model.choices().count(state) > 0).collect();
    order.sort_by_key(|&state| place(state));
    for state in order {
        let (block, thread, _) = place(state);
        threads.entry((block, thread)).or_default().push(state);
    }
    let mut new = v.to_vec();
    let (mut eligibility, mut updates) = (vec![f64::INFINITY; v.len()], vec![0.0; v.len()]);
    for _ in 0..sweeps_per_launch * states_per_thread {
        let mut updated = Vec::new();
        for ((block, _), states) in &threads {
            let first = |best: usize, next: usize| if eligibility[next] > eligibility[best] { next } else { best };
            let Some(state) = states.iter().copied().reduce(first) else { continue };
            let value = |s: usize| if place(s).0 == *block { new[s] } else { v[s] };
            updated.push((state, largest(&factors(model, &reward, state, value))));
        }
        for (state, value) in updated {
            updates[state] += 1.0;
            eligibility[state] = (value - new[state]).abs() + update_constant / updates[state];
            new[state] = value;
        }
    }
    new
}

/// A launch from random values, and the extremes of its changes.
fn block_launch<T: Precise, O: Offset>(device: &AnyDevice, scale: usize) -> Outcome {
    let mut random = Random::new(33);
    for model in models(scale)? {
        for parameters in variants() {
            // Rounding may change the choice between states of nearly equal priority.
            if parameters.states_per_thread > 1 && parameters.sweeps_per_launch > 1 && !T::WIDE {
                continue;
            }
            let division = Division::new(&model, parameters)?;
            let mut start: Vec<f64> =
                random.signed(model.states() as usize).iter().map(|&x| f64::from(x as f32)).collect();
            for (_, value) in start.iter_mut().enumerate().filter(|&(state, _)| model.choices().count(state) == 0) {
                *value = 0.0;
            }
            let expected = launch(&model, &division, &start);
            let mut tested = BlockIteration::<T, O>::new(device, &model, &division)?;
            tested.reset(Some(&start))?;
            let done = tested.backup(Stop::Change(0.0), parameters.sweeps_per_launch)?;
            same("sweeps", &[done.sweeps], &[parameters.sweeps_per_launch])?;
            let changes = start.iter().zip(&expected).enumerate().filter(|&(s, _)| model.choices().count(s) > 0);
            let (least, greatest) = changes
                .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, greatest), (_, (old, new))| {
                    (least.min(new - old), greatest.max(new - old))
                });
            let tolerance = tolerance::<T>(&model);
            close("extremes", &[done.least, done.greatest], &[least, greatest], tolerance, 0.0)?;
            close(&format!("{parameters:?}: V"), &tested.values()?, &expected, tolerance, 0.0)?;
        }
    }
    Ok(())
}

/// The results do not depend on the buffering of values, to the last bit.
fn buffering<T: Precise, O: Offset>(device: &AnyDevice, scale: usize) -> Outcome {
    for model in models(scale)? {
        for parameters in variants() {
            let mut results = Vec::new();
            for buffering in [false, true] {
                let division = Division::new(&model, BlockDivided { buffering, ..parameters })?;
                same("note", &[division.note()], &[None])?;
                let mut tested = BlockIteration::<T, O>::new(device, &model, &division)?;
                tested.backup(Stop::Change(0.0), 2 * parameters.sweeps_per_launch)?;
                results.push(tested.values()?);
            }
            same("V", &results[0], &results[1])?;
        }
    }
    Ok(())
}

/// Blocks with a full buffer, or without room for one, read the remaining values from device memory and report it.
fn crowded<T: Precise, O: Offset>(device: &AnyDevice, _: usize) -> Outcome {
    let plain = BlockDivided { width: 64, height: 16, sweeps_per_launch: 1, ..BlockDivided::PLAIN };
    let mut random = Random::new(34);
    // Of 48 KiB, three numbers for each of 4096 states leave no room; the values of 1024 states leave 5120 bytes.
    let cases = [
        (random.mdp(4500, 1, 3, 0.5), BlockDivided { states_per_thread: 4, ..plain }, (2, 2, 0)),
        (random.mdp(7100, 1, 40, 0.5), plain, (7, 7, 5120)),
    ];
    for (model, parameters, expected) in cases {
        let (crowded, blocks, room) = expected;
        let expected = format!(
            "{crowded} of {blocks} blocks read more outside values than the {room} that fit in shared memory; they \
             load the rest from device memory"
        );
        let mut results = Vec::new();
        for buffering in [false, true] {
            let division = Division::new(&model, BlockDivided { buffering, ..parameters })?;
            same("note", &[division.note()], &[buffering.then(|| expected.clone())])?;
            let mut tested = BlockIteration::<T, O>::new(device, &model, &division)?;
            tested.backup(Stop::Change(0.0), 2)?;
            results.push(tested.values()?);
        }
        same("V", &results[0], &results[1])?;
    }
    Ok(())
}

/// The optimal values, by policy iteration.
fn optimal(model: &Mdp) -> Vec<f64> {
    let mut reference = cpu::Parallel::<f64>::new(model);
    let strict = Limits { target: Target::Theta(1e-12), max_sweeps: 10_000, max_policies: 1000, tie: 1e-10 };
    let Ok(_) = policy_iteration(&mut reference, 1e-12, &strict, to_the_end);
    let Ok(values) = reference.values();
    values
}

/// Runs until θ. The values are within the distance of V* that θ guarantees, and within their certificate.
fn solves<T: Precise>(tested: &mut impl GreedySweeps, model: &Mdp, optimal: &[f64]) -> Outcome {
    let theta = if T::WIDE { 1e-10 } else { 1e-4 };
    let limits = Limits { target: Target::Theta(theta), max_sweeps: 10_000, max_policies: 1, tie: 0.0 };
    let run = value_iteration(tested, Stop::Change(theta), &limits, to_the_end);
    let run = run.map_err(|_| "a run failed")?;
    same("status", &[run.status], &[Status::Solved])?;
    let values = tested.values().map_err(|_| "no values")?;
    let bound = certify(model, &values).bound.ok_or("no certificate")?;
    let guaranteed = 1.1 * theta / (1.0 - model.gamma());
    close("V", &values, optimal, bound.min(guaranteed) + 1e-9, 0.0)
}

fn result_solves<T: Precise, O: Offset>(device: &AnyDevice, scale: usize) -> Outcome {
    for model in models(scale)? {
        solves::<T>(&mut ResultIteration::<T, O>::new(device, &model)?, &model, &optimal(&model))?;
    }
    Ok(())
}

fn block_solves<T: Precise, O: Offset>(device: &AnyDevice, scale: usize) -> Outcome {
    for model in models(scale)? {
        let optimal = optimal(&model);
        for parameters in variants() {
            let division = Division::new(&model, parameters)?;
            solves::<T>(&mut BlockIteration::<T, O>::new(device, &model, &division)?, &model, &optimal)
                .map_err(|error| format!("{parameters:?}: {}", error.message().unwrap_or_default()))?;
        }
    }
    Ok(())
}

/// Stopping on the span: the bounds V + γ/(1 − γ)·ΔV with the extreme ΔV hold (Puterman 1994, Theorem 6.6.6), or for launches
/// with ±‖ΔV‖∞.
fn span<T: Precise, O: Offset>(device: &AnyDevice, _: usize) -> Outcome {
    let bound = 1e-3;
    let check = |model: &Mdp, Backups { sweeps, least, greatest, .. }: Backups, values: Vec<f64>| -> Outcome {
        let factor = model.gamma() / (1.0 - model.gamma());
        let rounding = 200.0 * epsilon::<T>() / (1.0 - model.gamma());
        let holds =
            |(v, best): (&f64, &f64)| (v + factor * least - rounding..=v + factor * greatest + rounding).contains(best);
        if greatest - least >= bound || !values.iter().zip(&optimal(model)).all(holds) {
            return Err(format!("{sweeps} sweeps to {least}..{greatest}").into());
        }
        Ok(())
    };
    // Mixing shrinks the span of full sweeps faster than γ, but not that of block sweeps, which shift values unequally: these
    // stop at ‖ΔV‖∞.
    let model = Random::new(35).mdp(60, 3, 20, 0.99);
    let mut tested = ResultIteration::<T, O>::new(device, &model)?;
    check(&model, tested.backup(Stop::Span(bound), 50)?, tested.values()?)?;
    let model = Random::new(35).mdp(60, 3, 20, 0.9);
    for parameters in variants() {
        let division = Division::new(&model, parameters)?;
        let mut tested = BlockIteration::<T, O>::new(device, &model, &division)?;
        let done = tested.backup(Stop::Span(bound), 300)?;
        let size = done.residual();
        check(&model, Backups { least: -size, greatest: size, ..done }, tested.values()?)?;
    }
    Ok(())
}

/// A start from the optimal values takes few sweeps. A reset repeats the first run exactly.
fn starts<T: Precise, O: Offset>(device: &AnyDevice, _: usize) -> Outcome {
    let model = Random::new(36).ragged(50, 3, 4, 0.9);
    let optimal = optimal(&model);
    let theta = if T::WIDE { 1e-8 } else { 1e-4 };
    fn again<B: GreedySweeps>(mut tested: B, optimal: &[f64], theta: f64, most: u32) -> Outcome
    where
        B::Error: std::error::Error + 'static,
    {
        let first = tested.backup(Stop::Change(theta), 1000)?;
        let values = tested.values()?;
        tested.reset(Some(optimal))?;
        close("V", &tested.values()?, optimal, theta, 0.0)?;
        let warm = tested.backup(Stop::Change(theta), 1000)?;
        if warm.sweeps > most || first.sweeps <= most {
            return Err(format!("{} sweeps, then {}", first.sweeps, warm.sweeps).into());
        }
        tested.reset(None)?;
        same("V", &tested.values()?, &vec![0.0; values.len()])?;
        same("sweeps", &[tested.backup(Stop::Change(theta), 1000)?], &[first])?;
        same("V", &tested.values()?, &values)
    }
    again(ResultIteration::<T, O>::new(device, &model)?, &optimal, theta, 1)?;
    for parameters in variants() {
        let division = Division::new(&model, parameters)?;
        let tested = BlockIteration::<T, O>::new(device, &model, &division)?;
        again(tested, &optimal, theta, parameters.sweeps_per_launch)?;
    }
    Ok(())
}
