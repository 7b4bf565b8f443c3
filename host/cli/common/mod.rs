//! What commands share: files named on the command line, numbers as arguments, Ctrl-C.

pub mod choice;
pub mod file;
pub mod interrupts;
pub mod number;
