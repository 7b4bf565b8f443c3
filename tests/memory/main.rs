//! How much memory the solvers allocate, and how much else they do. One test runs at a time, because one allocator counts for all.

mod baseline;
mod hmm;
mod mdp;
mod pomdp;
mod stream;

#[path = "../support/allocator.rs"]
mod allocator;
mod counting;
