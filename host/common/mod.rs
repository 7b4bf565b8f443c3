//! What all model classes share, and none of them owns.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`io`] | texts and arrays in files, and what to say where one is wrong |
//! | [`plot`] | pictures: the canvas, axes and lines |
//! | `random` | random numbers that are the same on every machine |
//! | [`choice`] | enums whose variants have names |
//! | [`names`] | of states, actions and observations |
//! | [`numbers`] | infinite numbers in JSON |
//! | [`parameters`] | checks of what models are made from |
//! | [`report`] | text, JSON and files of results |
//! | [`interrupt`] | the request to stop, as after Ctrl-C |
//! | [`terminal`] | what files say, as a terminal may show it |

pub mod choice;
pub mod interrupt;
pub mod io;
pub mod names;
pub mod numbers;
pub mod parameters;
pub mod plot;
pub(crate) mod random;
pub mod report;
pub mod terminal;
