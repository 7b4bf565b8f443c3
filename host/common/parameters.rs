//! Parameters of models: their ranges, and families of models that declare each parameter once, for the library, the command
//! line and Python.

use std::ops::RangeInclusive;

use super::choice::Choice;

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

/// Checks γ of a model whose process never terminates: [0, 1).
pub fn discount(gamma: f64) -> Result<(), Error> {
    BELOW_ONE.require("gamma", &gamma)
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

/// A set of finite numbers.
#[derive(Clone, Copy, Debug)]
pub struct Interval {
    /// What the set holds, as in "expected …".
    pub text: &'static str,
    /// Whether the set holds a finite number.
    pub holds: fn(f64) -> bool,
}

/// All finite numbers: of rewards and costs.
pub const FINITE: Interval = Interval { text: "a finite number", holds: |_| true };
/// [0, 1]: of probabilities and other fractions.
pub const FRACTION: Interval = Interval { text: "a number in [0, 1]", holds: |x| (0.0..=1.0).contains(&x) };
/// [0, 1): of discount factors.
pub const BELOW_ONE: Interval = Interval { text: "a number in [0, 1)", holds: |x| (0.0..1.0).contains(&x) };
/// (0, ∞).
pub const POSITIVE: Interval = Interval { text: "a finite number above 0", holds: |x| x > 0.0 };
/// [0, ∞).
pub const NON_NEGATIVE: Interval = Interval { text: "a finite number, 0 or above", holds: |x| x >= 0.0 };

impl Interval {
    /// Reads a number of the set. An error says what was expected.
    pub fn read(&self, text: &str) -> Result<f64, String> {
        let number = text.parse().ok().filter(|&x: &f64| x.is_finite() && (self.holds)(x));
        number.ok_or_else(|| format!("expected {}", self.text))
    }
}

/// The values that a parameter may have.
pub trait Range<V> {
    /// Checks a value of the parameter `name`.
    ///
    /// # Errors
    /// The value is out of range; the error names the parameter and the range.
    fn require(&self, name: &'static str, value: &V) -> Result<(), Error>;
}

impl Range<f64> for Interval {
    fn require(&self, name: &'static str, value: &f64) -> Result<(), Error> {
        number(name, *value, value.is_finite() && (self.holds)(*value), self.text)
    }
}

impl Range<u32> for RangeInclusive<u32> {
    fn require(&self, name: &'static str, value: &u32) -> Result<(), Error> {
        count(name, *value, *self.start(), *self.end())
    }
}

impl Range<u64> for RangeInclusive<u64> {
    fn require(&self, name: &'static str, value: &u64) -> Result<(), Error> {
        count(name, *value, *self.start(), *self.end())
    }
}

impl<V, R: Range<V>> Range<Option<V>> for R {
    fn require(&self, name: &'static str, value: &Option<V>) -> Result<(), Error> {
        value.as_ref().map_or(Ok(()), |value| self.require(name, value))
    }
}

impl<V, R: Range<V>> Range<Vec<V>> for R {
    fn require(&self, name: &'static str, values: &Vec<V>) -> Result<(), Error> {
        values.iter().try_for_each(|value| self.require(name, value))
    }
}

impl<V, R: Range<V>, const N: usize> Range<[V; N]> for R {
    fn require(&self, name: &'static str, values: &[V; N]) -> Result<(), Error> {
        values.iter().try_for_each(|value| self.require(name, value))
    }
}

/// A type of parameters.
pub trait Value: Sized {
    /// Reads a value. An error says what was expected.
    fn read(text: &str) -> Result<Self, String>;

    /// The text of the value; `None` for an optional one that is absent.
    fn text(&self) -> Option<String>;

    /// The names of the values and their descriptions, if only named values exist.
    #[must_use]
    fn names() -> Vec<[&'static str; 2]> {
        Vec::new()
    }
}

/// Implements [`Value`] for a type whose text is that of Rust.
macro_rules! plain {
    ($($type:ty: $expected:literal),+) => {
        $(impl Value for $type {
            fn read(text: &str) -> Result<Self, String> {
                text.trim().parse().map_err(|_| concat!("expected ", $expected).to_owned())
            }

            fn text(&self) -> Option<String> {
                Some(self.to_string())
            }
        })+
    };
}

plain!(u32: "a whole number from 0 to 4294967295", u64: "a whole number, 0 or above", f64: "a number", bool: "true or false");

impl<C: Choice> Value for C {
    fn read(text: &str) -> Result<Self, String> {
        C::of_name(text).ok_or_else(C::expected)
    }

    fn text(&self) -> Option<String> {
        Some(self.name().to_owned())
    }

    fn names() -> Vec<[&'static str; 2]> {
        C::ALL.iter().map(|choice| [choice.name(), choice.about()]).collect()
    }
}

impl<V: Value> Value for Option<V> {
    fn read(text: &str) -> Result<Self, String> {
        V::read(text).map(Some)
    }

    fn text(&self) -> Option<String> {
        self.as_ref().and_then(V::text)
    }

    fn names() -> Vec<[&'static str; 2]> {
        V::names()
    }
}

/// Values with commas between them.
impl<V: Value> Value for Vec<V> {
    fn read(text: &str) -> Result<Self, String> {
        text.split(',').map(V::read).collect()
    }

    fn text(&self) -> Option<String> {
        let texts: Vec<_> = self.iter().filter_map(V::text).collect();
        Some(texts.join(","))
    }
}

impl<V: Value + Copy, const N: usize> Value for [V; N] {
    fn read(text: &str) -> Result<Self, String> {
        let values: Vec<V> = Vec::read(text)?;
        values.try_into().map_err(|_| format!("expected {N} values with commas between them"))
    }

    fn text(&self) -> Option<String> {
        self.to_vec().text()
    }
}

/// A column and a row.
impl Value for (u32, u32) {
    fn read(text: &str) -> Result<Self, String> {
        match <[u32; 2]>::read(text) {
            Ok([column, row]) => Ok((column, row)),
            Err(_) => Err("expected a column and a row, as in 2,0".to_owned()),
        }
    }

    fn text(&self) -> Option<String> {
        [self.0, self.1].text()
    }
}

/// A parameter, as options of a command line describe it.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// The name of the field.
    pub name: &'static str,
    /// Its documentation.
    pub about: &'static str,
    /// What the value is, in a word; "flag" if the option has no value; empty if the field is no option.
    pub unit: &'static str,
}

/// The parameters of a family of models, declared by [`parameters!`](crate::parameters!).
pub trait Parameters: Clone + Default + Send + Sync + 'static {
    /// All parameters, in the order of the declaration.
    const ALL: &'static [Parameter];

    /// Checks the range of each parameter.
    ///
    /// # Errors
    /// The first parameter that is out of its range.
    fn check(&self) -> Result<(), Error>;

    /// Sets a parameter. An error says what was expected.
    fn set(&mut self, name: &str, text: &str) -> Result<(), String>;

    /// The text of a parameter; `None` if it is absent.
    fn text(&self, name: &str) -> Option<String>;

    /// The names of the values of a parameter and their descriptions, if only named values exist.
    #[must_use]
    fn names(name: &str) -> Vec<[&'static str; 2]>;
}

/// Declares the parameters of a family: a struct with its defaults, and [`Parameters`](crate::parameters::Parameters) for it.
/// A field has a type, a default, a word for its value, and a range: `pub slip: f64 = 0.1, "P" in FRACTION;`. The word of a
/// `bool` is "flag". A field without a word is no option of the command line.
#[macro_export]
macro_rules! parameters {
    (
        $(#[$attribute:meta])*
        pub struct $family:ident {
            $(
                $(#[doc = $about:literal])+
                pub $field:ident: $type:ty = $default:expr $(, $unit:literal $(in $range:expr)?)?;
            )+
        }
    ) => {
        $(#[$attribute])*
        pub struct $family {
            $(
                $(#[doc = $about])+
                #[doc = ""]
                #[doc = concat!("Default: `", stringify!($default), "`.")]
                pub $field: $type,
            )+
        }

        impl Default for $family {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }

        impl $crate::parameters::Parameters for $family {
            const ALL: &'static [$crate::parameters::Parameter] = &[$($crate::parameters::Parameter {
                name: stringify!($field),
                about: concat!($($about),+),
                unit: concat!($($unit)?),
            },)+];

            fn check(&self) -> Result<(), $crate::parameters::Error> {
                $($($($crate::parameters::Range::require(&($range), stringify!($field), &self.$field)?;)?)?)+
                Ok(())
            }

            fn set(&mut self, name: &str, text: &str) -> Result<(), String> {
                match name {
                    $($(stringify!($field) => {
                        let _ = $unit;
                        self.$field = $crate::parameters::Value::read(text)?;
                        $($crate::parameters::ranged(&($range), &self.$field)?;)?
                    })?)+
                    _ => return Err(format!("there is no parameter {name}")),
                }
                Ok(())
            }

            fn text(&self, name: &str) -> Option<String> {
                match name {
                    $($(stringify!($field) => {
                        let _ = $unit;
                        $crate::parameters::Value::text(&self.$field)
                    })?)+
                    _ => None,
                }
            }

            fn names(name: &str) -> Vec<[&'static str; 2]> {
                match name {
                    $($(stringify!($field) => {
                        let _ = $unit;
                        <$type as $crate::parameters::Value>::names()
                    })?)+
                    _ => Vec::new(),
                }
            }
        }
    };
}
pub use parameters;

/// Checks a value that was read: an error says what was expected.
pub fn ranged<V>(range: &impl Range<V>, value: &V) -> Result<(), String> {
    range.require("", value).map_err(|error| match error {
        Error::Number { expected, .. } => format!("expected {expected}"),
        Error::Count { least, most, .. } => format!("expected {least} to {most}"),
        other => other.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    parameters! {
        /// A family.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Example {
            /// N, a count.
            pub count: u32 = 3, "N" in 2..=9;
            /// p, a probability.
            pub chance: Option<f64> = None, "P" in FRACTION;
            /// Weights.
            pub weights: Vec<f64> = vec![0.5, 1.5], "W,W,…" in NON_NEGATIVE;
            /// Whether something holds.
            pub holds: bool = false, "flag";
            /// A corner.
            pub corner: (u32, u32) = (1, 2), "X,Y";
            /// No option.
            pub other: Vec<String> = Vec::new();
        }
    }

    #[test]
    fn parameters_are_read_and_checked() {
        let mut example = Example::default();
        for (name, text) in
            [("count", "9"), ("chance", "0.25"), ("weights", "0,1e3"), ("holds", "true"), ("corner", "4,5")]
        {
            example.set(name, text).unwrap();
            assert_eq!(example.text(name).unwrap(), text.replace("1e3", "1000"));
        }
        let expected = Example {
            count: 9,
            chance: Some(0.25),
            weights: vec![0.0, 1000.0],
            holds: true,
            corner: (4, 5),
            other: vec![],
        };
        assert_eq!(example, expected);
        assert_eq!(Example::default().text("chance"), None);
        assert_eq!(
            Example::ALL.iter().map(|parameter| parameter.unit).collect::<Vec<_>>(),
            ["N", "P", "W,W,…", "flag", "X,Y", ""]
        );
    }

    #[test]
    fn parameters_say_what_was_expected() {
        let wrong = |name: &str, text: &str| Example::default().set(name, text).unwrap_err();
        assert_eq!(wrong("count", "1"), "expected 2 to 9");
        assert_eq!(wrong("count", "-1"), "expected a whole number from 0 to 4294967295");
        assert_eq!(wrong("chance", "1.5"), "expected a number in [0, 1]");
        assert_eq!(wrong("chance", "nan"), "expected a number in [0, 1]");
        assert_eq!(wrong("weights", "1,-1"), "expected a finite number, 0 or above");
        assert_eq!(wrong("weights", "1,inf"), "expected a finite number, 0 or above");
        assert_eq!(wrong("corner", "1"), "expected a column and a row, as in 2,0");
        assert_eq!(wrong("other", "x"), "there is no parameter other");
        let error = Example { chance: Some(2.0), ..Example::default() }.check().unwrap_err();
        assert_eq!(error.to_string(), "chance is 2, expected a number in [0, 1]");
        let error = Example { count: 10, ..Example::default() }.check().unwrap_err();
        assert_eq!(error.to_string(), "count is 10, expected 2 to 9");
    }

    #[test]
    fn ranges_end_where_they_say() {
        assert!(POSITIVE.read("1e-300").is_ok() && POSITIVE.read("0").is_err() && POSITIVE.read("inf").is_err());
        assert!(
            NON_NEGATIVE.read("0").is_ok() && NON_NEGATIVE.read("-1").is_err() && NON_NEGATIVE.read("nan").is_err()
        );
        assert!(FRACTION.read("1").is_ok() && FRACTION.read("1.0001").is_err() && FRACTION.read("x").is_err());
        assert!(BELOW_ONE.read("0").is_ok() && BELOW_ONE.read("1").is_err() && BELOW_ONE.read("").is_err());
        assert!(FINITE.read("-3").is_ok() && FINITE.read("-inf").is_err());
    }
}
