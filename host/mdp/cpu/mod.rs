//! The CPU: one core as the baseline, all of them, and the engine, which is all of them on a compact copy of the model.

mod engine;
mod krylov;
mod layout;
mod policy;
mod sequential;

pub use engine::{Engine, EngineOptions, Order};
pub use krylov::System;
pub use layout::Storage;
pub use policy::{Parallel, Serial};
pub use sequential::Sequential;
