//! The commands of partially observable models.

mod formats;
mod simulate;
mod trace;
mod verify;
