//! Options by name, with the names of Python's keyword arguments, and the ranges and messages of the command line.

use std::ffi::c_char;
use std::fmt::Display;
use std::str::FromStr;

use warpkov_cli::error::Error;
use warpkov_common::choice::Choice;
use warpkov_common::parameters::Interval;
use warpkov_runtime::choose::DeviceChoice;

use crate::border::{Ending, Out, elements, entry, free, invalid, text, unique, wk_status};

/// Options of solves, by name.
#[derive(Default)]
pub struct wk_options {
    texts: Vec<(&'static str, String)>,
    arrays: Vec<(&'static str, Vec<f64>)>,
}

/// Options of a solve of an MDP.
pub const OF_MDP: [&str; 17] = [
    "criterion",
    "device",
    "device_memory",
    "epsilon",
    "goal",
    "horizon",
    "max_policies",
    "max_sweeps",
    "method",
    "minimize",
    "precision",
    "relative",
    "reorder",
    "skip",
    "storage",
    "theta",
    "tie",
];

/// Options of a solve of a POMDP.
pub const OF_POMDP: [&str; 17] = [
    "backups",
    "beliefs",
    "companion",
    "device",
    "exact",
    "expansion",
    "gap",
    "horizon",
    "iterations",
    "memory",
    "precision",
    "relative_gap",
    "seed",
    "target",
    "time",
    "trials",
    "vectors",
];

/// Options of a run of a POMDP to a goal.
pub const OF_REACH: [&str; 10] =
    ["criterion", "device", "gap", "goal", "iterations", "memory", "minimize", "relative_gap", "target", "time"];

/// Options of a constrained solve of a POMDP.
pub const OF_CONSTRAINED: [&str; 10] =
    ["at_least", "at_most", "device", "exact", "gap", "horizon", "memory", "relative_gap", "seed", "time"];

/// Options of the recursions of a hidden Markov model.
pub const OF_RECURSIONS: [&str; 2] = ["device", "precision"];

/// Options of training, among them those of the recursions.
pub const OF_TRAINING: [&str; 8] =
    ["constraint", "device", "floor", "freeze", "iterations", "precision", "pseudocount", "tolerance"];

/// Options whose values are arrays of numbers.
const ARRAYS: [&str; 2] = ["values", "terminal_values"];

/// The option of this name among those of some classes. A hyphen is as good as an underscore.
fn known(name: &str, classes: &[&[&'static str]]) -> Result<&'static str, Error> {
    let plain = name.replace('-', "_");
    let mut all = classes.iter().copied().flatten().copied();
    all.find(|known| *known == plain).ok_or_else(|| {
        let mut names: Vec<_> = classes.iter().copied().flatten().copied().collect();
        names.sort_unstable();
        names.dedup();
        invalid(format!("there is no option '{name}', expected one of {}", names.join(", ")))
    })
}

/// Replaces the value of a name; none removes it.
fn replace<T>(list: &mut Vec<(&'static str, T)>, name: &'static str, value: Option<T>) {
    list.retain(|(known, _)| *known != name);
    list.extend(value.map(|value| (name, value)));
}

impl wk_options {
    /// Checks that a class has all options that are set; `names` and `arrays` are those it has.
    pub fn check(&self, class: &str, names: &[&'static str], arrays: &[&'static str]) -> Result<(), Error> {
        let texts = self.texts.iter().map(|(name, _)| (name, names));
        let mut all = texts.chain(self.arrays.iter().map(|(name, _)| (name, arrays)));
        match all.find(|(name, known)| !known.contains(name)) {
            Some((name, _)) => Err(invalid(format!("{class} has no option '{name}'"))),
            None => Ok(()),
        }
    }

    /// The text of an option, if it is set.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.texts.iter().find(|(known, _)| *known == name).map(|(_, text)| &text[..])
    }

    /// The numbers of an option, if it is set.
    pub fn array(&self, name: &str) -> Option<&[f64]> {
        self.arrays.iter().find(|(known, _)| *known == name).map(|(_, numbers)| &numbers[..])
    }

    /// The value of an option, if it is set. `read` says what was expected.
    fn read<T, E: Display>(&self, name: &str, read: impl FnOnce(&str) -> Result<T, E>) -> Result<Option<T>, Error> {
        let value =
            self.text(name).map(|text| read(text).map_err(|problem| invalid(format!("{name} is '{text}', {problem}"))));
        value.transpose()
    }

    /// A value that a type reads.
    pub fn parsed<T: FromStr<Err: Display>>(&self, name: &str) -> Result<Option<T>, Error> {
        self.read(name, str::parse)
    }

    /// A value by name.
    pub fn choice<T: Choice>(&self, name: &str) -> Result<Option<T>, Error> {
        self.read(name, |text| T::of_name(text).ok_or_else(T::expected))
    }

    /// A number in an interval.
    pub fn number(&self, name: &str, interval: &Interval) -> Result<Option<f64>, Error> {
        self.read(name, |text| interval.read(text))
    }

    /// A whole number of at least `least`.
    pub fn count<T: FromStr + PartialOrd + Display>(&self, name: &str, least: T) -> Result<Option<T>, Error> {
        let expected = || format!("expected a whole number of at least {least} in the range of its type");
        self.read(name, |text| text.parse().ok().filter(|count| *count >= least).ok_or_else(expected))
    }

    /// Whether something holds; `otherwise` if the option is not set.
    pub fn holds(&self, name: &str, otherwise: bool) -> Result<bool, Error> {
        Ok(self.decided(name)?.unwrap_or(otherwise))
    }

    /// Whether something holds, if the option is set.
    pub fn decided(&self, name: &str) -> Result<Option<bool>, Error> {
        self.read(name, |text| match text {
            "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            _ => Err("expected true or false"),
        })
    }

    /// The device.
    pub fn device(&self) -> Result<DeviceChoice, Error> {
        Ok(self.parsed("device")?.unwrap_or(DeviceChoice::Auto))
    }
}

/// Makes options without any set. One of these is not for several threads while it is changed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_options_new(options: *mut *mut wk_options) -> wk_status {
    entry(|| {
        // SAFETY: the caller guarantees what the header says.
        unsafe { Out::new(options, "options") }?.put(wk_options::default());
        Ok(Ending::Complete)
    })
}

/// Sets an option, such as "epsilon" to "1e-9", in place of an earlier value. NULL as the value removes it. The texts are copied.
/// The solver reads the value: an invalid one is its error.
///
/// \return WK_INVALID if no solver has an option of this name
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_options_set(
    options: *mut wk_options,
    name: *const c_char,
    value: *const c_char,
) -> wk_status {
    entry(|| {
        // SAFETY: the caller guarantees what the header says.
        let (options, name) = unsafe { (unique(options, "options")?, text(name, "name")?) };
        let name = known(name, &[&OF_MDP, &OF_POMDP, &OF_REACH, &OF_CONSTRAINED, &OF_TRAINING])?;
        let value = match value.is_null() {
            true => None,
            // SAFETY: as above.
            false => Some(unsafe { text(value, "value") }?.to_owned()),
        };
        replace(&mut options.texts, name, value);
        Ok(Ending::Complete)
    })
}

/// Sets an option of one number per state: "values", at which a discounted solve starts, or "terminal_values", those after the
/// steps of a horizon. NULL removes it. The numbers are copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_options_set_array(
    options: *mut wk_options,
    name: *const c_char,
    numbers: *const f64,
    count: usize,
) -> wk_status {
    entry(|| {
        // SAFETY: the caller guarantees what the header says.
        let (options, name) = unsafe { (unique(options, "options")?, text(name, "name")?) };
        let name = known(name, &[&ARRAYS])?;
        let numbers = match numbers.is_null() {
            true => None,
            // SAFETY: as above.
            false => Some(unsafe { elements(numbers, count, name) }?.to_vec()),
        };
        if let Some(wrong) = numbers.iter().flatten().find(|number| !number.is_finite()) {
            return Err(invalid(format!("{name} has {wrong}, expected finite numbers")));
        }
        replace(&mut options.arrays, name, numbers);
        Ok(Ending::Complete)
    })
}

/// Frees options; NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_options_free(options: *mut wk_options) {
    // SAFETY: the caller guarantees what the header says.
    unsafe { free(options) };
}
