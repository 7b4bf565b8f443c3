//! The commands of partially observable models.

mod constrain;
mod formats;
mod reach;
mod simulate;
mod trace;
mod verify;
