warpkov_build::kernels!("src/kernels.rs");
