//! The C interface of warpkov, `libwarpkov`: models of all three classes from arrays and files, options by name, solves with
//! progress and cancellation, and results as arrays. `book/c.md` describes it for users, and `warpkov.h`, which cbindgen makes of
//! these files, is its reference.
//!
//! | module | contents |
//! | --- | --- |
//! | [`border`] | what every function does: pointers become references, errors and panics become codes and texts |
//! | [`options`] | options by name |
//! | [`progress`] | the callback, and requests to stop |
//! | [`mdp`], [`pomdp`], [`hmm`] | models and solutions of a class |
//! | [`controller`] | controllers of a POMDP: to a goal, and within a limit of costs |
//!
//! Names are those of C. Every function is written out, because cbindgen does not expand macros.

#![allow(non_camel_case_types, reason = "the names are those of C")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the page of the book and the top of the header say what callers guarantee"
)]

mod border;
mod controller;
#[cfg(test)]
mod header;
mod hmm;
mod mdp;
mod options;
mod pomdp;
mod progress;
#[cfg(test)]
mod tests;
