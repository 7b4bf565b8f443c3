#![doc = include_str!("README.md")]
//!
//! | module | contents |
//! | --- | --- |
//! | [`mod@array`], [`sparse`] | arrays in memory or in files, sparse matrices |
//! | [`io`] | file formats that several model classes use, and file errors |
//! | [`plot`] | plots: canvas, axes, lines |
//! | [`random`] | reproducible random numbers |
//! | [`checkpoint`] | checkpoints: the file, its hash, and when the next one is due |
//! | [`mod@choice`] | enums with named variants, for options |
//! | [`memory`] | the memory of the process |
//! | [`names`] | names of states, actions and observations |
//! | [`numbers`] | the maximum norm, infinite numbers in JSON |
//! | [`parallel`] | loops on all cores |
//! | [`mod@parameters`] | parameters of models: ranges, and families that declare them |
//! | [`ranks`] | what several ranks did, and how long |
//! | [`report`] | text, JSON and files of results |
//! | [`guard`] | warnings about valid models that look wrong |
//! | [`interrupt`] | the stop request (Ctrl-C) |
//! | [`terminal`] | text that is safe to print on a terminal |

pub mod array;
pub mod checkpoint;
pub mod choice;
pub mod guard;
pub mod interrupt;
pub mod io;
pub mod memory;
pub mod names;
pub mod numbers;
pub mod parallel;
pub mod parameters;
pub mod plot;
pub mod random;
pub mod ranks;
pub mod report;
pub mod sparse;
pub mod terminal;
