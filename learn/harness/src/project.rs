//! Chapter 15: a kernel of one's own, with a reference, a plain version, a broken version, budgets and a report.

use std::marker::PhantomData;

use warpkov_device::emulator::Emulator;
use warpkov_device::emulator::profile::Profile;
use warpkov_device::launch::Device;

use crate::budget::Budget;
use crate::exercise::{Exercise, Work};
use crate::lab::{Failure, Lab};

/// The three kernels of a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// The kernel that the project is about.
    Fast,
    /// The simplest kernel with the same results.
    Plain,
    /// The kernel with a planted mistake, of which the checks should tell.
    Wrong,
}

/// What the student states and launches.
pub trait Project {
    /// The inputs of a run, on the host.
    type Input;

    /// The names of the entry points of [`Variant::Fast`], `Plain` and `Wrong`, such as `backup_f32`.
    const KERNELS: [&'static str; 3];

    /// The sizes at which the kernels are compared, among them awkward ones.
    fn sizes() -> Vec<usize>;

    /// The size at which the emulator counts.
    fn counted() -> usize;

    /// The size at which a GPU is timed.
    fn timed() -> usize;

    /// Inputs of this size, from [`Lab::floats`] and [`Lab::integers`].
    fn input<D: Device>(lab: &Lab<'_, D>, size: usize) -> Self::Input;

    /// The expected results, computed in f64 on the host in the most obvious way.
    fn reference(input: &Self::Input) -> Vec<f64>;

    /// The largest permitted |x − reference| / (1 + |reference|).
    fn tolerance() -> f64;

    /// Uploads the inputs, calls the kernel within [`Lab::launch`], and downloads the results.
    ///
    /// # Errors
    /// Those of the device.
    fn run<D: Device>(lab: &Lab<'_, D>, variant: Variant, input: &Self::Input) -> Result<Vec<f32>, Failure>;

    /// At least two limits on what the emulator counts, for the kernel with this entry point.
    fn budgets(kernel: &'static str) -> Vec<Budget>;

    /// The work that a launch of this size cannot avoid.
    fn work(size: usize) -> Work;

    /// The report, in Markdown: `include_str!("report.md")`.
    fn report() -> &'static str;
}

/// Sections of the report, and words that each needs.
pub const SECTIONS: [(&str, usize); 5] =
    [("Question", 25), ("Method", 40), ("Prediction", 25), ("Measurement", 25), ("Conclusion", 25)];

/// A limit is at most so many times what the kernel needs.
const LOOSE: f64 = 1.5;

/// Checks a [`Project`].
pub struct Check<S>(PhantomData<S>);

/// Runs a variant and compares it with the reference.
fn agree<S: Project, D: Device>(lab: &Lab<'_, D>, variant: Variant, size: usize) -> Result<(), Failure> {
    let input = S::input(lab, size);
    let found = S::run(lab, variant, &input)?;
    lab.close("result", &found, &S::reference(&input), S::tolerance())
}

/// What the emulator counts for a variant.
fn counts<S: Project>(variant: Variant) -> Result<Profile, Failure> {
    let emulator = Emulator::default().profiled();
    agree::<S, Emulator>(&Lab::new(&emulator), variant, S::counted())?;
    Ok(emulator.profile())
}

/// Limits that the plain kernel meets as well, or that are far above the counts, say nothing.
fn budgets_mean_something<S: Project>() -> Result<(), Failure> {
    let [fast, plain, _] = S::KERNELS;
    let budgets = S::budgets(fast);
    if budgets.len() < 2 {
        return Err(Failure::Wrong(format!("a project has at least two budgets; yours has {}", budgets.len())));
    }
    let profile = counts::<S>(Variant::Fast)?;
    for budget in &budgets {
        let Some(finding) = budget.measure(&profile) else {
            return Err(Failure::Wrong(format!("the kernel of this budget was not launched: {}", budget.what)));
        };
        if budget.limit > LOOSE * finding.found {
            let (what, limit, found) = (&budget.what, budget.limit, finding.found);
            return Err(Failure::Wrong(format!("the budget of {limit} {what} is loose: the kernel needs {found}")));
        }
    }
    let profile = counts::<S>(Variant::Plain)?;
    let exceeded = |budget: &Budget| budget.measure(&profile).is_some_and(|finding| finding.found > budget.limit);
    if S::budgets(plain).iter().any(exceeded) {
        return Ok(());
    }
    Err(Failure::Wrong("the plain kernel meets all budgets, so they do not tell the two kernels apart".into()))
}

/// The broken kernel fails at one size or another: by a wrong result or by a fault.
fn mistake_is_caught<S: Project>() -> Result<(), Failure> {
    let emulator = Emulator::default().profiled();
    let lab = Lab::new(&emulator);
    let sizes = S::sizes();
    for &size in &sizes {
        agree::<S, Emulator>(&lab, Variant::Fast, size)?;
    }
    let caught = sizes.iter().filter(|&&size| agree::<S, Emulator>(&lab, Variant::Wrong, size).is_err()).count();
    if !emulator.profile().kernels.contains_key(S::KERNELS[2]) {
        return Err(Failure::Wrong(format!("the broken kernel {} was not launched", S::KERNELS[2])));
    }
    if caught > 0 {
        return Ok(());
    }
    Err(Failure::Wrong(format!(
        "the broken kernel passes at all of {} sizes: which inputs show its mistake?",
        sizes.len()
    )))
}

/// Each section is there, in order, and long enough; the prediction and the measurement have numbers.
fn report_is_complete(report: &str) -> Result<(), Failure> {
    let mut rest = report;
    let mut found = Vec::new();
    for (name, _) in SECTIONS {
        let heading = format!("\n## {name}\n");
        let Some((before, after)) = rest.split_once(&heading) else {
            return Err(Failure::Wrong(format!("the report has no section `## {name}` in its place")));
        };
        found.push(before);
        rest = after;
    }
    found.push(rest);
    for ((name, words), text) in SECTIONS.iter().zip(&found[1..]) {
        let count = text.split_whitespace().count();
        if text.contains("TODO") {
            return Err(Failure::Wrong(format!("the section {name} of the report says TODO")));
        }
        if count < *words {
            return Err(Failure::Wrong(format!(
                "the section {name} of the report has {count} words of at least {words}"
            )));
        }
        let needs_number = ["Prediction", "Measurement"].contains(name);
        if needs_number && !text.contains(|character: char| character.is_ascii_digit()) {
            return Err(Failure::Wrong(format!("the section {name} of the report has no number")));
        }
    }
    Ok(())
}

impl<S: Project> Exercise for Check<S> {
    const PARTS: &'static [&'static str] =
        &["a kernel that agrees with its reference", "budgets that mean something", "a mistake is caught", "a report"];

    fn sizes(part: usize) -> Vec<usize> {
        if part == 0 { S::sizes() } else { vec![S::counted()] }
    }

    fn counted(_: usize) -> usize {
        S::counted()
    }

    fn timed(_: usize) -> usize {
        S::timed()
    }

    fn run<D: Device>(lab: &Lab<'_, D>, part: usize, size: usize) -> Result<(), Failure> {
        match part {
            0 => {
                agree::<S, D>(&Lab::several(lab.devices), Variant::Plain, size)?;
                agree::<S, D>(lab, Variant::Fast, size)
            }
            1 => {
                budgets_mean_something::<S>()?;
                agree::<S, D>(lab, Variant::Fast, size)
            }
            2 => mistake_is_caught::<S>(),
            _ => report_is_complete(S::report()),
        }
    }

    fn budgets(part: usize) -> Vec<Budget> {
        if part == 1 { S::budgets(S::KERNELS[0]) } else { Vec::new() }
    }

    fn work(_: usize, size: usize) -> Work {
        S::work(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_all_sections_with_words_and_numbers() {
        let section = |(name, words): (&str, usize)| format!("\n## {name}\n\n{}12\n", "word ".repeat(words));
        let report: String = SECTIONS.map(section).concat();
        assert!(report_is_complete(&report).is_ok());
        assert!(report_is_complete(&report.replace("Method", "Methods")).is_err());
        assert!(report_is_complete(&report.replace("12", "")).is_err());
        assert!(report_is_complete(&report.replacen("word", "TODO", 1)).is_err());
        assert!(report_is_complete(&report.replacen("word ", "", 3)).is_err());
    }
}
