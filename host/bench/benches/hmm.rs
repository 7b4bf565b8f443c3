//! Times of the HMM recursions on the CPU, for `benches/peers/hmm.py`: prints one JSON object.
//!
//! Usage: `hmm MODEL SEQUENCES LENGTHS PRECISION REPETITIONS`. Times are in seconds, one per repetition. Each
//! repetition recomputes the tables of the model, as in training.

use std::path::Path;
use std::time::Instant;

use serde_json::json;
use warpkov_hmm::backends::device::Limits;
use warpkov_hmm::io;
use warpkov_hmm::options::Precision;
use warpkov_hmm::place::recursions;
use warpkov_runtime::choose::Place;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [model, sequences, lengths, precision, repetitions] = &arguments[..] else {
        // `cargo bench` and `cargo test --benches` run it without arguments.
        println!("MODEL SEQUENCES LENGTHS f32|f64 REPETITIONS");
        return Ok(());
    };
    let model = io::read(Path::new(model), None)?;
    let sequences = io::sequences::read(Path::new(sequences), Some(Path::new(lengths)), None, &model)?;
    let precision = if precision == "f32" { Precision::F32 } else { Precision::F64 };
    let place = Place::Cpu;
    let (mut recursions, device) = (recursions(&place, &sequences, precision, Limits::default())?, place.name());
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    let mut log = 0.0;
    for _ in 0..repetitions.parse::<u32>()? {
        let begun = Instant::now();
        recursions.set_models(std::slice::from_ref(&model))?;
        log = recursions.log_likelihoods()?[0].iter().sum::<f64>();
        times[0].push(begun.elapsed().as_secs_f64());
        let begun = Instant::now();
        recursions.set_models(std::slice::from_ref(&model))?;
        recursions.viterbi()?;
        times[1].push(begun.elapsed().as_secs_f64());
        let begun = Instant::now();
        recursions.set_models(std::slice::from_ref(&model))?;
        recursions.expect()?;
        times[2].push(begun.elapsed().as_secs_f64());
    }
    let [forward, viterbi, expect] = times;
    println!("{}", json!({ "device": device, "log": log, "forward": forward, "viterbi": viterbi, "expect": expect }));
    Ok(())
}
