//! Point-based backups on a device.

mod backup;
mod beliefs;
pub(super) mod buffers;
mod upper;
mod walk;

pub use backup::{Backups, Limits, Product};

pub use walk::Walkers;
