//! The implementations of the [backend traits](crate::backend).
//!
//! | module | where V and the model are |
//! | --- | --- |
//! | [`cpu`] | in host memory: one core, or all |
//! | [`device`] | in the memory of a GPU or of the emulator |
//! | [`code`] | V in either; the model is a function |

pub mod code;
pub mod cpu;
pub mod device;
