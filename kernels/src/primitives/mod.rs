//! Kernels that every model class uses.

pub mod scan;
pub mod vector;
