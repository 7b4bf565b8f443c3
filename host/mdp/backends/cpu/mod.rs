//! CPU backends: policy iteration on one core and on all, and the engine, which runs on all cores over
//! a compact copy of the model.

mod engine;
mod krylov;
mod layout;
mod policy;

pub use engine::{BackupOrder, Engine, EngineOptions};
pub use krylov::System;
pub use layout::Storage;
pub use policy::{Parallel, Serial};
