//! Checks of what models are made from.

/// How far what should sum to 1 may be from it: as in files of five digits.
pub const SUM_TOLERANCE: f64 = 1e-5;

/// Parameters that no model has.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// A number out of its range.
    #[error("{name} is {found}, expected {expected}")]
    Number {
        /// The field.
        name: &'static str,
        /// Its value.
        found: f64,
        /// Its range.
        expected: &'static str,
    },
    /// A count out of its range.
    #[error("{name} is {found}, expected {least} to {most}")]
    Count {
        /// The field.
        name: &'static str,
        /// Its value.
        found: u64,
        /// The least that it may be.
        least: u64,
        /// The most that it may be.
        most: u64,
    },
    /// Not 1 to 2³² − 1 cells.
    #[error("a grid of {width} × {height} cells: expected 1 to {} cells", u32::MAX)]
    Size {
        /// Cells in a row.
        width: u32,
        /// Cells in a column.
        height: u32,
    },
    /// More states than can be numbered.
    #[error("the model has more than {} states, which is all that can be numbered", u32::MAX)]
    States,
    /// More than the memory holds.
    #[error("the model does not fit in memory: an array of {elements} elements cannot be allocated")]
    Memory {
        /// Elements of the array.
        elements: u64,
    },
}

/// A number that must be within a range.
pub(crate) fn number(name: &'static str, found: f64, valid: bool, expected: &'static str) -> Result<(), Error> {
    if valid { Ok(()) } else { Err(Error::Number { name, found, expected }) }
}

/// A probability or another part of a whole.
pub(crate) fn fraction(name: &'static str, x: f64) -> Result<(), Error> {
    number(name, x, (0.0..=1.0).contains(&x), "a number in [0, 1]")
}

/// γ of a model in which the process may go on for ever.
pub(crate) fn discount(gamma: f64) -> Result<(), Error> {
    number("gamma", gamma, (0.0..1.0).contains(&gamma), "a number in [0, 1)")
}

/// A reward, or a cost that may be none.
pub(crate) fn finite(name: &'static str, x: f64) -> Result<(), Error> {
    number(name, x, x.is_finite(), "a finite number")
}

/// A count.
pub(crate) fn count(name: &'static str, found: u32, least: u32, most: u32) -> Result<(), Error> {
    let error = || Error::Count { name, found: found.into(), least: least.into(), most: most.into() };
    if (least..=most).contains(&found) { Ok(()) } else { Err(error()) }
}

/// The cells of a grid, if they can be numbered.
pub(crate) fn cells(width: u32, height: u32) -> Result<u32, Error> {
    width.checked_mul(height).filter(|&cells| cells > 0).ok_or(Error::Size { width, height })
}
