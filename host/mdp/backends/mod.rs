//! The implementations of the [backend traits](crate::backend), and what runs on all of them.
//!
//! | module | where V and the model are |
//! | --- | --- |
//! | [`cpu`] | in host memory: one core, or all |
//! | [`device`] | in the memory of a GPU or of the emulator |
//! | [`code`] | V in either; the model is a function |
//!
//! | module | what it adds to a backend |
//! | --- | --- |
//! | [`dynamic`] | one type for all, chosen at run time |
//! | [`krylov`] | policy evaluation by BiCGSTAB |
//! | [`refine`] | values in f64 from sweeps in f32 |

pub mod code;
pub mod cpu;
pub mod device;
pub mod dynamic;
pub mod krylov;
pub mod refine;
