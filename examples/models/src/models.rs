//! The models. The build script compiles this module for GPUs, and nothing else of the crate.

pub mod de_moor;
pub mod forest;
pub mod garnet;
pub mod hendrix;
pub mod mirjalili;
pub mod pallets;
pub mod von_mises;

pub use de_moor::DeMoor;
pub use forest::Forest;
pub use garnet::{CostGarnet, Faulty, Garnet};
pub use hendrix::Hendrix;
pub use mirjalili::Mirjalili;
pub use pallets::Pallets;
pub use von_mises::VonMises;
