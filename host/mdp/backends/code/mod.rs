//! Value iteration of models [as code](crate::matrix_free).

pub mod cpu;
pub mod device;
