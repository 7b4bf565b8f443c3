//! NVIDIA GPUs as devices for kernels of `warpkov_device`. The program loads the CUDA driver at run time.
//!
//! A program whose kernels are in `src/kernels.rs`:
//!
//! ```
//! # mod kernels {
//! #     use warpkov_device::device::{Global, GlobalMut, kernel, thread};
//! #     #[kernel]
//! #     pub fn axpy(n: u32, a: f32, x: Global<f32>, y: GlobalMut<f32>) {
//! #         let i = thread::index_1d();
//! #         if i < u64::from(n) {
//! #             y.set(i, a.mul_add(x.get(i), y.get(i)));
//! #         }
//! #     }
//! # }
//! use warpkov_cuda::{CudaError, Gpu, Modules};
//! use warpkov_device::launch::{Device, Shape};
//!
//! // The compiled kernels. The build script is `warpkov_build::kernels!("src/kernels.rs");`.
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
//!         Err(CudaError::NoDriver { why }) => println!("no NVIDIA driver: {why}"),
//!         Err(error) => println!("{error}"),
//!     }
//!     Ok(())
//! }
//! ```
//!
//! The binary contains its device code ([`modules!`]) and is not linked against the driver, so it starts on any
//! machine. On a machine without a GPU, [`Gpu::open`] returns an error that says what is missing. The typed launchers
//! of `warpkov_device` accept a [`Gpu`] and an emulator alike.
//!
//! | type | purpose |
//! | --- | --- |
//! | [`Gpu`] | an open GPU: buffers, copies, launches, timing |
//! | [`GpuBuffer`] | device memory |
//! | [`Pinned`] | page-locked host memory, for copies that overlap with kernels |
//! | [`Event`], [`Graph`] | a CUDA event, a CUDA graph |
//! | [`Foreign`], [`SharedBuffer`] | device memory of other libraries of the process, and for them |
//! | [`Communicator`] | one of several GPUs that exchange data through NCCL, loaded at run time |
//! | [`Cusparse`] | products of sparse matrices with vectors by cuSPARSE, loaded at run time, for comparisons |
//! | [`Usage`], [`KernelUsage`] | what the process used: kernels with their times, memory, energy |
//! | [`Modules`], [`Baseline`], [`Entry`] | the device code in a binary |
//! | [`DeviceInfo`] | properties of a GPU |
//! | [`CudaError`] | errors, each with advice |
//!
//! # Building
//!
//! Building needs no CUDA toolkit. The crate `cust`, on which this crate is based, searches for a toolkit at build
//! time, and accepts any folder that contains `lib64`. Set `CUDA_LIBRARY_PATH` to such a folder, in the environment or
//! in `.cargo/config.toml`; a crate that `warpkov new` creates does so. This crate then provides an empty `libcuda` to
//! the linker.
//!
//! # Environment variables at run time
//!
//! | variable | effect |
//! | --- | --- |
//! | `WARPKOV_PTX=80` | use the device code of this baseline |
//! | `WARPKOV_CODE=machine` | use machine code only: fail if there is none for the GPU |
//! | `WARPKOV_CODE=ptx` | use PTX only |
//! | `WARPKOV_NCCL=FILE` | use this NCCL library; by default `libnccl.so.2` of the system or of a Python environment |
//! | `WARPKOV_CUSPARSE=FILE` | use this cuSPARSE library; by default `libcusparse.so.12` of the system or of a Python environment |

mod device;
mod driver;
mod error;
mod library;
mod module;
mod nccl;

pub use device::{
    Background, Communicator, Cusparse, DeviceInfo, Event, Foreign, Gpu, GpuBuffer, Graph, KernelUsage, Pinned,
    Reducible, Reduction, Request, SharedBuffer, SparseMatrix, SparseNumber, Usage, energy,
};
pub use error::{CudaError, size};
pub use module::{Baseline, Entry, Modules};
pub use nccl::nccl_version;
