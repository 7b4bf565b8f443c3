//! Coroutines: functions with stacks of their own, which suspend and resume. Elsewhere than in a browser they switch stacks.

#[cfg(not(target_arch = "wasm32"))]
mod switched;
#[cfg(target_arch = "wasm32")]
mod unwound;

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use switched::{Bounds, LOCAL_LIMIT, Payload, Routine, Stack, Yielder, abandon};
#[cfg(target_arch = "wasm32")]
pub(crate) use unwound::{Bounds, LOCAL_LIMIT, Payload, Routine, Stack, Yielder, abandon};
