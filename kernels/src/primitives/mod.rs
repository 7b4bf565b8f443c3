//! Kernels, device structs and device functions that all model classes share.

pub mod copy;
pub mod random;
pub mod rows;
pub mod scan;
pub mod sum;
pub mod vector;
