//! Few long sequences: a parallel scan over time, by products of matrices.
//!
//! The sequences are cut into chunks of `until` steps; the last chunk of each may be shorter. A chunk c has an N × N
//! operator over its own observations,
//!
//! > Q_c = diag(b(o₁)) A diag(b(o₂)) A … diag(b(o_L)) A
//!
//! where the last operator of a sequence omits its last A. With p₁ = π and v_C = Q_C end, the row p_{c+1} = p_c Q_c is
//! the distribution of the first state of chunk c + 1, up to a factor, and the column v_c = Q_c v_{c+1} is û of its
//! first step. Given p and v, all chunks are independent sequences of one batch: p serves as π, and v starts the
//! backward recursion. Each row of an operator is a forward recursion from one state. The operators of all chunks thus
//! take N times the products of the recursion, all in parallel; the scan over them takes one row-matrix product per
//! chunk.
//!
//! Viterbi's algorithm has the same structure in (max, +), except that the last chunk of a sequence needs no operator.
//! Starting from p, a chunk computes δ of all its steps and two maps from the state that follows the chunk: to the
//! state in which the chunk ends, and to the state in which it begins, both on the best path. The maps are followed
//! from the last chunk to the first; then [`trace`](super::trace) decodes each chunk between its known ends.
//!
//! # Data layout
//!
//! The chunks are the sequences of a batch and are stored as such. In this module, `lengths` is `until` + 1 for a chunk
//! that another one follows, else its number of steps. `chain` lists the chunks of one sequence after another; those of
//! sequence s start at `link[s]`. Operators are in f64, with an exponent of two per row, or a summand per row; an
//! operator takes `STATES`² elements per model and chunk.
//!
//! | module | contents |
//! | --- | --- |
//! | [`sums`] | operators in (+, ·): initial and final vectors of the chunks |
//! | [`maxima`] | operators in (max, +): the most probable path |
//!
//! *Sources*: S. Särkkä and Á. F. García-Fernández, "Temporal Parallelization of Bayesian Smoothers", 2021; S. S.
//! Hassan, S. Särkkä and Á. F. García-Fernández, "Temporal Parallelization of Inference in Hidden Markov Models", 2021.

pub mod maxima;
pub mod sums;

/// Maximum number of states.
pub const STATES: u32 = 64;
