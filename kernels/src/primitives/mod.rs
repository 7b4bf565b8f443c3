//! Kernels that every model class uses.

pub mod copy;
pub mod scan;
pub mod vector;
