//! Comparisons of a device's results with the expected ones, and cases in processes of their own.

use std::env;
use std::fmt::Debug;
use std::process::Command;

use warpkov::runtime::Precise;

use crate::Outcome;

/// The variable of a process that runs one case alone.
const ALONE: &str = "WARPKOV_TEST_ALONE";

/// Whether this process runs one case [alone].
pub fn is_alone() -> bool {
    env::var_os(ALONE).is_some()
}

/// Runs the case `name` in a process of its own, with these variables.
pub fn alone(name: &str, variables: &[(&str, &str)]) -> Outcome {
    let mut child = Command::new(env::current_exe()?);
    let run = child.args(["--exact", name, "--nocapture"]).env(ALONE, "1").envs(variables.iter().copied()).output()?;
    let said = String::from_utf8_lossy(&run.stdout);
    match run.status.success() && said.contains("1 passed") {
        true => Ok(()),
        false => Err(format!("{variables:?}: {said}{}", String::from_utf8_lossy(&run.stderr)).into()),
    }
}

/// Checks that all elements are equal.
pub fn same<T: PartialEq + Debug>(what: &str, got: &[T], expected: &[T]) -> Outcome {
    if got.len() != expected.len() {
        return Err(format!("{what}: {} elements, expected {}", got.len(), expected.len()).into());
    }
    match got.iter().zip(expected).position(|(got, expected)| got != expected) {
        Some(i) => Err(format!("{what}[{i}] = {:?}, expected {:?}", got[i], expected[i]).into()),
        None => Ok(()),
    }
}

/// Checks |got − expected| ≤ `absolute` + `relative` · |expected| for every element. NaN fails.
pub fn close<T: Precise>(what: &str, got: &[T], expected: &[f64], absolute: f64, relative: f64) -> Outcome {
    if got.len() != expected.len() {
        return Err(format!("{what}: {} elements, expected {}", got.len(), expected.len()).into());
    }
    for (i, (got, &expected)) in got.iter().zip(expected).enumerate() {
        let error = (got.to_f64() - expected).abs();
        if error.is_nan() || error > absolute + relative * expected.abs() {
            return Err(format!("{what}[{i}] = {got}, expected {expected}", got = got.to_f64()).into());
        }
    }
    Ok(())
}

/// The relative rounding error of one operation in precision T.
pub fn epsilon<T: Precise>() -> f64 {
    if T::WIDE { f64::EPSILON } else { f64::from(f32::EPSILON) }
}

/// Converts numbers to precision T.
pub fn of<T: Precise>(numbers: &[f64]) -> Vec<T> {
    numbers.iter().map(|&x| T::from_f64(x)).collect()
}
