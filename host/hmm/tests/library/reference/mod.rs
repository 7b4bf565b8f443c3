//! Hidden Markov models against published numbers, brute force, and recursions in extended precision.

mod batches;
mod brute_force;
mod common;
mod filter;
mod magnitudes;
mod published;
mod ranks;
mod training;
