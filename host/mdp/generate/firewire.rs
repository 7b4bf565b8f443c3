//! Root contention in IEEE 1394: Stoelinga and Vaandrager (1999); with integer clocks as by Kwiatkowska, Norman and
//! Sproston (2003) and in the Quantitative Verification Benchmark Set (`firewire`).

use super::Error;
use super::explore::{Search, explore};
use crate::model::Mdp;
use warpkov_common::parameters::{FRACTION, Parameters as _, parameters};

parameters! {
    /// Two nodes of a bus that each ask the other to be the root. They wait at random and retry until one asks while the
    /// other waits.
    ///
    /// A node tosses a coin to wait for a short (fast) or a long (slow) time within bounds. Signals travel along two wires,
    /// one per direction. A wire holds at most two signals, each for at most `delay` time units. Actions select the next
    /// signal to send or receive, or a time step of 1 unit, which earns 1. Undiscounted.
    ///
    /// Labels: `init`; `elected`, one node is the root and the other its child. These states are absorbing with reward 0.
    ///
    /// By default, 4,093 states.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Firewire {
        /// Maximum travel time of a signal, in time units, 1 to 360.
        pub delay: u32 = 3, "TIME" in 1..=360;
        /// The probability of the short waiting time, in [0, 1].
        pub fast: f64 = 0.5, "P" in FRACTION;
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Signal {
    Request,
    Acknowledge,
    Idle,
}

/// One direction of the cable: up to two signals, and the time since each was sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Wire {
    first: Option<Signal>,
    second: Option<Signal>,
    ages: [u32; 2],
}

impl Wire {
    const EMPTY: Self = Self { first: None, second: None, ages: [0, 0] };

    /// The wire after `signal` is sent, or `None` if the wire is full. A repetition of the last signal has no effect.
    fn send(self, signal: Signal) -> Option<Self> {
        match (self.first, self.second) {
            (None, _) => Some(Self { first: Some(signal), ..Self::EMPTY }),
            (Some(last), None) | (_, Some(last)) if last == signal => Some(self),
            (Some(_), None) => Some(Self { second: Some(signal), ages: [self.ages[0], 0], ..self }),
            (Some(_), Some(_)) => None,
        }
    }

    /// The wire after `signal` is received, or `None` if it is not the first on the wire.
    fn receive(self, signal: Signal) -> Option<Self> {
        match (self.first, self.second) {
            (Some(first), None) if first == signal => Some(Self::EMPTY),
            (Some(first), second) if first == signal => Some(Self { first: second, second: None, ..self }),
            _ => None,
        }
    }

    /// The wire after a time step, or `None` if a signal must arrive first. The oldest signal decides: `ages[1]` is the
    /// age of a single signal, `ages[0]` the age of the first of two.
    fn tick(self, delay: u32) -> Option<Self> {
        let age = match (self.first, self.second) {
            (None, _) => return Some(self),
            (Some(_), None) => self.ages[1],
            (Some(_), Some(_)) => self.ages[0],
        };
        (age < delay).then(|| Self { ages: self.ages.map(|age| (age + 1).min(delay + 1)), ..self })
    }
}

/// The last signal that a node received from the other.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Heard {
    Request,
    Idle,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Node {
    /// About to toss a coin.
    Contends(Heard),
    /// Has waited for `since` time units.
    Waits {
        heard: Heard,
        fast: bool,
        since: u32,
    },
    /// Has asked the other to be the root.
    Asks,
    Root,
    Child,
}

impl Node {
    /// The node after a time step, or `None` if it must act first.
    fn tick(self) -> Option<Self> {
        match self {
            Self::Contends(_) => None,
            Self::Waits { heard, fast, since } if since < if fast { 85 } else { 167 } => {
                Some(Self::Waits { heard, fast, since: since + 1 })
            }
            Self::Waits { .. } => None,
            Self::Asks | Self::Root | Self::Child => Some(self),
        }
    }

    /// The node after it receives `signal`, or `None` if it does not accept it.
    fn receive(self, signal: Signal) -> Option<Self> {
        let heard = match signal {
            Signal::Request => Heard::Request,
            Signal::Idle => Heard::Idle,
            Signal::Acknowledge => return (self == Self::Asks).then_some(Self::Child),
        };
        match self {
            Self::Contends(before) if before != heard => Some(Self::Contends(heard)),
            Self::Waits { heard: before, fast, since } if before != heard => Some(Self::Waits { heard, fast, since }),
            Self::Asks if heard == Heard::Request => Some(Self::Contends(Heard::Request)),
            _ => None,
        }
    }

    /// The signal that ends a sufficient wait, and the node's next state.
    fn answer(self) -> Option<(Signal, Self)> {
        match self {
            Self::Waits { heard, fast, since } if since >= if fast { 76 } else { 159 } => Some(match heard {
                Heard::Request => (Signal::Acknowledge, Self::Root),
                Heard::Idle => (Signal::Request, Self::Asks),
            }),
            _ => None,
        }
    }
}

/// Each node with its outgoing wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct State([(Node, Wire); 2]);

impl State {
    fn elected(&self) -> bool {
        matches!(self.0.map(|(node, _)| node), [Node::Root, Node::Child] | [Node::Child, Node::Root])
    }
}

const NAMES: [&str; 4] = ["time", "send", "receive", "done"];

impl Firewire {
    /// Generates the model.
    ///
    /// # Errors
    /// A field is out of its range.
    pub fn generate(&self) -> Result<Mdp, Error> {
        self.check()?;
        let start = State([(Node::Contends(Heard::Request), Wire::EMPTY); 2]);
        let explored = explore(start, &NAMES, |state, search| self.expand(state, search))?;
        Ok(explored.label("elected", State::elected).mdp)
    }

    fn expand(&self, state: &State, search: &mut Search<State>) {
        if state.elected() {
            search.action(3, 0.0, [(1.0, *state)]);
        }
        let tick = |(node, wire): (Node, Wire)| Some((node.tick()?, wire.tick(self.delay)?));
        if let [Some(first), Some(second)] = state.0.map(tick) {
            search.action(0, if state.elected() { 0.0 } else { 1.0 }, [(1.0, State([first, second]))]);
        }
        for own in 0..2 {
            let (node, wire) = state.0[own];
            let with = |node, wire| {
                let mut next = *state;
                next.0[own] = (node, wire);
                next
            };
            if let Node::Contends(heard) = node
                && let Some(wire) = wire.send(Signal::Idle)
            {
                let waits = |fast| with(Node::Waits { heard, fast, since: 0 }, wire);
                search.action(1, 0.0, [(self.fast, waits(true)), (1.0 - self.fast, waits(false))]);
            }
            if let Some((signal, node)) = node.answer()
                && let Some(wire) = wire.send(signal)
            {
                search.action(1, 0.0, [(1.0, with(node, wire))]);
            }
            for signal in [Signal::Request, Signal::Acknowledge, Signal::Idle] {
                let (sender, cable) = state.0[1 - own];
                if let Some(node) = node.receive(signal)
                    && let Some(cable) = cable.receive(signal)
                {
                    let mut next = with(node, wire);
                    next.0[1 - own] = (sender, cable);
                    search.action(2, 0.0, [(1.0, next)]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference: states from the benchmark set, transitions from PRISM's website. PRISM counts a second self-loop in
    /// each of the two elected states.
    #[test]
    fn counts_are_those_of_the_benchmark() {
        let mdp = Firewire::default().generate().unwrap();
        assert_eq!(mdp.labels()["elected"].len(), 2);
        assert_eq!((mdp.states(), mdp.transitions().nnz() + 2), (4093, 5585));
    }
}
