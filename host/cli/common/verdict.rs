//! What the verifiers have found, in words.

use warpkov_mdp::certificate::rounded_up;
use warpkov_mdp::model::Objective;
use warpkov_verify::mdp::Verdict;

/// The line of a number that is at most `limit` if the claim holds, between bounds. `near` says where it is refuted, `by` how it was decided.
pub fn line(what: &str, verdict: Verdict, [limit, lower, upper]: [f64; 3], near: &str, by: &str) -> String {
    match verdict {
        Verdict::Proved => format!("Proved: {what} ≤ {}, at most {limit:e} asked{by}", rounded_up(upper)),
        Verdict::Refuted => format!("Refuted: {what} > {limit:e}: at least {lower:.3e}{near}{by}"),
        Verdict::Undecided => {
            format!("Undecided: {what} is between {lower:.3e} and {upper:.3e}, at most {limit:e} asked{by}")
        }
    }
}

/// The last line, of a solution or a policy.
pub fn conclusion(of: &str, verdict: Verdict) -> String {
    let found = match verdict {
        Verdict::Proved => "proved",
        Verdict::Refuted => "refuted",
        Verdict::Undecided => "neither proved nor refuted",
    };
    format!("The {of} is {found}.")
}

/// A difference that is not negative if the first value is the better one.
pub fn minus(objective: Objective, better: &str, worse: &str) -> String {
    match objective {
        Objective::Maximize => format!("{better} − {worse}"),
        Objective::Minimize => format!("{worse} − {better}"),
    }
}
