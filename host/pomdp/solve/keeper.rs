//! Where the checkpoints of a search go.

use crate::common::checkpoint::{Checkpoints, Hash};
use crate::pomdp::checkpoint::Checkpoint;

/// Writes the checkpoints of a search, if this rank does. The ranks need not agree: the first knows all that they have
/// exchanged.
#[derive(Default)]
pub struct Keeper<'a>(Option<(&'a mut Checkpoints, Hash)>);

impl<'a> Keeper<'a> {
    /// The keeper of a model with this hash.
    #[must_use]
    pub fn new(checkpoints: Option<&'a mut Checkpoints>, model: impl FnOnce() -> Hash) -> Self {
        Self(checkpoints.filter(|checkpoints| checkpoints.writes()).map(|checkpoints| (checkpoints, model())))
    }

    /// Whether this rank writes checkpoints.
    #[must_use]
    pub fn keeps(&self) -> bool {
        self.0.is_some()
    }

    /// Whether the next one is due.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.0.as_ref().is_some_and(|(checkpoints, _)| checkpoints.is_due())
    }

    /// Writes a checkpoint.
    pub fn keep(&mut self, checkpoint: Checkpoint) {
        if let Some((checkpoints, model)) = &mut self.0 {
            checkpoints.save(&checkpoint.contents(*model));
        }
    }
}
