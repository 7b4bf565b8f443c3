//! Host side of the kernels, generic over the device: a GPU or the emulator.
//!
//! | file | what |
//! | --- | --- |
//! | `layout`, `patterns`, `slices` | layouts of a model for value iteration |
//! | `stored` | a model in one of them, in device memory |
//! | `values`, `mixed`, `streamed` | value iteration: resident, in two precisions, larger than the device's memory |
//! | `matrix_free` | value iteration of a model as code |
//! | `ghosts` | the exchange of ghosts between the devices of several ranks |
//! | `resident`, `block_per_state`, `projected` | policy iteration: the shared part, the plain method, the projected method |
//! | `krylov` | the linear systems of Krylov policy iteration |
//! | [`divided`] | Block Divided and Result Divided |

mod block_per_state;
pub mod divided;
mod ghosts;
mod krylov;
mod layout;
mod matrix_free;
mod mixed;
mod patterns;
mod projected;
mod resident;
mod slices;
mod stored;
mod streamed;
mod values;

pub use block_per_state::BlockPerState;
pub use ghosts::{Exchanges, Ghosts, Ranks};
pub use krylov::System;
pub use layout::SweepLayout;
pub use matrix_free::MatrixFree;
pub use mixed::Mixed;
pub use projected::{PolicyLayout, Projected};
pub use streamed::{Streamed, Streaming};
pub use values::{Certify, Residual, ValueIteration};
