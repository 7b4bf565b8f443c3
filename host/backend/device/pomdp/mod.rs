//! Point-based backups on a device.

mod backup;
mod buffers;

pub use backup::{Backups, Limits, Product};
