//! Compiles the kernels of the models for GPUs.
warpkov_build::kernels!("src/models.rs");
