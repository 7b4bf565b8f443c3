//! Host side of the kernels, generic over the device: a GPU or the emulator.
//!
//! | file | what |
//! | --- | --- |
//! | `layout` | a model in the most compact layout for value iteration that fits: its sizes and its tiles |
//! | `layouts` | each kind of layout: on the host, in device memory, and the launch of its sweep |
//! | `sweeps` | the launch of a sweep over states, the stopping rule and the tiles on the device |
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
mod layouts;
mod matrix_free;
mod mixed;
mod projected;
mod resident;
mod streamed;
mod sweeps;
mod values;

pub use crate::backend::{Certify, Residual};
pub use block_per_state::BlockPerState;
pub use ghosts::{Exchanges, Ghosts, Ranks};
pub use krylov::System;
pub use layout::SweepLayout;
pub use matrix_free::MatrixFree;
pub use mixed::Mixed;
pub use projected::{PolicyLayout, Projected};
pub use streamed::{Streamed, Streaming};
pub use values::ValueIteration;
