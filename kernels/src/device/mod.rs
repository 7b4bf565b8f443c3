//! The device library.

/// A type that may lie in device memory: any bit pattern is a value, and there is no padding.
#[cfg(not(target_arch = "nvptx64"))]
pub trait Plain: bytemuck::Pod + Send + Sync {}
#[cfg(not(target_arch = "nvptx64"))]
impl<T: bytemuck::Pod + Send + Sync> Plain for T {}

/// A floating-point type that kernels are instantiated for: `f32` and `f64`.
#[cfg(not(target_arch = "nvptx64"))]
pub trait Real: Plain {
    /// `"f32"` or `"f64"`.
    const NAME: &'static str;
}
