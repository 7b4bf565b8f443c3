//! When a search ends, and what it prints meanwhile.

use std::ops::ControlFlow;
use std::time::Duration;

use clap::Args;
use warpkov_common::interrupt;
use warpkov_pomdp::options::{Gap, Limits};
use warpkov_pomdp::report::progress;
use warpkov_pomdp::solution::Round;

use crate::common::number;

/// The limits of a search.
#[derive(Args)]
pub struct Ends {
    /// Stop when the bounds differ by at most this fraction of the value, or of 1 % of what a step of good play earns if that is more
    /// [default: 1e-3, without --gap].
    #[arg(long, value_name = "R", value_parser = number::positive)]
    relative_gap: Option<f64>,
    /// Stop when the bounds differ by at most G, whatever the value.
    #[arg(long, value_name = "G", value_parser = number::positive, conflicts_with = "relative_gap")]
    gap: Option<f64>,
    /// Maximum time in seconds.
    #[arg(long, value_name = "S", value_parser = number::positive)]
    time: Option<f64>,
}

impl Ends {
    /// The limits of a solution that is `exact` or not.
    pub fn limits(&self, exact: bool) -> Limits {
        Limits {
            gap: Gap::asked(self.gap, self.relative_gap, exact),
            // A time beyond the range of `Duration` is no limit.
            time: self.time.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
            ..Limits::default()
        }
    }
}

/// Prints one line of progress per second, unless it is to be `quiet`. Stops the search after Ctrl-C.
pub fn observer(quiet: bool) -> impl FnMut(&Round) -> ControlFlow<()> {
    let mut due = 1.0;
    move |round| {
        if !quiet && round.seconds >= due {
            due = round.seconds.floor() + 1.0;
            eprintln!("{}", progress(round));
        }
        if interrupt::requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
