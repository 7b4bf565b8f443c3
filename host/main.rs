//! The command line of warpkov.
fn main() {}
