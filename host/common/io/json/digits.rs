//! A fast scanner of JSON numbers, eight digits at a time.
//!
//! The scanner returns `None` for invalid numbers and for rare ones, such as integers of twenty digits. The caller then
//! uses serde_json, which handles every number and reports errors.

/// The element type of an array of numbers.
pub trait Scan: Copy + Send {
    /// The number at the start of `text`, and its length in bytes. `None` for an invalid or rare number.
    fn scan(text: &[u8]) -> Option<(Self, usize)>;
}

impl Scan for u64 {
    #[inline]
    fn scan(text: &[u8]) -> Option<(Self, usize)> {
        integer(text).filter(|(_, digits)| *digits <= MOST_DIGITS)
    }
}

impl Scan for u32 {
    #[inline]
    fn scan(text: &[u8]) -> Option<(Self, usize)> {
        let (number, length) = u64::scan(text)?;
        Some((number.try_into().ok()?, length))
    }
}

impl Scan for f64 {
    /// The result is correctly rounded. A significand below 2⁵³ and a power of ten below 10²³ are exact, so one
    /// operation rounds once (Clinger, *How to Read Floating Point Numbers Accurately*, 1990). The standard library
    /// parses all other numbers.
    #[inline]
    fn scan(text: &[u8]) -> Option<(Self, usize)> {
        let sign = usize::from(text.first() == Some(&b'-'));
        let (whole, mut length) = integer(&text[sign..])?;
        length += sign;
        let (mut significand, mut digits, mut exponent) = (whole, length - sign, 0);
        if text.get(length) == Some(&b'.') {
            let fraction;
            (significand, fraction) = decimals(significand, &text[length + 1..]);
            if fraction == 0 {
                return None;
            }
            digits += fraction;
            exponent = -i32::try_from(fraction).ok()?;
            length += 1 + fraction;
        }
        if let Some(b'e' | b'E') = text.get(length) {
            let signed = usize::from(matches!(text.get(length + 1), Some(b'+' | b'-')));
            let (power, places) = decimals(0, &text[length + 1 + signed..]);
            if places == 0 || places > 4 {
                return None;
            }
            let power = power as i32;
            exponent += if text[length + 1] == b'-' { -power } else { power };
            length += 1 + signed + places;
        }
        let number = match POWERS_OF_TEN.get(exponent.unsigned_abs() as usize) {
            Some(power) if digits <= MOST_DIGITS && significand < 1 << f64::MANTISSA_DIGITS => {
                let magnitude = if exponent < 0 { significand as f64 / power } else { significand as f64 * power };
                if sign == 1 { -magnitude } else { magnitude }
            }
            _ => str::from_utf8(&text[..length]).ok()?.parse().ok().filter(|number: &f64| number.is_finite())?,
        };
        Some((number, length))
    }
}

/// The powers of ten that `f64` represents exactly.
const POWERS_OF_TEN: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

/// Number of decimal digits that always fit into a `u64`.
const MOST_DIGITS: usize = 19;

/// An integer without sign and leading zeros, modulo 2⁶⁴, and its number of digits.
#[inline]
fn integer(text: &[u8]) -> Option<(u64, usize)> {
    // The most frequent case: one digit before a point or a comma.
    if let [digit @ b'0'..=b'9', b'+'..=b'.', ..] = text {
        return Some((u64::from(digit - b'0'), 1));
    }
    let (number, digits) = decimals(0, text);
    (digits == 1 || digits > 1 && text[0] != b'0').then_some((number, digits))
}

/// Appends the decimal digits at the start of `text` to `number`, modulo 2⁶⁴. Also returns their count.
#[inline]
fn decimals(mut number: u64, text: &[u8]) -> (u64, usize) {
    let mut length = 0;
    while let Some(eight) = text[length..].first_chunk() {
        let (value, count) = eight_decimals(*eight);
        number = number.wrapping_mul(INTEGER_POWERS[count]).wrapping_add(value);
        length += count;
        if count < 8 {
            return (number, length);
        }
    }
    while let Some(digit @ b'0'..=b'9') = text.get(length) {
        number = number.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
        length += 1;
    }
    (number, length)
}

const INTEGER_POWERS: [u64; 9] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// The value and the count of the digits at the start of `text`. One 64-bit word holds all eight bytes, the first in
/// its lowest byte.
#[inline]
fn eight_decimals(text: [u8; 8]) -> (u64, usize) {
    // Digits become bytes 0 to 9. Other bytes have their high bit set, either already or by the addition of 0x76.
    let digits = u64::from_le_bytes(text) ^ 0x3030_3030_3030_3030;
    let others = (digits.wrapping_add(0x7676_7676_7676_7676) | digits) & 0x8080_8080_8080_8080;
    let count = others.trailing_zeros() / 8;
    // The shift drops the bytes after the digits and prepends zeros. The products join neighbours to 2, 4 and 8 digits.
    let digits = digits.unbounded_shl(64 - 8 * count);
    let twos = (digits.wrapping_mul(10).wrapping_add(digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (twos.wrapping_mul(100).wrapping_add(twos >> 16)) & 0x0000_ffff_0000_ffff;
    let eight = (fours.wrapping_mul(10_000).wrapping_add(fours >> 32)) & 0xffff_ffff;
    (eight, count as usize)
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn only_numbers_of_json_are_scanned() {
        for text in ["0", "7", "4294967295", "18446744073", "1234567890123456789"] {
            assert_eq!(u64::scan(text.as_bytes()), Some((text.parse().unwrap(), text.len())));
        }
        for text in ["", "-1", "01", "00", "+1", "x", " 1", "12345678901234567890"] {
            assert_eq!(u64::scan(text.as_bytes()), None, "{text}");
        }
        assert_eq!(u32::scan(b"4294967296"), None);
        for text in ["", "-", ".5", "1.", "1.e3", "1e", "1e+", "+1", "01", "-01.5", "NaN", "inf", "1e999", "-1e400"] {
            assert_eq!(f64::scan(text.as_bytes()), None, "{text}");
        }
        assert_eq!(f64::scan(b"0x10"), Some((0.0, 1)), "the caller checks the delimiter");
    }

    /// Compares with the standard library, which rounds correctly.
    #[test]
    fn numbers_are_exact() {
        let check = |text: &str| {
            let expected: f64 = text.parse().unwrap();
            for rest in ["", ",", ",0.25,1e5,7", "]"] {
                let (found, length) = f64::scan(format!("{text}{rest}").as_bytes()).unwrap();
                assert_eq!((found.to_bits(), length), (expected.to_bits(), text.len()), "{text}");
            }
        };
        for text in [
            "0",
            "-0",
            "0.0",
            "-0.0e5",
            "1",
            "-1.5E0",
            "0.1",
            "1e22",
            "1e23",
            "9007199254740993",
            "1.7976931348623157e308",
            "5e-324",
            "2.2250738585072011e-308",
            "8.5e-1",
            "123456789012345678",
            "0.30000000000000004",
            "7.2057594037927933e16",
            "0.000000000000000000000000000001",
            "1e0001",
            "12345678.87654321",
            "1e-400",
            "179769313486231580793728971405301e276",
            "0.1000000000000000055511151231257827021181583404541015625",
        ] {
            check(text);
        }
        let mut random = ChaCha8Rng::seed_from_u64(1);
        for _ in 0..20_000 {
            let number = f64::from_bits(random.next_u64());
            if number.is_finite() {
                check(&format!("{number:e}"));
            }
            let draw = random.next_u32();
            check(&format!("{}", f64::from(draw) / f64::from(1 + random.next_u32() % 1000)));
            check(&format!("{}", draw >> (draw % 32)));
        }
    }
}
