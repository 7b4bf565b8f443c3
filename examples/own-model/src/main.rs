//! When to replace a machine that wears out, on a GPU if there is one, otherwise on the CPU.

mod models;

use std::error::Error;

use models::{ACTIONS, Machine};
use warpkov::mdp::{ModelOptions, solve_many, solve_model};
use warpkov_cuda::Modules;

/// The models compiled for GPUs.
static MODULES: Modules = warpkov_cuda::modules!();

fn main() -> Result<(), Box<dyn Error>> {
    let options = ModelOptions {
        modules: Some(&MODULES),
        ..ModelOptions::default()
    };
    let machine = Machine {
        states: 10,
        profit: 10.0,
        price: 20.0,
        wear: 0.3,
        gamma: 0.95,
    };

    let solved = solve_model(&machine, &options)?;
    let bound = solved
        .certificate
        .bound_text()
        .ok_or("V is not certified")?;
    println!("{}: V within {bound}", solved.device);
    for (state, (value, &action)) in solved.values.iter().zip(&solved.policy).enumerate() {
        println!("{state:>5} {:>8} {value:>10.4}", ACTIONS[action as usize]);
    }

    // The same for a hundred prices, in one run.
    let machines: Vec<Machine> = (0..100)
        .map(|step| Machine {
            price: f64::from(step),
            ..machine
        })
        .collect();
    let solved = solve_many(&machines, &options)?;
    let dearest = machines
        .iter()
        .zip(&solved)
        .filter(|(_, solved)| solved.policy.contains(&1))
        .next_back();
    if let Some((machine, _)) = dearest {
        println!("a machine is replaced up to a price of {}", machine.price);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use warpkov::mdp::matrix_free::Representation;
    use warpkov::runtime::choose::DeviceChoice;

    use super::*;

    const MACHINE: Machine = Machine {
        states: 50,
        profit: 10.0,
        price: 20.0,
        wear: 0.3,
        gamma: 0.95,
    };

    fn solve(device: DeviceChoice) -> Vec<f64> {
        let representation = Representation::Code;
        let options = ModelOptions {
            modules: Some(&MODULES),
            device,
            representation,
            ..ModelOptions::default()
        };
        solve_model(&MACHINE, &options)
            .expect("the model is right")
            .values
    }

    /// The emulator reports races and accesses out of bounds as errors.
    #[test]
    fn devices_agree() {
        let expected = solve(DeviceChoice::Cpu);
        let mut devices = vec![DeviceChoice::Emulated];
        devices.extend(
            warpkov_cuda::Gpu::open(0, &MODULES)
                .is_ok()
                .then_some(DeviceChoice::Cuda(0)),
        );
        for device in devices {
            let found = solve(device);
            assert!(
                found
                    .iter()
                    .zip(&expected)
                    .all(|(x, y)| (x - y).abs() <= 2e-6),
                "{device}"
            );
        }
    }

    /// V(broken) = −price + γ V(new), if a broken machine is replaced.
    #[test]
    fn the_values_satisfy_the_equation_of_a_replacement() {
        let values = solve(DeviceChoice::Cpu);
        assert!((values[49] - (MACHINE.gamma * values[0] - MACHINE.price)).abs() <= 4e-6);
    }
}
