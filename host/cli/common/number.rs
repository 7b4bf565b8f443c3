//! Numbers as arguments, with their ranges.

use warpkov_common::parameters::{BELOW_ONE, FINITE, FRACTION, NON_NEGATIVE, POSITIVE};

/// A positive, finite number.
pub fn positive(text: &str) -> Result<f64, String> {
    POSITIVE.read(text)
}

/// A nonnegative, finite number.
pub fn non_negative(text: &str) -> Result<f64, String> {
    NON_NEGATIVE.read(text)
}

/// Any finite number.
pub fn finite(text: &str) -> Result<f64, String> {
    FINITE.read(text)
}

/// A probability: in [0, 1].
pub fn probability(text: &str) -> Result<f64, String> {
    FRACTION.read(text)
}

/// A number in [0, 1): a fraction or a discount factor.
pub fn below_one(text: &str) -> Result<f64, String> {
    BELOW_ONE.read(text)
}

/// A number of bytes, with or without a binary unit: 8589934592, 8GiB, 0.5GiB.
pub fn bytes(text: &str) -> Result<u64, String> {
    let at = text.find(|c: char| c.is_ascii_alphabetic() && c != 'e').unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let factor = ["B", "KiB", "MiB", "GiB", "TiB"].iter().position(|&known| known == unit);
    let factor = if unit.is_empty() { Some(0) } else { factor };
    let bytes = number.parse::<f64>().ok().zip(factor).map(|(number, power)| number * 1024f64.powi(power as i32));
    let bytes = bytes.filter(|bytes| (1.0..u64::MAX as f64).contains(bytes));
    bytes
        .map(|bytes| bytes as u64)
        .ok_or_else(|| "expected a number of bytes, or one of KiB, MiB, GiB or TiB".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_end_where_they_say() {
        assert_eq!((bytes("4096"), bytes("0.5KiB"), bytes("3GiB")), (Ok(4096), Ok(512), Ok(3 << 30)));
        assert!(["", "0", "-1", "nan", "4GB", "GiB", "1e30", "5 GiB"].iter().all(|text| bytes(text).is_err()));
    }
}
