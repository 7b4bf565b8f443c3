//! Checks the exercises of the course.
//!
//! An exercise is a folder with two files: `kernels.rs`, which a GPU runs, and `main.rs`, which launches it. `main.rs`
//! implements the trait of its chapter, a module of this crate, and ends with [`main!`]. The chapter gives the inputs,
//! computes the expected results on the host, and states budgets.
//!
//! | module | contents |
//! | --- | --- |
//! | [`exercise`] | what a chapter states: sizes, run, budgets |
//! | [`lab`] | what a run has: a device, inputs, comparisons, time |
//! | [`budget`] | limits on what the emulator counts |
//! | [`check`] | runs an exercise on the emulator and on a GPU |
//! | [`compiled`] | limits on the compiled code |
//! | [`steps`] | the small steps between the chapters |
//! | [`recorded`] | a device that records what it is asked to do |
//! | [`program`] | the command line of an exercise |

pub mod budget;
pub mod check;
pub mod compiled;
pub mod exercise;
pub mod lab;
pub mod program;
pub mod recorded;

pub mod copy;
pub mod dot_product;
pub mod faults;
pub mod grids;
pub mod histogram;
pub mod hmm_forward;
pub mod matrix_product;
pub mod mdp_sweep;
pub mod policy_evaluation;
pub mod pomdp_backup;
pub mod prefix_sum;
pub mod project;
pub mod registers;
pub mod several_gpus;
pub mod steps;
pub mod transpose;
pub mod vector_add;
pub mod warp_groups;

pub use exercise::Exercise;
/// What an exercise's `main.rs` uses.
pub use warpkov_device::launch::{Buffer, Device, Dim3, Shape};

/// The `main` of an exercise: `learn::main!(learn::vector_add::Check<Launch>);`.
#[macro_export]
macro_rules! main {
    ($exercise:ty) => {
        /// The exercise, for what includes this file: the panels of the book.
        #[allow(dead_code)]
        pub(crate) fn exercise() -> &'static dyn $crate::check::Profiled {
            const { &::std::marker::PhantomData::<$exercise> }
        }

        #[allow(dead_code)]
        fn main() -> ::std::process::ExitCode {
            #[cfg(feature = "gpu")]
            static MODULES: ::warpkov_cuda::Modules = ::warpkov_cuda::modules!();
            $crate::program::main::<$exercise>(
                #[cfg(feature = "gpu")]
                &MODULES,
            )
        }
    };
}
