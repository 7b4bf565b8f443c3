//! Models of the tests of warnings and of policies, and runs of `warpkov mdp` on their files.

use std::path::Path;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use serde_json::Value as Json;
use warpkov::mdp::ask::evaluate::Options;
use warpkov::mdp::criterion;
use warpkov::mdp::model::{Choices, Csr, Mdp, MdpParts};
use warpkov::runtime::choose::DeviceChoice;

use crate::common::run;

/// Successors with probabilities, and a reward.
type Row = (Vec<(u32, f64)>, f64);

/// A model with these rows, by state and action.
pub fn model(gamma: f64, states: &[Vec<Row>]) -> MdpParts {
    let rows: Vec<_> = states.iter().flatten().collect();
    let mut row_ptr = vec![0];
    row_ptr.extend(rows.iter().scan(0, |end, (next, _)| {
        *end += next.len() as u64;
        Some(*end)
    }));
    let entries: Vec<(u32, f64)> = rows.iter().flat_map(|(next, _)| next.clone()).collect();
    let (col, val): (Vec<u32>, Vec<f64>) = entries.into_iter().unzip();
    let mut offsets = vec![0];
    offsets.extend(states.iter().scan(0, |end, rows| {
        *end += rows.len() as u64;
        Some(*end)
    }));
    MdpParts {
        states: states.len() as u32,
        choices: Choices::Ragged(offsets.into()),
        gamma,
        transitions: Csr::new(row_ptr, col, val).unwrap(),
        action_rewards: rows.iter().map(|(_, reward)| *reward).collect::<Vec<_>>().into(),
        ..MdpParts::default()
    }
}

/// Keep a machine of age s, or replace it.
pub fn replacement(ages: u32) -> Mdp {
    let state = |age: u32| {
        let older = (age + 1).min(ages - 1);
        let keep = if older == age { vec![(age, 1.0)] } else { vec![(age, 0.25), (older, 0.75)] };
        vec![(keep, 10.0 - f64::from(age * age)), (vec![(0, 1.0)], -4.0)]
    };
    let parts = model(0.9, &(0..ages).map(state).collect::<Vec<_>>());
    MdpParts { choices: Choices::Uniform(2), ..parts }.validated().unwrap()
}

/// A random model of `states` states with dyadic probabilities, so that rows sum to 1 exactly, and rewards of many
/// magnitudes. Rows end with positive probability if `ends`.
pub fn random_model(random: &mut ChaCha8Rng, states: u32, gamma: f64, ends: bool, scale: i32) -> Mdp {
    let row = |random: &mut ChaCha8Rng| {
        let mut weights = vec![0_u32; states as usize + 1];
        for _ in 0..64 {
            let next = match random.next_u32() % 4 {
                0 if ends => states,
                1 => random.next_u32() % states,
                _ => (random.next_u32() % states) / 2,
            };
            weights[next as usize] += 1;
        }
        let reward = (f64::from(random.next_u32() % 2001) - 1000.0) * 2f64.powi(scale);
        let small = 2f64.powi(-((random.next_u32() % 20) as i32));
        let entries = weights[..states as usize].iter().zip(0..).filter(|(weight, _)| **weight > 0);
        let entries: Vec<_> = entries.map(|(&weight, next)| (next, f64::from(weight) / 64.0)).collect();
        (entries, reward * small, f64::from(weights[states as usize]) / 64.0)
    };
    let rows: Vec<Vec<_>> =
        (0..states).map(|_| (0..1 + random.next_u32() % 3).map(|_| row(random)).collect()).collect();
    let ends: Vec<f64> = rows.iter().flatten().map(|row| row.2).collect();
    let states: Vec<Vec<_>> = rows.into_iter().map(|rows| rows.into_iter().map(|(p, r, _)| (p, r)).collect()).collect();
    let ends = if ends.iter().any(|&end| end > 0.0) { ends } else { Vec::new() };
    MdpParts { ends: ends.into(), ..model(gamma, &states) }.validated().unwrap()
}

pub fn on_cpu(epsilon: f64) -> Options {
    let accuracy = criterion::Options { epsilon, ..criterion::Options::default() };
    Options { device: DeviceChoice::Cpu, accuracy, ..Options::default() }
}

/// The output of `warpkov mdp …`, which must have exit code `code`, and what it wrote to the standard error.
#[track_caller]
pub fn printed(folder: &Path, arguments: &[&str], code: i32) -> (String, String) {
    let output = run(folder, &[&["mdp"], arguments].concat());
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
    (String::from_utf8(output.stdout).unwrap(), error)
}

#[track_caller]
pub fn object(folder: &Path, arguments: &[&str]) -> Json {
    serde_json::from_str(&printed(folder, &[arguments, &["--json"]].concat(), 0).0).unwrap()
}

pub fn write(folder: &Path, name: &str, mdp: &Mdp) {
    warpkov::mdp::io::write(&folder.join(name), mdp).unwrap();
}
