//! Methods of the literature, to compare with.
//!
//! | file | method |
//! | --- | --- |
//! | `block_per_state` | policy iteration on a GPU over the full model: `plain` |
//! | [`divided`] | Block Divided and Result Divided Iteration on a GPU (Jóhannsson 2009) |
//! | `prepare` | the layouts of the two above |
//! | `sequential` | value iteration in place on one core, their baseline |
//!
//! [`cpu`](crate::backends::cpu) and [`device`](crate::backends::device) have the methods of Aydin 2025 that other methods use, too.

mod block_per_state;
pub mod divided;
mod prepare;
mod sequential;

pub use block_per_state::BlockPerState;
pub use prepare::Baseline;
pub use sequential::Sequential;
