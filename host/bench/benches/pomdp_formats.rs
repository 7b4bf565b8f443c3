//! Read and write speed of the POMDP formats: `cargo bench -p warpkov-bench --bench pomdp_formats [STATES]` (100000), on a generated
//! model of six actions, five observations and up to six successors per state and action.
//!
//! Each line is the median of five runs.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Instant;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use warpkov_mdp::model::{Choices, Csr, MdpParts};
use warpkov_pomdp::belief::Belief;
use warpkov_pomdp::io as formats;
use warpkov_pomdp::io::Format;
use warpkov_pomdp::model::{Names, Pomdp, PomdpParts};

const ACTIONS: u32 = 6;
const OBSERVATIONS: u32 = 5;
const SUCCESSORS: u32 = 6;

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo passes --bench to every benchmark.
    let states = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(100_000);
    let folder = tempfile::tempdir()?;
    let numbered = generate(states)?;
    let list = |prefix: &str, count: u32| (0..count).map(|i| format!("{prefix}{i}")).collect();
    let names = Names { states: list("s", states), actions: list("a", ACTIONS), observations: list("o", OBSERVATIONS) };
    let named = PomdpParts { names, ..numbered.clone().into_parts() }.validated()?;
    println!("{states} states, {} transitions", numbered.process().transitions().nnz());
    println!("{:<28} {:>9} {:>9} {:>9}", "", "MB", "ms", "MB/s");
    for (name, format, model) in [
        (".pomdp, numbers", Format::Pomdp, &numbered),
        (".pomdp, names", Format::Pomdp, &named),
        ("JSON", Format::Json, &numbered),
    ] {
        let path = folder.path().join("model");
        formats::write(&path, format, model)?;
        let bytes = fs::metadata(&path)?.len();
        line(&format!("write {name}"), bytes, || Ok(formats::write(&path, format, model)?))?;
        line(&format!("read {name}"), bytes, || read(&path, format))?;
    }
    Ok(())
}

fn read(path: &Path, format: Format) -> Result<(), Box<dyn Error>> {
    Ok(formats::read(path, Some(format)).map(drop)?)
}

/// A model whose probabilities have four digits.
fn generate(states: u32) -> Result<Pomdp, Box<dyn Error>> {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut draw = |below: u32| random.next_u32() % below;
    let distribution = |support: Vec<u32>| {
        let even = 10_000 / support.len() as u32;
        let last = 10_000 - even * (support.len() as u32 - 1);
        let mut probs = vec![f64::from(even) / 1e4; support.len()];
        probs[support.len() - 1] = f64::from(last) / 1e4;
        support.into_iter().zip(probs).collect::<Vec<_>>()
    };
    let (mut transitions, mut observations) = (Vec::new(), Vec::new());
    for _ in 0..states * ACTIONS {
        let mut support: Vec<u32> = (0..1 + draw(SUCCESSORS)).map(|_| draw(states)).collect();
        support.sort_unstable();
        support.dedup();
        transitions.push(distribution(support));
        let first = draw(OBSERVATIONS - 1);
        observations.push(distribution(vec![first, first + 1]));
    }
    let action_rewards = (0..states * ACTIONS).map(|_| f64::from(draw(100)) - 50.0).collect::<Vec<_>>();
    let process = MdpParts {
        states,
        choices: Choices::Uniform(ACTIONS),
        gamma: 0.95,
        transitions: csr(&transitions),
        action_rewards: action_rewards.into(),
        ..MdpParts::default()
    };
    let start = Belief::uniform((0..states).collect());
    let observations = csr(&observations);
    Ok(PomdpParts { process, observation_count: OBSERVATIONS, observations, start, ..PomdpParts::default() }
        .validated()?)
}

fn csr(rows: &[Vec<(u32, f64)>]) -> Csr {
    let mut row_ptr = vec![0];
    row_ptr.extend(rows.iter().scan(0, |end, row| {
        *end += row.len() as u64;
        Some(*end)
    }));
    let (col, val): (Vec<_>, Vec<_>) = rows.iter().flatten().copied().unzip();
    Csr::new(row_ptr, col, val).unwrap()
}

/// Measures and prints one line.
fn line(name: &str, bytes: u64, mut run: impl FnMut() -> Result<(), Box<dyn Error>>) -> Result<(), Box<dyn Error>> {
    let mut seconds = Vec::new();
    for _ in 0..5 {
        let start = Instant::now();
        run()?;
        seconds.push(start.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    let (median, megabytes) = (seconds[2], bytes as f64 / 1e6);
    println!("{name:<28} {megabytes:>9.1} {:>9.1} {:>9.0}", 1e3 * median, megabytes / median);
    Ok(())
}
