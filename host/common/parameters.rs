//! Range checks of model parameters.

/// Largest deviation from 1 of a sum of probabilities. Files with five digits need this much.
pub const SUM_TOLERANCE: f64 = 1e-5;

/// An invalid model parameter.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// A number is out of range.
    #[error("{name} is {found}, expected {expected}")]
    Number {
        /// Name of the parameter.
        name: &'static str,
        /// Value of the parameter.
        found: f64,
        /// Description of the range.
        expected: &'static str,
    },
    /// A count is out of range.
    #[error("{name} is {found}, expected {least} to {most}")]
    Count {
        /// Name of the parameter.
        name: &'static str,
        /// Value of the parameter.
        found: u64,
        /// Smallest valid value.
        least: u64,
        /// Largest valid value.
        most: u64,
    },
    /// The number of cells is not in 1 … 2³² − 1.
    #[error("a grid of {width} × {height} cells: expected 1 to {} cells", u32::MAX)]
    Size {
        /// Cells in a row.
        width: u32,
        /// Cells in a column.
        height: u32,
    },
    /// The states do not fit into 32-bit numbers.
    #[error("the model has more than {} states, the most that warpkov can number", u32::MAX)]
    States,
    /// An array does not fit in memory.
    #[error("the model does not fit in memory: an array of {elements} elements cannot be allocated")]
    Memory {
        /// Number of elements of the array.
        elements: u64,
    },
}

/// Checks a number: an error unless `valid`.
pub fn number(name: &'static str, found: f64, valid: bool, expected: &'static str) -> Result<(), Error> {
    if valid { Ok(()) } else { Err(Error::Number { name, found, expected }) }
}

/// Checks a probability or another fraction, in [0, 1].
pub fn fraction(name: &'static str, x: f64) -> Result<(), Error> {
    number(name, x, (0.0..=1.0).contains(&x), "a number in [0, 1]")
}

/// Checks γ of a model whose process never terminates: [0, 1).
pub fn discount(gamma: f64) -> Result<(), Error> {
    number("gamma", gamma, (0.0..1.0).contains(&gamma), "a number in [0, 1)")
}

/// Checks a reward or a cost: any finite number.
pub fn finite(name: &'static str, x: f64) -> Result<(), Error> {
    number(name, x, x.is_finite(), "a finite number")
}

/// Checks a count: `least..=most`.
pub fn count<N: Into<u64>>(name: &'static str, found: N, least: N, most: N) -> Result<(), Error> {
    let (found, least, most) = (found.into(), least.into(), most.into());
    if (least..=most).contains(&found) { Ok(()) } else { Err(Error::Count { name, found, least, most }) }
}

/// The number of cells of a grid, if it is in 1 … 2³² − 1.
pub fn cells(width: u32, height: u32) -> Result<u32, Error> {
    width.checked_mul(height).filter(|&cells| cells > 0).ok_or(Error::Size { width, height })
}
