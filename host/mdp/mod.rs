//! Markov decision processes.
