//! Hidden Markov models: scoring, decoding and training over batches of sequences of any lengths.

pub mod dispatch;
pub mod generate;
pub mod io;
pub mod model;
pub mod plot;
pub mod recursions;
pub mod sample;
pub mod sequences;
pub mod train;
