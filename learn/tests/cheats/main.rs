//! Solutions with right results that miss the point of their part fail a check that says so. Solutions that reach it in another way
//! than the course's pass.

use learn::check::{Step, Verdict};

/// A solution of a part.
struct Case {
    name: &'static str,
    verdict: fn() -> Verdict,
    /// The first check that fails. `None` if all pass.
    fails: Option<&'static str>,
}

const fn fails(name: &'static str, verdict: fn() -> Verdict, check: &'static str) -> Case {
    Case { name, verdict, fails: Some(check) }
}

const fn passes(name: &'static str, verdict: fn() -> Verdict) -> Case {
    Case { name, verdict, fails: None }
}

fn check(cases: &[Case]) {
    let wrong = cases.iter().filter_map(|case| {
        let verdict = (case.verdict)();
        let failed = verdict.steps.iter().find(|step| !step.passed());
        let describe = |step: &Step| format!("{}: {}", step.name, step.failure.as_deref().unwrap_or_default());
        let found = failed.map_or("nothing".to_owned(), describe);
        println!("{}: {found}", case.name);
        let expected = case.fails.unwrap_or("nothing");
        (failed.map(|step| step.name.as_str()) != case.fails)
            .then(|| format!("{} fails {found}\n    in place of {expected}", case.name))
    });
    let wrong: Vec<_> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

macro_rules! chapters {
    ($($chapter:ident)*) => {$(
        mod $chapter;

        #[test]
        fn $chapter() {
            check($chapter::CASES);
        }
    )*};
}
chapters!(vector_add grids copy histogram transpose faults dot_product prefix_sum matrix_product);
