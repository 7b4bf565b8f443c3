//! Stand-ins for parts written on other branches, deleted at the merge.
#![allow(missing_docs)]

/// Stands in for the list of GPUs.
pub fn gpus() -> Result<Vec<Gpu>, String> {
    Err("no NVIDIA driver".into())
}

pub struct Gpu {
    pub name: String,
    pub memory: u64,
    pub free: u64,
}

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::time::Duration;

use super::model::Mdp;
use super::options::{DeviceChoice, Method, Solution, SolveOptions};
use super::solve::{Backend, Evaluation, Round, policy_iteration};

#[derive(Debug, thiserror::Error)]
pub enum SolveError {
    /// What was asked for does not exist (a method on a device that has none).
    #[error("{0}")]
    Unsupported(String),
    /// No such device, out of device memory, or the device failed.
    #[error("{0}")]
    Device(String),
}

fn q(mdp: &Mdp, values: &[f64], s: usize, a: usize) -> f64 {
    let row = s * mdp.actions as usize + a;
    let (col, p) = mdp.transitions.row(row);
    let (rcol, r) = mdp.rewards.row(row);
    let reward = |c: &u32| rcol.binary_search(c).map_or(0.0, |i| r[i]);
    col.iter().zip(p).map(|(c, p)| p * (reward(c) + mdp.gamma * values[*c as usize])).sum()
}

struct Serial<'a>(&'a Mdp, Vec<f64>, Vec<u32>);

impl Backend for Serial<'_> {
    type Error = Infallible;
    fn evaluate(&mut self, theta: f64, max_sweeps: u32) -> Result<Evaluation, Infallible> {
        let mut residual = f64::INFINITY;
        for sweep in 1..=max_sweeps {
            let next: Vec<f64> = self.2.iter().enumerate().map(|(s, a)| q(self.0, &self.1, s, *a as usize)).collect();
            residual = next.iter().zip(&self.1).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            self.1 = next;
            if residual < theta {
                return Ok(Evaluation { sweeps: sweep, residual });
            }
        }
        Ok(Evaluation { sweeps: max_sweeps, residual })
    }
    fn improve(&mut self, tie: f64) -> Result<u64, Infallible> {
        let mut changed = 0;
        for s in 0..self.2.len() {
            let own = q(self.0, &self.1, s, self.2[s] as usize);
            let (mut best, mut at) = (own + tie, self.2[s]);
            for a in 0..self.0.actions {
                let value = q(self.0, &self.1, s, a as usize);
                if value > best {
                    (best, at) = (value, a);
                }
            }
            changed += u64::from(at != self.2[s]);
            self.2[s] = at;
        }
        Ok(changed)
    }
    fn values(&mut self) -> Result<Vec<f64>, Infallible> {
        Ok(self.1.clone())
    }
    fn policy(&mut self) -> Result<Vec<u32>, Infallible> {
        Ok(self.2.clone())
    }
}

/// Stands in for `mdp::solve_with`.
pub fn solve_with(
    mdp: &Mdp,
    options: &SolveOptions,
    observe: &mut dyn FnMut(&Round) -> ControlFlow<()>,
) -> Result<Solution, SolveError> {
    if let DeviceChoice::Cuda(n) = options.device {
        return Err(SolveError::Device(format!("no such device: cuda:{n}")));
    }
    let n = mdp.states as usize;
    let mut backend = Serial(mdp, vec![0.0; n], vec![0; n]);
    let Ok(run) = policy_iteration(&mut backend, &options.limits, observe);
    Ok(Solution {
        certificate: super::certificate::certify(mdp, &backend.1),
        values: backend.1,
        policy: backend.2,
        run,
        method: Method::Serial,
        precision: options.precision,
        device: "1 CPU core".into(),
        notes: vec!["auto: no NVIDIA driver, so the CPU".into()],
        setup: Duration::ZERO,
    })
}
