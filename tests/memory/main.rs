//! How much memory the solvers allocate. One test runs at a time, because one allocator counts for all.

mod hmm;
mod mdp;
mod pomdp;
mod stream;

#[path = "../support/allocator.rs"]
mod allocator;
mod counting;
