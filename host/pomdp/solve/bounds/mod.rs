//! Bounds on V\* from below and from above, before any belief is looked at, and the one that beliefs tighten.
//!
//! | module | bound |
//! | --- | --- |
//! | [`blind`] | lower: the value of one action repeated for ever |
//! | [`mdp`] | upper: the state is seen from now on |
//! | [`qmdp`] | upper: the state is seen after one more step |
//! | [`fib`] | upper: the fast informed bound, by which the observation of one step is not seen in advance |
//! | [`sawtooth`] | upper: what is known at some beliefs, interpolated |

pub mod blind;
pub mod fib;
pub mod mdp;
pub mod qmdp;
pub mod sawtooth;

/// A vector for each action: Q(b, a) ≤ Σ b(s) Q(s, a), with entry s·A + a.
pub type ActionValues = Vec<f64>;
