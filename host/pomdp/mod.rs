//! Partially observable Markov decision processes: models and their formats, point-based backups, bounds from both sides.

pub mod alpha;
pub mod backend;
pub mod belief;
pub mod bench;
pub mod cpu;
pub mod device;
pub mod game;
pub mod generate;
pub mod info;
pub mod io;
pub mod lookahead;
pub mod model;
pub mod options;
pub mod plot;
pub mod projection;
pub mod reduce;
pub mod reference;
pub mod report;
pub mod simulate;
pub mod solution;
pub mod solve;
pub mod support;
pub mod trace;
pub mod verify;
