//! The implementations of the [backend traits](crate::backend): on all cores, and on a GPU or the emulator.

pub mod cpu;
pub mod device;
