//! Point-based solvers.

pub mod bounds;
pub mod expand;
pub mod graph;
pub mod search;
