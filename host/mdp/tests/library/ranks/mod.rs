//! Models divided among ranks: every method gives the values of one rank.

mod checkpoints;
mod common;
mod files;
mod generated;
mod methods;
mod parts;
