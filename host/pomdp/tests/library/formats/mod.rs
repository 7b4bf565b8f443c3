//! Formats of partially observable models: files of other programs, error messages for invalid files, and
//! round trips.

mod cassandra;
mod common;
mod diagrams;
mod json;
mod policies;
mod pomdpx;
mod shrinking;
