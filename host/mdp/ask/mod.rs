//! Questions about a model and a solution.
//!
//! | file | question |
//! | --- | --- |
//! | [`evaluate`] | the value of a policy, with bounds |
//! | [`simulate`] | what happens on random paths |
//! | [`q`] | the value of each action |
//! | [`sensitivity`] | the value of a start as a function of γ |
//! | [`compare`] | how two solutions differ |
//! | [`show`] | where the actions of a state may lead, in words |
//! | [`select`], [`table`] | states as people name them, and tables of results |

pub mod compare;
pub mod evaluate;
pub mod q;
pub mod select;
pub mod sensitivity;
pub mod show;
pub mod simulate;
pub mod table;
