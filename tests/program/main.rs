//! The program as a whole, and what the repository says of it.

mod architecture;
mod course;
mod features;
mod figures;
mod guarantees;
mod learn;
mod network;
mod newcomer;
mod packages;
mod pages;
mod pool;
mod process;
mod quiet;
mod readme;
mod schema;
mod validated;

mod manifest;
