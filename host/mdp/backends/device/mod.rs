//! Host side of the kernels, generic over the device: a GPU or the emulator.
//!
//! | file | what |
//! | --- | --- |
//! | `layout` | a model in the most compact layout for value iteration that fits: its sizes and its tiles |
//! | `layouts` | each kind of layout: on the host, in device memory, and the launch of its sweep |
//! | `sweeps` | the launch of a sweep over states, the stopping rule and the tiles on the device |
//! | `values`, `mixed`, `streamed` | value iteration: resident, in two precisions, larger than the device's memory |
//! | `ghosts` | the exchange of ghosts between the devices of several ranks |
//! | `resident`, `projected` | policy iteration: the shared part, the projected method |
//! | `prepare` | the layouts of all methods: their memory, and the backends built from them |
//! | `krylov` | the linear systems of Krylov policy iteration |

mod ghosts;
mod krylov;
mod layout;
pub(crate) mod layouts;
mod mixed;
mod prepare;
mod projected;
pub(crate) mod resident;
mod streamed;
pub(crate) mod sweeps;
mod values;

pub use crate::backend::{Certify, Residual};
pub use ghosts::{Exchanges, Ghosts, Ranks};
pub use krylov::System;
pub use layout::SweepLayout;
pub use mixed::Mixed;
pub(crate) use prepare::by_types;
pub use prepare::{Layout, PolicyIteration, within};
pub use projected::{PolicyLayout, Projected};
pub use streamed::{Streamed, Streaming};
pub use values::ValueIteration;
