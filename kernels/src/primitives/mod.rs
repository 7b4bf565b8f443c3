//! Kernels that every model class uses.

pub mod scan;
