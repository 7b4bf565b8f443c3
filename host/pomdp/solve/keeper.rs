//! Where the checkpoints of a search go.

use crate::checkpoint::Snapshot;
use warpkov_common::checkpoint::{Checkpoints, Hash};

/// Writes the checkpoints of a search, if this rank does. The ranks need not agree: the first knows all that they have
/// exchanged.
#[derive(Default)]
pub struct Keeper<'a> {
    /// Whether checkpoints are asked for.
    asked: bool,
    /// Where this rank writes them, with the hash of the model.
    target: Option<(&'a mut Checkpoints, Hash)>,
}

impl<'a> Keeper<'a> {
    /// The keeper of a model with this hash.
    #[must_use]
    pub fn new(checkpoints: Option<&'a mut Checkpoints>, model: impl FnOnce() -> Hash) -> Self {
        let asked = checkpoints.is_some();
        let target = checkpoints.filter(|checkpoints| checkpoints.writes());
        Self { asked, target: target.map(|checkpoints| (checkpoints, model())) }
    }

    /// Whether checkpoints are asked for, on all ranks.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.asked
    }

    /// Whether this rank writes checkpoints.
    #[must_use]
    pub fn keeps(&self) -> bool {
        self.target.is_some()
    }

    /// Whether the next one is due.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.target.as_ref().is_some_and(|(checkpoints, _)| checkpoints.is_due())
    }

    /// Writes a checkpoint.
    pub fn keep(&mut self, snapshot: &Snapshot) {
        if let Some((checkpoints, model)) = &mut self.target {
            checkpoints.save_with(|out| snapshot.write(*model, out));
        }
    }
}
