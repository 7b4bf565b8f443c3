//! Point-based backups on every device: the seven kernels and the lookahead against their definitions in f64, and the
//! fast path against the seven kernels.

use warpkov::mdp::model::{Choices, Csr, MdpParts};
use warpkov::pomdp::alpha::AlphaVectors;
use warpkov::pomdp::backend::{PointBackup, Trials, Walks};
use warpkov::pomdp::backends::cpu::Assembler;
use warpkov::pomdp::backends::device::{Backups, Limits, Product, Walkers};
use warpkov::pomdp::belief::Belief;
use warpkov::pomdp::model::{Pomdp, PomdpParts};
use warpkov::pomdp::projection::Projection;
use warpkov::pomdp::reference::{Operands, Tensors, Transitions, full_backup, one_step_lookahead};
use warpkov::runtime::Precise;
use warpkov_device::device::half;
use warpkov_device::launch::{Device, Shape};
use warpkov_kernels::lessons::{half_tensor_product, tensor_product};
use warpkov_kernels::pomdp::product::{
    DENSE_SHARED, DENSE_THREADS, Factor, STEP, TILE, best_of_dense, list_steps, vector_of,
};
use warpkov_runtime::device::{AnyDevice, DeviceError};

use crate::check::{close, epsilon, same};
use crate::full_backup::full_backup_cpu;
use crate::random::Random;
use crate::{Outcome, Suite};

pub fn add(suite: &mut Suite) {
    suite.add("pomdp_two_states::f32", two_states::<f32>);
    suite.add("pomdp_two_states::f64", two_states::<f64>);
    suite.add("pomdp_two_states_lookahead::f32", two_states_lookahead::<f32>);
    suite.add("pomdp_two_states_lookahead::f64", two_states_lookahead::<f64>);
    suite.add("pomdp_full_backup::f32", full_backups::<f32>);
    suite.add("pomdp_full_backup::f64", full_backups::<f64>);
    suite.add("pomdp_lookahead::f32", lookaheads::<f32>);
    suite.add("pomdp_lookahead::f64", lookaheads::<f64>);
    suite.add("mma_tf32", tensor_core);
    suite.add("mma_f16", half_tensor_core);
    suite.add("best_of_dense::u16", |device, scale| dense_products::<u16>(device, scale, 2e-3));
    suite.add("best_of_dense::f32", |device, scale| dense_products::<f32>(device, scale, 2e-6));
    suite.add("pomdp_backups::f32", fast_backups::<f32>);
    suite.add("pomdp_backups::f64", fast_backups::<f64>);
    suite.add("pomdp_walks::f32", walks::<f32>);
    suite.add("pomdp_walks::f64", walks::<f64>);
    suite.add("pomdp_best::f32", best_vectors::<f32>);
    suite.add("pomdp_best::f64", best_vectors::<f64>);
}

fn expect_tensors<T: Precise>(got: &Tensors, expected: &Tensors) -> Outcome {
    let tolerance = 16.0 * epsilon::<T>();
    close("G_AO", &got.g_ao, &expected.g_ao, tolerance, 0.0)?;
    close("Ĝ_AO", &got.scores, &expected.scores, tolerance, 0.0)?;
    same("Ĝ*_AO", &got.best, &expected.best)?;
    close("G_A^B", &got.g_ab, &expected.g_ab, tolerance, 0.0)?;
    close("Ĝ_A^B", &got.action_scores, &expected.action_scores, tolerance, 0.0)?;
    same("Ĝ*_A^B", &got.best_action, &expected.best_action)?;
    close("B_KP", &got.backup, &expected.backup, tolerance, 0.0)
}

/// The example of G. Losapio, "Understanding kernel computations" (2022), section 1; γ = 1, which its numbers imply.
fn example() -> Operands {
    Operands {
        states: 2,
        actions: 2,
        observation_count: 2,
        gamma: 1.0,
        transitions: Transitions::Deterministic(vec![0, 1, 1, 1]),
        observations: [0.1, 0.2].repeat(4),
        rewards: vec![0.0, 1.0, 1.0, 0.0],
        vectors: vec![1.0, 2.0, 0.0, 3.0],
        beliefs: vec![0.7, 0.3, 0.4, 0.6],
    }
}

/// The same operands with T in compressed rows; row s·A + a.
fn sparse(operands: Operands) -> Operands {
    let rows = Csr::new(vec![0, 1, 2, 3, 4], vec![0, 1, 1, 1], vec![1.0; 4]).unwrap();
    Operands { transitions: Transitions::Sparse(rows), ..operands }
}

/// The results of the source's sections 2 to 7 ("The final matrix is").
fn example_tensors() -> Tensors {
    let g_ao = |i: [f64; 4]| [i, i].concat();
    let scores = |j: [f64; 4]| [j, j].concat();
    Tensors {
        g_ao: [g_ao([0.1, 0.4, 0.4, 0.4]), g_ao([0.0, 0.6, 0.6, 0.6])].concat(),
        scores: [scores([0.19, 0.18, 0.4, 0.6]), scores([0.28, 0.36, 0.4, 0.6])].concat(),
        best: vec![0, 0, 1, 1, 1, 1, 1, 1],
        g_ab: vec![0.2, 1.8, 2.2, 1.2, 0.0, 2.2, 2.2, 1.2],
        action_scores: vec![0.68, 1.9, 1.32, 1.6],
        best_action: vec![1, 1],
        backup: vec![2.2, 1.2, 2.2, 1.2],
    }
}

fn two_states<T: Precise>(device: &AnyDevice, _: usize) -> Outcome {
    for operands in [example(), sparse(example())] {
        expect_tensors::<T>(&full_backup::<T>(device, &operands)?, &example_tensors())?;
        expect_tensors::<f64>(&full_backup_cpu(&operands), &example_tensors())?;
    }
    Ok(())
}

/// Sections 8 and 9, for b = [.1 .9], a = 1, o = 0.
fn two_states_lookahead<T: Precise>(device: &AnyDevice, _: usize) -> Outcome {
    let (belief, tolerance) = ([0.1, 0.9], 4.0 * epsilon::<T>());
    // The source's numbers: its T_inv lets action 1 keep each state, unlike its T, so its p(o|b, a) = .2 differs from
    // the divisor Σ = .19.
    let operands = example();
    same("the source's T_inv", &[operands.last_predecessors()], &[Some(vec![0, 1, 0, 1])])?;
    let found = one_step_lookahead::<T>(device, &operands, &belief, Some(&[0, 1, 0, 1]))?;
    let outlook = &found.prospects[1].outlooks[0];
    close("the source's b̂", &outlook.unnormalised, &[0.01, 0.18], tolerance, 0.0)?;
    let updated = outlook.belief.as_deref().unwrap_or_default();
    close("the source's b^{a,o}", updated, &[0.01 / 0.19, 0.18 / 0.19], tolerance, 0.0)?;
    close("t_{a,o}", &outlook.t, &[0.2, 0.2], tolerance, 0.0)?;
    close("p(o|b, a)", &[outlook.probability], &[0.2], tolerance, 0.0)?;

    // By the definitions, both states go to state 1, and Σ b̂ = p(o|b, a).
    same("T_inv", &[operands.inverse()], &[None])?;
    for operands in [example(), sparse(example())] {
        let found = one_step_lookahead::<T>(device, &operands, &belief, None)?;
        let outlook = &found.prospects[1].outlooks[0];
        close("b̂", &outlook.unnormalised, &[0.0, 0.2], tolerance, 0.0)?;
        close("b^{a,o}", outlook.belief.as_deref().unwrap_or_default(), &[0.0, 1.0], tolerance, 0.0)?;
        close("t_{a,o}", &outlook.t, &[0.2, 0.2], tolerance, 0.0)?;
        close("p(o|b, a)", &[outlook.probability], &[0.2], tolerance, 0.0)?;
        // Σₒ p v: a = 0 stays, b̂ = [.01 .18], b̂·α = (.37, .54); a = 1 ends in state 1, .2 · max(2, 3).
        let of =
            |get: fn(&warpkov::pomdp::reference::Prospect) -> f64| found.prospects.iter().map(get).collect::<Vec<_>>();
        close("c₁", &of(|p| p.c1), &[0.9, 0.1], tolerance, 0.0)?;
        close("c₂", &of(|p| p.c2), &[1.08, 1.2], 4.0 * tolerance, 0.0)?;
        close("c₁ + γ c₂", &of(|p| p.sum), &[1.98, 1.3], 4.0 * tolerance, 0.0)?;
        same("a*", &[found.best], &[0])?;
    }
    Ok(())
}

impl Random {
    /// A random POMDP with at most `longest` successors and `seen` observations per row, and rewards in [−1, 1).
    pub fn pomdp(&mut self, states: u32, actions: u32, observations: u32, longest: u32, seen: u32) -> Pomdp {
        let process =
            MdpParts { choices: Choices::Uniform(actions), ..self.mdp(states, actions, longest, 0.9).into_parts() };
        let seen = self.distributions((states * actions) as usize, observations, seen);
        let start = Belief::uniform((0..states).collect());
        let model =
            PomdpParts { process, observation_count: observations, observations: seen, start, ..PomdpParts::default() };
        model.validated().expect("a valid model")
    }

    /// Beliefs over 1 to `longest` states.
    pub fn beliefs(&mut self, count: usize, states: u32, longest: u32) -> Vec<Belief> {
        let rows = self.distributions(count, states, longest);
        (0..count).map(|row| rows.row(row)).map(|(s, p)| Belief::new(s.to_vec(), p.to_vec()).unwrap()).collect()
    }

    /// Vectors with entries in [−1, 1).
    pub fn vectors(&mut self, count: usize, states: u32) -> AlphaVectors {
        let actions = (0..count).map(|i| i as u32 % 2).collect();
        AlphaVectors::from_parts(states, self.signed(count * states as usize), actions).unwrap()
    }
}

/// States, actions, observations, successors, observations of a row, vectors, beliefs.
const SIZES: [(u32, u32, u32, u32, u32, usize, usize); 5] = [
    (1, 1, 1, 1, 1, 1, 1),
    (2, 3, 2, 2, 2, 5, 4),
    (9, 2, 4, 3, 4, 3, 6),
    (20, 3, 3, 1, 2, 7, 5),
    (13, 4, 1, 13, 1, 2, 3),
];

fn full_backups<T: Precise>(device: &AnyDevice, _: usize) -> Outcome {
    let mut random = Random::new(70);
    for (states, actions, observations, longest, seen, vectors, beliefs) in SIZES {
        let model = random.pomdp(states, actions, observations, longest, seen);
        let (vectors, beliefs) = (random.vectors(vectors, states), random.beliefs(beliefs, states, 4));
        let operands = Operands::new(&model, &vectors, &beliefs);
        same("one successor each", &[matches!(operands.transitions, Transitions::Deterministic(_))], &[longest == 1])?;
        expect_tensors::<T>(&full_backup::<T>(device, &operands)?, &full_backup_cpu(&operands))?;
    }
    Ok(())
}

/// c₁ + γ c₂ of an action equals b · gₐᵇ from the best vectors of the full backup.
fn lookaheads<T: Precise>(device: &AnyDevice, _: usize) -> Outcome {
    let mut random = Random::new(71);
    for (states, actions, observations, longest, seen, vectors, beliefs) in SIZES {
        let model = random.pomdp(states, actions, observations, longest, seen);
        let (vectors, beliefs) = (random.vectors(vectors, states), random.beliefs(beliefs.min(2), states, 4));
        let operands = Operands::new(&model, &vectors, &beliefs);
        let expected = full_backup_cpu(&operands);
        for (j, belief) in operands.beliefs.chunks(states as usize).enumerate() {
            let found = one_step_lookahead::<T>(device, &operands, belief, None)?;
            let sums: Vec<_> = found.prospects.iter().map(|prospect| prospect.sum).collect();
            let values = &expected.action_scores[j * actions as usize..(j + 1) * actions as usize];
            close("c₁ + γ c₂", &sums, values, 32.0 * epsilon::<T>(), 0.0)?;
            same("a*", &[found.best], &[expected.best_action[j]])?;
        }
    }
    // A permutation has an inverse, so both ways of updating the belief agree.
    let permuted = Operands { transitions: Transitions::Deterministic(vec![1, 0, 0, 1]), ..example() };
    let inverse = permuted.inverse();
    same("T_inv", std::slice::from_ref(&inverse), &[Some(vec![1, 0, 0, 1])])?;
    let by_inverse = one_step_lookahead::<T>(device, &permuted, &[0.1, 0.9], inverse.as_deref())?;
    same("lookahead", &[by_inverse], &[one_step_lookahead::<T>(device, &permuted, &[0.1, 0.9], None)?])
}

/// D = A·B + C by one warp is exact for small integers. Other factors are truncated to ten fraction bits.
pub fn tensor_core(device: &AnyDevice, _: usize) -> Outcome {
    let mut random = Random::new(72);
    let mut integers = |n: usize| (0..n).map(|_| random.below(17) as f32 - 8.0).collect::<Vec<_>>();
    let (mut a, b, c) = (integers(128), integers(64), integers(128));
    // 1 + 2⁻¹¹ is truncated to 1.
    a[0] = 1.0 + f32::powi(2.0, -11);
    let mut d = device.zeros::<f32>(128)?;
    let (da, db, dc) = (device.upload(&a)?, device.upload(&b)?, device.upload(&c)?);
    // SAFETY: the matrices have 16 × 8, 8 × 8 and 16 × 8 elements.
    unsafe { tensor_product(device, Shape::new(1, 32), &da, &db, &dc, &mut d)? };
    a[0] = 1.0;
    let dot = |row: usize, column: usize| (0..8).map(|k| a[8 * row + k] * b[8 * k + column]).sum::<f32>();
    let expected: Vec<_> = (0..128).map(|place| c[place] + dot(place / 8, place % 8)).collect();
    same("D", &device.to_vec(&d)?, &expected)
}

/// The same with f16 factors and k = 16: products and sums of small integers are exact.
pub fn half_tensor_core(device: &AnyDevice, _: usize) -> Outcome {
    let mut random = Random::new(77);
    let mut integers = |n: usize| (0..n).map(|_| random.below(17) as f32 - 8.0).collect::<Vec<_>>();
    let (a, b, c) = (integers(256), integers(128), integers(128));
    let words = |x: &[f32]| -> Vec<u32> {
        x.chunks(2).map(|two| u32::from(half::from_f32(two[0])) | u32::from(half::from_f32(two[1])) << 16).collect()
    };
    let mut d = device.zeros::<f32>(128)?;
    let (da, db, dc) = (device.upload(&words(&a))?, device.upload(&words(&b))?, device.upload(&c)?);
    // SAFETY: the matrices have 16 × 8 and 8 × 8 words, and 16 × 8 elements.
    unsafe { half_tensor_product(device, Shape::new(1, 32), &da, &db, &dc, &mut d)? };
    // B is column-major.
    let dot = |row: usize, column: usize| (0..16).map(|k| a[16 * row + k] * b[16 * column + k]).sum::<f32>();
    let expected: Vec<_> = (0..128).map(|place| c[place] + dot(place / 8, place % 8)).collect();
    same("D", &device.to_vec(&d)?, &expected)
}

/// Partial tiles, several tiles, tiles of zeros, and duplicate vectors. The relative error of each product is at most
/// `digits`.
pub fn dense_products<E: Factor>(device: &AnyDevice, scale: usize, digits: f64) -> Outcome {
    let mut random = Random::new(73);
    for (rows, vectors, states) in [(1, 1, 1usize), (130, 200, 37), (3 + 10 * scale, 128 + scale, 200)] {
        let words = states.div_ceil(E::PER_WORD).next_multiple_of(STEP);
        let (stride, steps, tiles) = (words * E::PER_WORD, words / STEP, rows.div_ceil(TILE));
        let mut matrix = |count: usize, from: usize| {
            let mut padded = vec![0.0; count.next_multiple_of(TILE) * stride];
            padded.chunks_mut(stride).take(count).for_each(|row| {
                row[from..states].iter_mut().for_each(|x| *x = 2.0 * random.unit() - 1.0);
            });
            padded
        };
        // If there are many states, the first ones have belief 0.
        let (x, mut alpha) = (matrix(rows, states / 130 * 130), matrix(vectors, 0));
        // The second half of the vectors repeats the first half and must never win.
        let half = vectors / 2;
        let (first, second) = alpha.split_at_mut((vectors - half) * stride);
        second[..half * stride].copy_from_slice(&first[..half * stride]);
        let mut used = vec![0u8; tiles * steps];
        for (place, _) in x.iter().enumerate().filter(|(_, x)| **x != 0.0) {
            used[place / stride / TILE * steps + place % stride / (STEP * E::PER_WORD)] = 1;
        }
        let factors = |numbers: &[f64]| device.upload(&numbers.iter().map(|&x| E::of(x)).collect::<Vec<_>>());
        let (dx, da, used) = (factors(&x)?, factors(&alpha)?, device.upload(&used)?);
        let (mut list, mut keys) = (device.zeros::<u32>(tiles * (steps + 1))?, device.zeros::<u64>(rows)?);
        let shape = Shape::new((tiles * vectors.div_ceil(TILE)) as u32, DENSE_THREADS).with_shared(DENSE_SHARED);
        let (m, n) = (rows as u32, vectors as u32);
        // SAFETY: both operands consist of whole tiles, padded with zeros, and the grid has one block per pair of
        // tiles.
        unsafe {
            list_steps(device, Shape::new(tiles as u32, 32), steps as u32, &used, &mut list)?;
            best_of_dense(device, shape, m, n, words as u32, &dx, &list, &da, &mut keys)?;
        }
        let dot = |r: usize, i: usize| -> f64 { (0..states).map(|s| x[r * stride + s] * alpha[i * stride + s]).sum() };
        let best: Vec<f64> =
            (0..rows).map(|r| (0..vectors).map(|i| dot(r, i)).fold(f64::NEG_INFINITY, f64::max)).collect();
        let found: Vec<_> = device.to_vec(&keys)?.into_iter().map(|key| vector_of(key) as usize).collect();
        let worth: Vec<f64> = found.iter().enumerate().map(|(r, &i)| dot(r, i)).collect();
        close("the winner's score", &worth, &best, digits * states as f64, 0.0)?;
        same("the lower of equal ones", &[found.iter().any(|&i| i >= vectors - half)], &[false])?;
    }
    Ok(())
}

const PRODUCTS: [Product; 3] = [Product::Sparse, Product::Dense { exact: true }, Product::Dense { exact: false }];

/// The fast path, in batches of different sizes, against the definitions.
fn fast_backups<T: Precise>(device: &AnyDevice, scale: usize) -> Outcome {
    let mut random = Random::new(74);
    // More vectors than a block processes at a time; one batch of them on the emulator.
    let wide = (40, 2, 3, 5, 3, 530 * scale.min(3), 2 * scale);
    // More beliefs than a tile holds, over more states than a block processes.
    let many = (150, 2, 2, 4, 2, 3, 37);
    for (states, actions, observations, longest, seen, vectors, beliefs) in SIZES.into_iter().chain([wide, many]) {
        let model = random.pomdp(states, actions, observations, longest, seen);
        let (vectors, beliefs) = (random.vectors(vectors, states), random.beliefs(beliefs, states, 40));
        let operands = Operands::new(&model, &vectors, &beliefs);
        let expected = full_backup_cpu(&operands);
        let assembler = Assembler::new(&model, &model.expected_rewards());
        for product in PRODUCTS {
            let small = Limits { elements: 2 * (states * actions * observations) as usize, entries: 30 };
            for limits in [Limits::default(), small].into_iter().take(if states == 40 { scale.min(2) } else { 2 }) {
                let mut tested = Backups::<T>::new(device, &model, Some(product), limits)?;
                // Γ is uploaded in two parts, so that it grows.
                let half = vectors.len() / 2;
                tested.set_vectors(&vectors)?;
                tested.set_vectors(&vectors.retain(|i| i < half))?;
                tested.add_vectors(&vectors.retain(|i| i >= half))?;
                let plans = tested.backup(&beliefs)?;
                let found = &plans.vectors;
                for (j, next) in plans.next.chunks(observations as usize).enumerate() {
                    let told = assembler.vector(&vectors, found.actions()[j], next);
                    close("what next says", found.vector(j), &told, 32.0 * epsilon::<T>(), 0.0)?;
                }
                let values: Vec<_> = beliefs.iter().enumerate().map(|(j, b)| b.dot(found.vector(j))).collect();
                let best = expected.action_scores.chunks(actions as usize);
                let best: Vec<_> =
                    best.map(|scores| scores.iter().copied().fold(f64::NEG_INFINITY, f64::max)).collect();
                if product == (Product::Dense { exact: false }) {
                    // Another choice may win if both values agree in ten bits.
                    close("b · backup(b)", &values, &best, 4e-3, 0.0)?;
                } else {
                    same("actions", found.actions(), &expected.best_action)?;
                    close("backup(b)", found.values(), &expected.backup, 32.0 * epsilon::<T>(), 0.0)?;
                }
                same("again", &[tested.backup(&beliefs)?], &[plans])?;
            }
        }
    }
    Ok(())
}

fn best_vectors<T: Precise>(device: &AnyDevice, _: usize) -> Outcome {
    let mut random = Random::new(75);
    let model = random.pomdp(30, 2, 2, 3, 2);
    let beliefs = random.beliefs(9, 30, 12);
    let mut tested = Backups::<T>::new(device, &model, None, Limits::default())?;
    for count in [1, 5, 700] {
        let once = random.vectors(count, 30);
        // Duplicate vectors: the first one is best.
        let values = [once.values(), once.values()].concat();
        let twice = AlphaVectors::from_parts(30, values, [once.actions(), once.actions()].concat())?;
        tested.set_vectors(&twice)?;
        let (found, values): (Vec<_>, Vec<_>) = tested.best(&beliefs)?.into_iter().unzip();
        let expected: Vec<_> = beliefs.iter().filter_map(|belief| once.best(belief)).collect();
        same("vectors", &found, &expected.iter().map(|best| best.0 as u32).collect::<Vec<_>>())?;
        close("V(b)", &values, &expected.iter().map(|best| best.1).collect::<Vec<_>>(), 16.0 * epsilon::<T>(), 0.0)?;
    }
    Ok(())
}

/// The same vectors with other actions.
pub fn of_actions(vectors: &AlphaVectors, actions: Vec<u32>) -> AlphaVectors {
    AlphaVectors::from_parts(vectors.states(), vectors.values().to_vec(), actions).expect("an action for each")
}

/// The beliefs of walks are b₀ and successors of beliefs of the previous step. Walks are reproducible. Backups of the
/// beliefs in reverse order raise the value at each as far as its own backup.
fn walks<T: Precise>(device: &AnyDevice, scale: usize) -> Outcome {
    let mut random = Random::new(76);
    let (tolerance, count) = (64.0 * epsilon::<T>(), 4 + scale as u32);
    for (states, actions, observations) in [(1, 1, 1), (9, 2, 3), (if scale > 1 { 300 } else { 130 }, 3, 2)] {
        let model = random.pomdp(states, actions, observations, 4, 3);
        let vectors = random.vectors(3, states);
        let vectors = of_actions(&vectors, vectors.actions().iter().map(|a| a % actions).collect());
        for (product, guided) in [(Product::Sparse, 0), (Product::Dense { exact: true }, count / 2)] {
            let backups = Backups::<T>::new(device, &model, Some(product), Limits::default())?;
            let mut tested = Walkers::new(device, &model, backups, &vec![10.0; (states * actions) as usize])?;
            tested.set_vectors(&vectors)?;
            let best_in = (0..states).map(|_| random.below(u64::from(actions)) as u32).collect();
            // Two steps of many states: the second one already follows beliefs other than b₀.
            let steps = if states < 100 || scale > 1 { 3 } else { 2 };
            let walks = Walks { count, optimistic: guided / 2, guided, explored: 0.3, best_in };
            let walked = tested.walk(&walks, steps, 1 << 40, 5, &mut || false)?;
            let read =
                |tested: &Walkers<T>| (0..walked.batches).map(|i| tested.beliefs(i)).collect::<Result<Vec<_>, _>>();
            let batches = read(&tested)?;
            same("beliefs", &[batches.iter().map(Vec::len).sum::<usize>()], &[walked.beliefs])?;
            same("steps", &[walked.batches], &[steps as usize + 1])?;
            same("b₀", &[batches[0].len()], &[1])?;
            let mut before = vec![model.start().clone()];
            for (step, batch) in batches.iter().enumerate().skip(1) {
                let mut follow = vec![model.start().clone()];
                let mut projection = Projection::default();
                for belief in &before {
                    (0..actions).for_each(|a| projection.each(&model, belief, a, |_, _, next| follow.push(next)));
                }
                for belief in batch {
                    let nearest = follow.iter().map(|other| other.distance(belief)).fold(f64::INFINITY, f64::min);
                    close(&format!("a belief of step {step}"), &[nearest], &[0.0], tolerance, 0.0)?;
                }
                let distinct = batch.iter().enumerate().all(|(i, belief)| !batch[..i].contains(belief));
                same("each history once", &[distinct || states == 1 || batch.len() <= count as usize], &[true])?;
                before = batch.clone();
            }
            tested.walk(&walks, steps, 1 << 40, 5, &mut || false)?;
            same("again", &read(&tested)?, &batches)?;

            for number in (0..walked.batches).rev() {
                let known = tested.vectors()?;
                tested.improve(number, 0.0)?;
                let backups = tested.backup(&batches[number])?;
                let (found, all) = (tested.best(&batches[number])?, tested.vectors()?);
                for (j, belief) in batches[number].iter().enumerate() {
                    let old = known.best(belief).map_or(f64::NEG_INFINITY, |best| best.1);
                    close("V(b)", &[found[j].1], &[all.best(belief).map_or(f64::NAN, |best| best.1)], tolerance, 0.0)?;
                    same("no value falls", &[found[j].1 >= old - tolerance], &[true])?;
                }
                same("a backup for each", &[backups.vectors.len()], &[batches[number].len()])?;
                same("the first stay", &all.values()[..known.values().len()], known.values())?;
            }
            let best = |tested: &mut Walkers<T>| -> Result<Vec<f64>, DeviceError> {
                let mut values = Vec::new();
                for batch in &batches {
                    values.extend(tested.best(batch)?.into_iter().map(|best| best.1));
                }
                Ok(values)
            };
            let (values, all) = (best(&mut tested)?, tested.count());
            tested.prune(1, usize::MAX, walked.batches)?;
            same("as good without what no belief needs", &best(&mut tested)?, &values)?;
            same("no more than there were", &[tested.count() <= all], &[true])?;
            let most = tested.count().min(3);
            tested.prune(1, most, walked.batches)?;
            same("no more than may be", &[tested.count()], &[most])?;
            close("b₀ keeps its own", &best(&mut tested)?[..1], &values[..1], 0.0, 0.0)?;
        }
    }
    Ok(())
}
