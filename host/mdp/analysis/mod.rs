//! Structural analysis of a model, before any value is computed.
//!
//! | Module | Content |
//! | --- | --- |
//! | [`divide`] | a model divided among ranks |
//! | [`guards`] | what looks wrong in a model: order of rows, unreachable states, copies, missing rewards |
//! | [`graph`] | reachability, strongly connected components and end components |
//! | [`quotient`] | smaller models: end components merged, settled states removed |
//! | [`reorder`] | state orders that keep successors near their states |
//! | [`partition`] | parts of the states that few transitions leave |
//! | [`patterns`] | states with equal rows, relative to their own number |
//! | [`tiles`] | dependencies between blocks of neighbouring states |

pub mod divide;
pub mod graph;
pub mod guards;
pub(crate) mod palette;
pub mod partition;
pub mod patterns;
pub mod quotient;
pub mod reorder;
pub mod tiles;
