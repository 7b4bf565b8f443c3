warpkov_build::kernels!("../../toolchain/device/tests/planted/kernels.rs");
