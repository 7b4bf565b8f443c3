//! Options from Python's keyword arguments, which the modules of the package collect in dictionaries.

use pyo3::prelude::*;
use warpkov_common::choice::Choice;
use warpkov_mdp::ask::evaluate;
use warpkov_mdp::criterion::{self, Criterion};
use warpkov_mdp::options::{Limits, Method, Precision, SolveOptions, Target};
use warpkov_runtime::choose::DeviceChoice;

use crate::array::Input;
use crate::error::invalid;

/// A variant by name; `what` names the option.
pub fn choice<T: Choice>(what: &str, name: &str) -> PyResult<T> {
    T::of_name(name).ok_or_else(|| invalid(format!("{what} is '{name}', {}", T::expected())))
}

/// A number above 0; `what` names the option.
fn positive(what: &str, number: f64) -> PyResult<f64> {
    match number > 0.0 && number.is_finite() {
        true => Ok(number),
        false => Err(invalid(format!("{what} is {number}, expected a finite number above 0"))),
    }
}

/// Options of [`SolveOptions`].
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Solve {
    device: String,
    method: Option<String>,
    precision: String,
    storage: Option<String>,
    skip: bool,
    device_memory: Option<u64>,
    reorder: String,
    epsilon: f64,
    theta: Option<f64>,
    max_sweeps: Option<u32>,
    max_policies: u32,
    tie: Option<f64>,
}

impl Solve {
    /// The options of a discounted solve. As on the command line, the default tie margin depends on γ.
    pub fn discounted(&self, gamma: f64) -> PyResult<SolveOptions> {
        let method =
            |text: &str| text.parse().map_err(|problem: String| invalid(format!("method is '{text}', {problem}")));
        let method: Option<Method> = self.method.as_deref().map(method).transpose()?;
        let precision: Precision = choice("precision", &self.precision)?;
        let target = match self.theta {
            Some(theta) => Target::Theta(positive("theta", theta)?),
            None => Target::Epsilon(positive("epsilon", self.epsilon)?),
        };
        let used = method.map_or(precision, |method| method.precision(precision));
        let tie = match self.tie {
            Some(tie) if tie.is_nan() || tie < 0.0 => {
                return Err(invalid(format!("tie is {tie}, expected a number of at least 0")));
            }
            Some(tie) => tie,
            None => used.tie_for(target, gamma),
        };
        let default = Limits::default();
        let max_sweeps = self.max_sweeps.unwrap_or(default.max_sweeps);
        Ok(SolveOptions {
            method,
            device: self.device()?,
            precision,
            storage: self.storage.as_deref().map(|name| choice("storage", name)).transpose()?,
            skip: self.skip,
            device_memory: self.device_memory,
            reorder: choice("reorder", &self.reorder)?,
            limits: Limits { target, max_sweeps, max_policies: self.max_policies, tie },
            ..SolveOptions::default()
        })
    }

    fn device(&self) -> PyResult<DeviceChoice> {
        self.device.parse().map_err(|error| invalid(format!("device is '{}', {error}", self.device)))
    }

    /// The device, and the accuracy of a criterion without a discount.
    pub fn undiscounted(&self, relative: bool) -> PyResult<(DeviceChoice, criterion::Options)> {
        let default = criterion::Options::default();
        let max_sweeps = self.max_sweeps.map_or(default.max_sweeps, u64::from);
        let epsilon = positive("epsilon", self.epsilon)?;
        Ok((self.device()?, criterion::Options { epsilon, relative, max_sweeps }))
    }

    /// The options of the evaluation of a policy.
    pub fn evaluation(&self, criterion: &Question) -> PyResult<evaluate::Options> {
        let (device, mut accuracy) = self.undiscounted(criterion.relative)?;
        if criterion.criterion()?.is_none() && self.max_sweeps.is_none() {
            accuracy.max_sweeps = Limits::default().max_sweeps.into();
        }
        Ok(evaluate::Options { device, precision: choice("precision", &self.precision)?, accuracy })
    }
}

/// What to optimise.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Question {
    criterion: String,
    goal: Option<Vec<u32>>,
    horizon: Option<u32>,
    terminal_values: Option<Input<f64>>,
    all_steps: bool,
    relative: bool,
}

impl Question {
    pub fn relative(&self) -> bool {
        self.relative
    }

    /// The criterion; none for the discounted sum.
    pub fn criterion(&self) -> PyResult<Option<Criterion>> {
        let goal = || self.goal.clone();
        Ok(match (&self.criterion[..], self.goal.is_some(), self.horizon) {
            ("discounted", false, None) => None,
            ("discounted", false, Some(steps)) => Some(Criterion::Horizon(steps)),
            (_, _, Some(_)) => return Err(invalid("horizon is for the discounted criterion only")),
            ("discounted", true, _) => return Err(invalid("goal needs criterion 'reach' or 'total'")),
            ("reach", true, _) => Some(Criterion::Reach { goal: goal().unwrap_or_default() }),
            ("reach", false, _) => return Err(invalid("criterion 'reach' needs goal, the states to reach")),
            ("total", ..) => Some(Criterion::TotalReward { goal: goal() }),
            ("average", false, _) => Some(Criterion::Average),
            ("average", true, _) => return Err(invalid("goal needs criterion 'reach' or 'total'")),
            (other, ..) => {
                return Err(invalid(format!(
                    "criterion is '{other}', expected one of discounted, reach, total, average"
                )));
            }
        })
    }

    /// Whether the values and policies of all steps of a horizon are kept.
    pub fn all_steps(&self) -> bool {
        self.all_steps
    }

    /// The values at the horizon.
    pub fn terminal_values(&self) -> Option<Vec<f64>> {
        self.terminal_values.as_ref().map(Input::to_vec)
    }
}
