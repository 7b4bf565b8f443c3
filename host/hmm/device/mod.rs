//! The device backend: the recursions on a GPU or the emulator, over the [kernels](warpkov_kernels::hmm).
//!
//! | module | contents |
//! | --- | --- |
//! | `batch` | [`Batch`], the implementation of [`Recursions`](crate::backend::Recursions) |
//! | `launch` | the launches of the recursions for each kernel variant |
//! | `model`, `gaussian`, `packing` | models, densities and sequences in their device layouts |
//! | `chunks` | the parallel scan over time for few long sequences |
//! | `wide` | the exact recursions for doubtful sequences |

mod batch;
mod chunks;
mod gaussian;
mod launch;
mod model;
mod packing;
mod wide;

pub use batch::{Batch, Limits};
pub use chunks::{STEPS, Scan};
pub(super) use model::round;
