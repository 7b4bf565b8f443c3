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
    /// Whether all states of other ranks are ghosts, on every rank: the exchange is an all-gather of V.
    pub all_gather: bool,
}

/// Another rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// The rank.
    pub rank: u32,
    /// The own states that are ghosts there.
    pub sends: Sends,
    /// The ghosts here that it owns, ascending.
    pub ghosts: Range<usize>,
}

/// Own states that are ghosts of another rank, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sends {
    /// Neighbours.
    Run(Range<u32>),
    /// Others.
    List(Vec<u32>),
}

impl Default for Sends {
    fn default() -> Self {
        Self::Run(0..0)
    }
}

impl From<Vec<u32>> for Sends {
    /// Ascending states.
    fn from(states: Vec<u32>) -> Self {
        match states[..] {
            [] => Self::default(),
            [first, .., last] if (last - first) as usize + 1 == states.len() => Self::Run(first..last + 1),
            [only] => Self::Run(only..only + 1),
            _ => Self::List(states),
        }
    }
}

impl Sends {
    /// The number of states.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Run(run) => run.len(),
            Self::List(states) => states.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The states, if they are neighbours.
    #[must_use]
    pub fn run(&self) -> Option<Range<usize>> {
        match self {
            Self::Run(run) => Some(run.start as usize..run.end as usize),
            Self::List(_) => None,
        }
    }

    /// The states, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        let (run, list) = match self {
            Self::Run(run) => (run.clone(), &[][..]),
            Self::List(states) => (0..0, &states[..]),
        };
        run.chain(list.iter().copied())
    }
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
