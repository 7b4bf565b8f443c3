//! Reachability, total reward, average reward and finite horizons: known values, and random models solved exactly by
//! enumerating their policies.

mod common;
mod enumerated;
mod known;
mod published;
mod slow;
