//! The small steps between the chapters: one idea, one hole of at most five lines.
//!
//! [`step!`] makes a module of each: `Step`, the trait of its launch, and `Check`, its exercise of one part.
//!
//! | module | steps |
//! | --- | --- |
//! | [`indices`] | before chapters 0, 1 and 2: which thread has which element |
//! | [`exchange`] | before chapters 3 and 6: threads that exchange numbers |
//! | [`order`] | before chapters 7 and 8: blocks that wait for each other, and fragments |
//!
//! Those behind chapter 8 are in [`warp_groups`](crate::warp_groups).

use warpkov_device::device::DeviceCopy;
use warpkov_device::launch::Device;

use crate::lab::{Failure, Lab};

/// `step!(name: "its idea", sizes, counted size, budgets, |lab, size| run; items of the trait)`. The body of the run has the device `D`
/// and the student's launch `S`.
macro_rules! step {
    (
        $(#[$doc:meta])*
        $name:ident: $idea:literal, $sizes:expr, $counted:expr, $budgets:expr,
        |$lab:ident, $size:ident| $run:block
        $($item:tt)+
    ) => {
        $(#[$doc])*
        pub mod $name {
            use super::*;

            /// What the student launches. Errors are those of the device.
            pub trait Step {
                $($item)+
            }

            /// Checks a [`Step`].
            pub struct Check<S>(std::marker::PhantomData<S>);

            impl<S: Step> crate::Exercise for Check<S> {
                const PARTS: &'static [&'static str] = &[$idea];

                fn sizes(_: usize) -> Vec<usize> {
                    $sizes.into()
                }

                fn counted(_: usize) -> usize {
                    $counted
                }

                fn timed(_: usize) -> usize {
                    $counted
                }

                fn run<D: Device>($lab: &Lab<'_, D>, _: usize, $size: usize) -> Result<(), Failure> $run

                fn budgets(_: usize) -> Vec<Budget> {
                    $budgets.into()
                }

                fn work(_: usize, _: usize) -> crate::exercise::Work {
                    crate::exercise::Work::default()
                }
            }
        }
    };
}

pub mod exchange;
pub mod indices;
pub mod order;

pub use exchange::*;
pub use indices::*;
pub use order::*;

/// Launches with an input, which the launch does not change, and a result of `len` elements: the result.
fn map<D: Device, T: DeviceCopy, U: DeviceCopy>(
    lab: &Lab<'_, D>,
    x: &[T],
    len: usize,
    mut launch: impl FnMut(&D, &mut D::Buffer<T>, &mut D::Buffer<U>) -> Result<(), D::Error>,
) -> Result<Vec<U>, Failure> {
    let (mut x, mut y) = (lab.device.upload(x)?, lab.device.uninitialised(len)?);
    lab.launch(|device| launch(device, &mut x, &mut y))?;
    Ok(lab.device.to_vec(&y)?)
}
