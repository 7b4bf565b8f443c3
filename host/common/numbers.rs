//! The maximum norm, and numbers in JSON reports. JSON has no infinity: infinite numbers become the strings `"inf"` and
//! `"-inf"`.

use serde::{Serialize, Serializer};

/// ‖x‖∞, the largest magnitude; 0 for no numbers. NaN is ignored.
#[must_use]
pub fn max_norm(numbers: &[f64]) -> f64 {
    numbers.iter().fold(0.0, |largest: f64, number| largest.max(number.abs()))
}

/// A number, which may be infinite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Number(pub f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_finite() { serializer.serialize_f64(self.0) } else { serializer.collect_str(&self.0) }
    }
}

/// An array of such numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Numbers<'a>(pub &'a [f64]);

impl Serialize for Numbers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().copied().map(Number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn infinite_numbers_are_strings() {
        let numbers = [0.1, 1.0, f64::INFINITY, f64::NEG_INFINITY];
        assert_eq!(serde_json::to_string(&Numbers(&numbers)).unwrap(), r#"[0.1,1.0,"inf","-inf"]"#);
    }
}
