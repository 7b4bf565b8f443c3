//! Numbers as arguments, with their ranges.

/// A positive, finite number.
pub fn positive(text: &str) -> Result<f64, String> {
    within(text, "a number above 0", |x| x > 0.0)
}

/// A nonnegative, finite number.
pub fn non_negative(text: &str) -> Result<f64, String> {
    within(text, "a number, 0 or above", |x| x >= 0.0)
}

/// Any finite number.
pub fn finite(text: &str) -> Result<f64, String> {
    within(text, "a finite number", |_| true)
}

/// A probability: in [0, 1].
pub fn probability(text: &str) -> Result<f64, String> {
    within(text, "a number from 0 to 1", |x| (0.0..=1.0).contains(&x))
}

/// A number in [0, 1): a fraction or a discount factor.
pub fn below_one(text: &str) -> Result<f64, String> {
    within(text, "a number from 0 to below 1", |x| (0.0..1.0).contains(&x))
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

fn within(text: &str, expected: &str, range: impl Fn(f64) -> bool) -> Result<f64, String> {
    let number = text.parse().ok().filter(|x: &f64| x.is_finite() && range(*x));
    number.ok_or_else(|| format!("expected {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_end_where_they_say() {
        assert!(positive("1e-300").is_ok() && positive("0").is_err() && positive("inf").is_err());
        assert!(non_negative("0").is_ok() && non_negative("-1").is_err() && non_negative("nan").is_err());
        assert!(probability("1").is_ok() && probability("1.0001").is_err() && probability("x").is_err());
        assert!(below_one("0").is_ok() && below_one("1").is_err() && below_one("").is_err());
        assert_eq!((bytes("4096"), bytes("0.5KiB"), bytes("3GiB")), (Ok(4096), Ok(512), Ok(3 << 30)));
        assert!(["", "0", "-1", "nan", "4GB", "GiB", "1e30", "5 GiB"].iter().all(|text| bytes(text).is_err()));
        assert!(finite("-3").is_ok() && finite("-inf").is_err());
    }
}
