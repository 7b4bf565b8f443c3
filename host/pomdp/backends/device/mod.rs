//! Device backends: [`Backups`] for point-based backups, and [`Walkers`] for walks with backups and upper bounds.

mod backup;
mod beliefs;
pub(crate) mod buffers;
mod upper;
mod walk;

pub use backup::{Backups, Limits, Product};

pub use walk::Walkers;
