//! Measurements of the solvers, and the tables of the documents that they implement.

pub mod hmm;
pub mod mdp;
pub mod pomdp;
