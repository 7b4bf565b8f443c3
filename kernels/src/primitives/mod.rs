//! Kernels that every model class uses, and what several kernels compute.

pub mod copy;
pub mod random;
pub mod rows;
pub mod scan;
pub mod vector;
