#![doc = include_str!("README.md")]
//!
//! The [solvers](solve) keep a lower bound (alpha vectors) and an upper bound (sawtooth points) on V\*. They run over a
//! narrow [backend], whose implementations are the [CPU](backends::cpu) and a [device](backends::device).

pub mod alpha;
pub mod backend;
pub mod backends;
pub mod belief;
pub mod cells;
pub mod checkpoint;
pub mod compact;
pub mod constrained;
pub mod controller;
pub mod criterion;
pub mod game;
pub mod generate;
pub mod info;
pub mod io;
pub mod lookahead;
pub mod model;
pub mod options;
pub mod plot;
pub mod projection;
pub mod reference;
pub mod report;
pub mod simulate;
pub mod solution;
pub mod solve;
pub mod support;
pub mod trace;
pub mod verify;
