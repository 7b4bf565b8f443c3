//! Few and long sequences: a scan over time, by products of matrices.
//!
//! Sequences are cut into chunks of `until` steps; the last chunk of each may be shorter. A chunk c has an operator, N × N,
//!
//! > Q_c = diag(b(o₁)) A diag(b(o₂)) A … diag(b(o_L)) A
//!
//! over its own observations, the last of a sequence without its last A. With p₁ = π and v_C = Q_C end, the row p_{c+1} = p_c Q_c is
//! what is expected of the state that chunk c + 1 begins in, and the column v_c = Q_c v_{c+1} is û of its first step. Given these, all
//! chunks are sequences of one batch, which has nothing more to wait for: p is their π, and v what their backward recursion begins with.
//! Every row of an operator is a forward recursion of its own, from one state: the operators of all chunks take N times the
//! products of the recursion, all at one time; and the scan over them one row by a matrix for each chunk.
//!
//! Viterbi's algorithm has the same in (max, +), but for the last chunks, which nothing follows. With p a chunk keeps δ of all steps, and
//! for each state that follows it the state that it ends in and the one that it begins in, on the best path there. These maps are
//! followed from the last chunk to the first, and what each chunk then knows of its ends goes to [`trace`](super::trace).
//!
//! # What lies where
//!
//! Chunks are sequences of a batch, and lie as such. `lengths` of a chunk that another one follows is `until` + 1, of others their number
//! of steps. `chain` has the chunks of one sequence after the other, those of sequence s from `link[s]` on. Operators are in f64, with an
//! exponent of two for each row, or a summand; an operator of a model and a chunk has `STATES`² elements.
//!
//! | module | what |
//! | --- | --- |
//! | [`sums`] | operators in (+, ·): what chunks begin with, and what is behind them |
//! | [`maxima`] | operators in (max, +): the most probable path |
//!
//! *Sources*: S. Särkkä and Á. F. García-Fernández, "Temporal Parallelization of Bayesian Smoothers", 2021; S. S. Hassan, S. Särkkä and
//! Á. F. García-Fernández, "Temporal Parallelization of Inference in Hidden Markov Models", 2021.

pub mod maxima;
pub mod sums;

/// States at most.
pub const STATES: u32 = 64;
