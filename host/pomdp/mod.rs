//! Partially observable Markov decision processes: models and their formats, point-based backups, bounds from both sides.

pub mod alpha;
pub mod backup;
pub mod belief;
pub mod io;
pub mod model;
pub mod reference;
pub mod trace;
