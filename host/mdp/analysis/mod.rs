//! What a model's structure says before any value is computed.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`graph`] | reachability, strongly connected and end components |
//! | [`quotient`] | smaller models: end components merged, settled states left out |
//! | [`reorder`] | states in an order that keeps successors near |
//! | [`patterns`] | states that look alike |
//! | [`tiles`] | which parts of a model depend on which |

pub mod graph;
pub(crate) mod palette;
pub mod patterns;
pub mod quotient;
pub mod reorder;
pub mod tiles;
