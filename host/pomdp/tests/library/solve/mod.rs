//! The solver of POMDPs: its bounds hold, and converge to published values.

mod bounds;
mod exact;
mod policies;
mod published;
mod runs;
