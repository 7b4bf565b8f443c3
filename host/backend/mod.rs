//! GPUs.

pub mod cuda;
