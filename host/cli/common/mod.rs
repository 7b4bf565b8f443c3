//! What commands share: files, formats and numbers as arguments, output, progress, signals, checkpoints.

pub mod checkpoint;
pub mod choice;
pub mod family;
pub mod file;
pub mod help;
pub mod interrupts;
pub mod number;
pub mod output;
pub mod progress;
pub mod ranks;
pub mod same;
pub mod verdict;
pub mod watch;
