//! Tests of the library for partially observable models.

mod cells;
mod common;
mod companion;
mod constrained;
mod controllers;
mod criterion;
mod device;
mod exact;
mod formats;
mod generate;
mod ranks;
mod solve;

#[path = "../../../../tests/support/distributions.rs"]
mod distributions;
#[allow(dead_code, reason = "only its numbers are needed")]
#[path = "../../../../tests/support/random.rs"]
mod random;
