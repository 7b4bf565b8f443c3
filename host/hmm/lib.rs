#![doc = include_str!("README.md")]
//!
//! | module | contents |
//! | --- | --- |
//! | [`model`], [`sequences`] | validated models and observations |
//! | [`channels`], [`covariances`] | families of distributions of emitted vectors |
//! | [`backend`] | the trait [`Recursions`](backend::Recursions): forward, backward, Viterbi and expected counts |
//! | [`backends`] | its implementations on the CPU and on a GPU or the emulator |
//! | [`place`] | the choice of a backend, and its checks |
//! | [`ambiguous`] | the recursions over symbols of which only a set is known |
//! | [`divided`] | the recursions on several ranks |
//! | [`run`] | the choice among all of these |
//! | [`filter`] | filtering, smoothing with a lag and prediction of a stream, an observation at a time |
//! | [`paths`] | the K most probable paths, draws of paths |
//! | [`occupancy`] | expected times in states, and visits |
//! | [`windows`] | parts of sequences as sequences |
//! | [`invariants`] | identities that every result satisfies, checked at run time |
//! | [`segmental`] | the E step of Viterbi training |
//! | [`maximise`] | the M step of the Baum-Welch algorithm |
//! | [`train`] | the loop of training, AIC and BIC |
//! | [`variational`] | variational Bayes |
//! | [`stochastic`] | training by batches of sequences |
//! | [`gradient`] | derivatives of ln P(O) with respect to all parameters |
//! | [`potentials`] | the sum over the paths of a chain with any potentials, and its derivatives |
//! | [`select`] | the choice of the number of states |
//! | [`solution`], [`checkpoint`] | results, and checkpoints of training |
//! | [`sample`], [`generate`] | sampling of sequences, generation of models |
//! | [`io`], [`plot`] | file formats and plots |
//! | [`info`], [`report`] | descriptions of models, reports of results |

pub mod ambiguous;
pub mod backend;
pub mod backends;
pub mod channels;
pub mod checkpoint;
pub mod covariances;
pub mod divided;
pub mod durations;
pub mod filter;
pub mod generate;
pub mod gradient;
pub mod info;
pub mod invariants;
pub mod io;
pub mod maximise;
pub mod model;
pub mod occupancy;
pub mod options;
pub mod paths;
pub mod place;
pub mod plot;
pub mod potentials;
pub mod report;
pub mod run;
pub mod sample;
pub mod segmental;
pub mod select;
pub mod sequences;
pub mod solution;
mod special;
pub mod stochastic;
mod ties;
pub mod train;
pub mod variational;
pub mod windows;
