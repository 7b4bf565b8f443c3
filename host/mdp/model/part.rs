//! The place of a rank's part in the whole model.

use std::ops::Range;

/// The place of a part in the whole model, and its neighbours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Number of the first own state in the whole model.
    pub first: u64,
    /// The number of states of the whole model.
    pub all: u64,
    /// The own states.
    pub own: Range<usize>,
    /// Whether the process of the whole model never ends.
    pub never_terminates: bool,
    /// Whether an own state has actions. If none has, the part holds one state more, behind the ghosts, which stays where
    /// it is: every [`Mdp`](super::Mdp) has a row.
    pub works: bool,
    /// The other ranks that have ghosts of this one, or whose states are ghosts here, in ascending order.
    pub peers: Vec<Peer>,
}

/// Another rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// The rank.
    pub rank: u32,
    /// The own states that are ghosts there, ascending.
    pub sends: Vec<u32>,
    /// The ghosts here that it owns, ascending.
    pub ghosts: Range<usize>,
}

impl Part {
    /// The number of states here: own ones, ghosts, and the one that stays if no own state has actions.
    #[must_use]
    pub fn states(&self) -> usize {
        self.own.len() + self.ghosts() + usize::from(!self.works)
    }

    /// The number of ghosts.
    #[must_use]
    pub fn ghosts(&self) -> usize {
        self.peers.iter().map(|peer| peer.ghosts.len()).sum()
    }

    /// The peers whose states are ghosts here.
    pub fn receives(&self) -> impl Iterator<Item = &Peer> {
        self.peers.iter().filter(|peer| !peer.ghosts.is_empty())
    }
}
