//! Point-based backups on a device.

mod backup;
pub(super) mod buffers;

pub use backup::{Backups, Limits, Product};
