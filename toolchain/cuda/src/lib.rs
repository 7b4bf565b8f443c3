//! NVIDIA GPUs, through a CUDA driver that is found at run time.
//!
//! A crate with its kernels in `src/kernels.rs`:
//!
//! ```
//! # mod kernels {
//! #     use warpkov_device::device::{Global, GlobalMut, kernel, thread};
//! #     #[kernel]
//! #     pub fn axpy(n: u32, a: f32, x: Global<f32>, y: GlobalMut<f32>) {
//! #         let i = thread::index_1d() as usize;
//! #         if i < n as usize {
//! #             y.set(i, a.mul_add(x.get(i), y.get(i)));
//! #         }
//! #     }
//! # }
//! use warpkov_cuda::{CudaError, Gpu, Modules};
//! use warpkov_device::launch::{Device, Shape};
//!
//! // What the build script has made of the kernels. It says `warpkov_build::kernels!("src/kernels.rs");`.
//! # const _: &str = stringify! {
//! static MODULES: Modules = warpkov_cuda::modules!();
//! # };
//! # static MODULES: Modules = Modules { compiler: Err("an example"), assembler: None, baselines: &[] };
//!
//! /// y ← 2x + y.
//! fn run(device: &impl Device, x: &[f32], y: &[f32]) -> Result<Vec<f32>, Box<dyn std::error::Error>> {
//!     let (n, x, mut y) = (x.len() as u32, device.upload(x)?, device.upload(y)?);
//!     // SAFETY: both vectors have n elements.
//!     unsafe { kernels::axpy(device, Shape::cover(n.into(), 256), n, 2.0, &x, &mut y) }?;
//!     Ok(device.to_vec(&y)?)
//! }
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     match Gpu::open(0, &MODULES) {
//!         Ok(gpu) => println!("{}: {:?}", gpu.name(), run(&gpu, &[1.0, 2.0], &[0.5, 0.5])?),
//!         Err(CudaError::NoDriver { why }) => println!("there is no driver here: {why}"),
//!         Err(error) => println!("{error}"),
//!     }
//!     Ok(())
//! }
//! ```
//!
//! The program holds its device code ([`modules!`]) and finds the driver when it runs, so it starts anywhere; [`Gpu::open`] says
//! what is missing where there is no GPU. The launchers of `warpkov_device`'s kernels take a [`Gpu`] as they take an emulator.
//!
//! | | |
//! | --- | --- |
//! | [`Gpu`] | a GPU, opened: buffers, copies, launches, a stream, time |
//! | [`GpuBuffer`], [`Pinned`] | memory of the GPU, and of the host for copies beside other work |
//! | [`Event`], [`Graph`] | a CUDA event, and a CUDA graph |
//! | [`Modules`], [`Baseline`], [`Entry`] | the device code of a program |
//! | [`CudaError`] | what can go wrong, and what to do |
//!
//! # To build
//!
//! No CUDA toolkit is needed. The crate `cust`, which lies underneath, looks for one when it is built all the same, and takes any
//! folder with a `lib64` in it for one: set `CUDA_LIBRARY_PATH` to such a folder, or put that into `.cargo/config.toml`, as crates
//! that `warpkov new` makes have it. This crate has the linker find an empty `libcuda` there.
//!
//! When a program runs, `WARPKOV_CODE=machine` or `ptx` forces one kind of device code, and `WARPKOV_PTX=80` a baseline.

mod device;
mod driver;
mod error;
mod module;

pub use device::{Background, DeviceInfo, Event, Gpu, GpuBuffer, Graph, Pinned};
pub use error::{CudaError, size};
pub use module::{Baseline, Entry, Modules};
