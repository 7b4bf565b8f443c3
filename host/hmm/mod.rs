//! Hidden Markov models: scoring, decoding and training over batches of sequences of any lengths.

pub mod model;
pub mod recursions;
pub mod sequences;
