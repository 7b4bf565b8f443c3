//! Initial bounds on V\*, and the upper bound that beliefs tighten.
//!
//! | module | bound |
//! | --- | --- |
//! | [`blind`] | lower: repeats one action for ever |
//! | [`mdp`] | upper: observes the state from now on |
//! | [`qmdp`] | upper: observes the state after one more step |
//! | [`fib`] | upper: the fast informed bound, which respects the observation of the next step |
//! | [`sawtooth`] | upper: interpolates between upper bounds at beliefs |

pub mod blind;
pub mod fib;
pub mod mdp;
pub mod qmdp;
pub mod sawtooth;

/// Q-factors at index s·A + a, with Q(b, a) ≤ Σ b(s) Q(s, a).
pub type ActionValues = Vec<f64>;
