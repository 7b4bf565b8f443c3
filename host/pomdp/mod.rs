//! Partially observable Markov decision processes: models and their formats, point-based backups, bounds from both sides.

pub mod alpha;
pub mod backup;
pub mod belief;
pub mod bench;
pub mod game;
pub mod generate;
pub mod io;
pub mod lookahead;
pub mod model;
pub mod plot;
pub mod projection;
pub mod reference;
pub mod simulate;
pub mod solve;
pub mod trace;
pub mod verify;
