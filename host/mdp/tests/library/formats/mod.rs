//! Models in files: round trips, error messages, and solutions against exact ones and published values.

mod binary;
mod common;
mod own;
mod python;
mod solutions;
mod tables;
