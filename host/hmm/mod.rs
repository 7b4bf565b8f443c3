//! Hidden Markov models: scoring, decoding and training over batches of sequences of any lengths.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`model`], [`sequences`] | what is given |
//! | [`backend`] | forward, backward, Viterbi and expected counts: the narrow trait over where they run |
//! | [`place`] | where that is |
//! | [`invariants`] | what holds of all results, and is checked |
//! | [`maximise`] | the model that expected counts make most likely: the M step of Baum and Welch |
//! | [`train`] | their loop over that trait, and how good a model is |
//! | [`sample`], [`generate`] | sequences from models, models from few parameters |
//! | [`io`], [`plot`] | files and pictures |
//! | [`info`], [`report`] | models and results, for people and for programs |
//! | [`mod@bench`] | times on a GPU |

pub mod backend;
pub mod bench;
pub mod cpu;
pub mod device;
pub mod generate;
pub mod info;
pub mod invariants;
pub mod io;
pub mod maximise;
pub mod model;
pub mod options;
pub mod place;
pub mod plot;
pub mod report;
pub mod sample;
pub mod sequences;
pub mod train;
