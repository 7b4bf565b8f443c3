//! The device backend: the recursions on a GPU or the emulator, over the [kernels](warpkov_kernels::hmm).
//!
//! | module | contents |
//! | --- | --- |
//! | `batch` | [`Batch`], the implementation of [`Recursions`](crate::backend::Recursions) |
//! | `variant` | the recursions' launches for a number of states: `warp`, `block` or `step` |
//! | `trellis` | the memory that they work in |
//! | `launch` | what all launches share, and the sums over the rows of a trellis |
//! | `model`, `gaussian`, `packing` | models, densities and sequences in their device layouts |
//! | `slices` | the forward recursion in its parts, a kernel each |
//! | `chunks` | the parallel scan over time for few long sequences |
//! | `wide` | the exact recursions for doubtful sequences |

mod batch;
mod block;
mod channels;
mod chunks;
mod gaussian;
mod known;
mod launch;
mod model;
mod packing;
mod slices;
mod step;
mod trellis;
mod variant;
mod warp;
mod wide;

pub use batch::{Batch, Limits};
pub use chunks::{OverPaths, STEPS, Scan};
pub(crate) use model::round;
pub use slices::{ForwardMethod, UnfitForSlices};
