//! Solves the problems of mdpax and others as models in Rust code: `warpkov-models de-moor --device cuda:0`.

use std::env;
use std::error::Error;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use warpkov::common::choice::Choice;
use warpkov::mdp::matrix_free::{Compiled, solve_model_on_ranks};
use warpkov::mdp::options::{Limits, Target};
use warpkov::mdp::{ModelOptions, solve_many};
use warpkov::runtime::choose::{DeviceChoice, Devices};
use warpkov::runtime::comm::{Communicator, Local, World};
use warpkov_models::MODULES;
use warpkov_models::models::{DeMoor, Forest, Hendrix, Mirjalili, Pallets};

const USAGE: &str = "\
Usage: warpkov-models MODEL [--device auto|cpu|cuda:N|cuda:0,1,…|cuda:all|emulated] [--size N] [--epsilon E] [--precision f32|f64|mixed]
                            [--representation auto|code|sparse] [--times N]

Each model is solved N times [2], because the first time includes the start of the device. Several GPUs solve one model
together, each a range of its states.

Models:
  forest      forest management with N ages [1000000]
  de-moor     a perishable product that lasts N periods [3]
  hendrix     two perishable products, orders of at most N [10]
  mirjalili   platelets, orders of at most N [20]
  pallets     two perishable products on one truck, N units a pallet, 30 for 10⁹ states [6]
  machines    N forests of 100 ages with different probabilities of fire, in one run [10000]";

/// The longest wait of a rank for another one.
const TIMEOUT: Duration = Duration::from_secs(60);

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let model = arguments.next().ok_or(USAGE)?;
    let mut options = ModelOptions { modules: Some(&MODULES), ..ModelOptions::default() };
    let (mut size, mut epsilon, mut times) = (None, 1e-4, 2);
    let mut devices = Devices::One(DeviceChoice::Auto);
    while let Some(option) = arguments.next() {
        let value = arguments.next().ok_or(USAGE)?;
        match option.as_str() {
            "--device" => devices = value.parse()?,
            "--size" => size = Some(value.parse::<u32>()?),
            "--epsilon" => epsilon = value.parse()?,
            "--times" => times = value.parse::<u32>()?,
            "--precision" => options.precision = Choice::of_name(&value).ok_or(USAGE)?,
            "--representation" => options.representation = Choice::of_name(&value).ok_or(USAGE)?,
            _ => return Err(USAGE.into()),
        }
    }
    let devices = devices.choose(&World::alone())?;
    options.limits = Limits { target: Target::Epsilon(epsilon), ..Limits::default() };
    let forest = Forest { ages: 100, wait_reward: 4.0, cut_reward: 2.0, fire: 0.1, gamma: 0.99 };
    let size = |default| size.unwrap_or(default);
    match model.as_str() {
        "forest" => solve(&Forest { ages: size(1_000_000).into(), ..forest }, &options, &devices, times),
        "de-moor" => solve(&DeMoor { life: size(3), lead_time: 2, ..DeMoor::default() }, &options, &devices, times),
        "hendrix" => {
            let (mean_a, mean_b) = (5.0, 5.0);
            let most = size(10);
            solve(
                &Hendrix { life: 2, most, mean_a, mean_b, substitution: 0.5, cost: 0.5, gamma: 0.99 },
                &options,
                &devices,
                times,
            )
        }
        "mirjalili" => solve(&Mirjalili { most_ordered: size(20), ..Mirjalili::default() }, &options, &devices, times),
        "pallets" => solve(&Pallets::of(size(6)), &options, &devices, times),
        "machines" => {
            let count = size(10_000);
            let fire = |number: u32| f64::from(number) / f64::from(2 * count);
            let forests: Vec<Forest> = (0..count).map(|number| Forest { fire: fire(number), ..forest }).collect();
            many(&forests, &ModelOptions { device: devices[0], ..options }, times)
        }
        _ => Err(USAGE.into()),
    }
}

/// Solves a model some times, by a rank for each of the `devices`.
fn solve<M: Compiled>(
    model: &M,
    options: &ModelOptions,
    devices: &[DeviceChoice],
    times: u32,
) -> Result<(), Box<dyn Error>> {
    let of_rank = |ranks: &Local| {
        let options = ModelOptions { device: devices[ranks.rank() as usize], ..*options };
        solve_model_on_ranks(ranks, model, &options, &mut |_| ControlFlow::Continue(()))
    };
    for _ in 0..times {
        let begun = Instant::now();
        let solved = Local::run(devices.len() as u32, TIMEOUT, of_rank)?.swap_remove(0);
        let (all, run) = (begun.elapsed().as_secs_f64(), &solved.run);
        let bound = solved.certificate.bound_text().unwrap_or_else(|| "no bound".to_owned());
        println!(
            "{} states on {}: {} sweeps in {:.4} s, {all:.4} s in all, V within {bound}, V(0) = {}",
            solved.values.len(),
            solved.device,
            run.sweeps(),
            run.elapsed.as_secs_f64(),
            solved.values[0]
        );
        solved.notes.iter().for_each(|note| println!("{note}"));
    }
    Ok(())
}

/// Solves many models some times.
fn many<M: Compiled>(models: &[M], options: &ModelOptions, times: u32) -> Result<(), Box<dyn Error>> {
    for _ in 0..times {
        let begun = Instant::now();
        let solved = solve_many(models, options)?;
        let all = begun.elapsed().as_secs_f64();
        let converged = solved.iter().filter(|solution| solution.converged(&options.limits)).count();
        let within = solved.first().map_or(0.0, |solution| solution.elapsed.as_secs_f64());
        println!("{converged} of {} models certified in {within:.4} s, {all:.4} s in all", models.len());
    }
    Ok(())
}
