warpkov_build::kernels!("src/models.rs");
