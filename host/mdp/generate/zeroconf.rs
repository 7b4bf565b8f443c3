//! IPv4 Zeroconf: Cheshire, Adoba and Guttman (2002); as modelled with integer clocks by Kwiatkowska, Norman, Parker
//! and Sproston (2006) and in the Quantitative Verification Benchmark Set (`zeroconf`).

use super::Error;
use super::explore::{Search, explore};
use crate::model::Mdp;
use warpkov_common::parameters::{Parameters as _, parameters};

parameters! {
    /// A host that joins a network and configures an address without a server.
    ///
    /// The host draws one of 65,024 addresses, probes `probes` times at intervals of 2 time units whether another host has
    /// it, announces it twice, and uses it. If another host answers before that, the host draws a new address; while it
    /// announces, it may instead defend the address. A message takes up to 1 time unit and is lost with probability 0.1.
    /// Actions select the next message, or a time step of 1 unit, which earns 1. Undiscounted.
    ///
    /// Labels: `init`; `configured`, the host uses its address; `collision`, another host uses the same address.
    ///
    /// By default, 670 states.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Zeroconf {
        /// N, the number of hosts that already have an address, 1 to 65,023.
        pub hosts: u32 = 20, "N" in 1..=65_023;
        /// K, the number of probes, 1 to 1000.
        pub probes: u32 = 2, "K" in 1..=1000;
        /// Keep the queued messages when the host gives up an address.
        pub no_reset: bool = false, "flag";
    }
}

const ADDRESSES: f64 = 65_024.0;
const LOSS: f64 = 0.1;
/// Collisions after which the host waits [`LONG_WAIT`] before it draws again.
const MOST_COLLISIONS: u32 = 10;
/// In time units.
const LONG_WAIT: u32 = 60;
/// Time units between probes and between announcements.
const INTERVAL: u32 = 2;
/// Minimum time units between two defences of an address.
const DEFEND: u32 = 10;
/// Queue capacity for messages to the host about other addresses.
const MOST_OTHER: u32 = 20;
/// Queue capacity for messages to the host about its address.
const MOST_SAME: u32 = 8;
/// Queue capacity for the host's own messages.
const MOST_OWN: usize = 8;

/// Address that a message concerns, relative to the host.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
enum Address {
    /// Not, or no longer, the host's address.
    #[default]
    Other,
    /// The host's address, which another host has, too.
    Taken,
    /// The host's address, which no other host has.
    Fresh,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Medium {
    Free,
    FromHost,
    ToHost,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum At {
    Reconfigure,
    Draw,
    Probe,
    Announce,
    Use,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct State {
    /// Queue of the host's own messages, next message first.
    own: [Address; MOST_OWN],
    own_count: usize,
    /// Queued messages to the host about other addresses.
    other: u32,
    /// Queued messages to the host about its address.
    same: u32,
    medium: Medium,
    /// Address in the message on the medium.
    message: Address,
    /// Time that the message has been on the medium.
    sending: u32,
    /// Clock of the host's present phase.
    clock: u32,
    since_defence: u32,
    collisions: u32,
    /// Probes sent; in [`At::Announce`], announcements sent.
    probes: u32,
    /// Whether the host must send a defence next.
    replies: bool,
    /// Whether the host has defended its address.
    defends: bool,
    address: Address,
    at: At,
}

const NAMES: [&str; 5] = ["time", "host", "send", "medium", "receive"];
const TIME: u32 = 0;
const HOST: u32 = 1;
const SEND: u32 = 2;
const MEDIUM: u32 = 3;
const RECEIVE: u32 = 4;

impl State {
    const START: Self = Self {
        own: [Address::Other; MOST_OWN],
        own_count: 0,
        other: 0,
        same: 0,
        medium: Medium::Free,
        message: Address::Other,
        sending: 0,
        clock: 0,
        since_defence: 0,
        collisions: 0,
        probes: 0,
        replies: false,
        defends: false,
        address: Address::Taken,
        at: At::Draw,
    };

    /// The state after the host gives up its address: messages about it now concern another address.
    fn reconfigured(&self, reset: bool) -> Self {
        Self {
            own: [Address::Other; MOST_OWN],
            own_count: if reset { 0 } else { self.own_count },
            other: MOST_OTHER.min(self.other + self.same),
            same: 0,
            message: Address::Other,
            at: At::Draw,
            ..*self
        }
    }

    /// The state after a time step, or `None` if another event must happen first.
    fn tick(&self) -> Option<Self> {
        let sending = match self.medium {
            Medium::Free if self.own_count == 0 && self.other == 0 && self.same == 0 => self.sending,
            Medium::FromHost | Medium::ToHost if self.sending == 0 => 1,
            _ => return None,
        };
        let waits = match self.at {
            At::Draw => self.collisions == MOST_COLLISIONS && self.clock < LONG_WAIT,
            At::Probe => self.clock < INTERVAL,
            At::Announce => !self.replies && self.clock < INTERVAL,
            At::Reconfigure | At::Use => false,
        };
        let defence = u32::from(self.at == At::Announce && self.defends);
        let since_defence = DEFEND.min(self.since_defence + defence);
        waits.then_some(Self { sending, clock: self.clock + 1, since_defence, ..*self })
    }

    /// Appends a message about the host's address to its queue, if there is room.
    fn queued(mut self) -> Self {
        if let Some(free) = self.own.get_mut(self.own_count) {
            *free = self.address;
            self.own_count += 1;
        }
        self
    }

    /// Removes the first message of the host's queue.
    fn unqueued(mut self) -> Self {
        self.own.rotate_left(1);
        self.own[MOST_OWN - 1] = Address::Other;
        self.own_count -= 1;
        self
    }
}

impl Zeroconf {
    /// Generates the model.
    ///
    /// # Errors
    /// A field is out of its range.
    pub fn generate(&self) -> Result<Mdp, Error> {
        self.check()?;
        let explored = explore(State::START, &NAMES, |state, search| {
            if state.at == At::Reconfigure {
                search.action(HOST, 0.0, [(1.0, state.reconfigured(!self.no_reset))]);
                return;
            }
            if let Some(later) = state.tick() {
                search.action(TIME, 1.0, [(1.0, later)]);
            }
            self.host(state, search);
            medium(state, search);
        })?;
        let explored = explored
            .label("configured", |state| state.at == At::Use)
            .label("collision", |state| state.at == At::Use && state.address == Address::Taken);
        Ok(explored.mdp)
    }

    /// Adds the host's actions.
    fn host(&self, state: &State, search: &mut Search<State>) {
        match state.at {
            At::Draw if state.collisions < MOST_COLLISIONS || state.clock == LONG_WAIT => {
                let taken = f64::from(self.hosts) / ADDRESSES;
                let drawn = [(Address::Taken, taken), (Address::Fresh, 1.0 - taken)];
                let after = |(address, p)| {
                    (0..3).map(move |clock| (p / 3.0, State { at: At::Probe, address, clock, ..*state }))
                };
                search.action(HOST, 0.0, drawn.into_iter().flat_map(after));
            }
            At::Probe if state.clock == INTERVAL && state.probes < self.probes => {
                let probed = State { clock: 0, probes: state.probes + 1, ..state.queued() };
                search.action(SEND, 0.0, [(1.0, probed)]);
            }
            At::Probe if state.clock == INTERVAL => {
                let announces = State { at: At::Announce, probes: 0, collisions: 0, clock: 0, ..*state };
                search.action(HOST, 0.0, [(1.0, announces)]);
            }
            At::Announce if state.replies => {
                search.action(SEND, 0.0, [(1.0, State { replies: false, ..state.queued() })]);
            }
            At::Announce if state.clock == INTERVAL => {
                let next = match state.probes {
                    0 => State { clock: 0, probes: 1, ..state.queued() },
                    _ => State { at: At::Use, clock: 0, since_defence: 0, probes: 0, ..state.queued() },
                };
                search.action(SEND, 0.0, [(1.0, next)]);
            }
            At::Use => search.action(HOST, 0.0, [(1.0, *state)]),
            _ => {}
        }
    }
}

/// Adds the events of the medium.
fn medium(state: &State, search: &mut Search<State>) {
    let mut starts = |medium: Medium, message: Address, rest: State| {
        search.action(MEDIUM, 0.0, [(1.0 - LOSS, State { medium, message, ..rest }), (LOSS, rest)]);
    };
    let free = State { medium: Medium::Free, sending: 0, message: Address::Other, ..*state };
    match state.medium {
        Medium::Free => {
            if state.own_count > 0 {
                starts(Medium::FromHost, state.own[0], state.unqueued());
            }
            if state.other > 0 {
                starts(Medium::ToHost, Address::Other, State { other: state.other - 1, ..*state });
            }
            if state.same > 0 {
                starts(Medium::ToHost, Address::Taken, State { same: state.same - 1, ..*state });
            }
        }
        // A host that has the address answers.
        Medium::FromHost => {
            let answered = match state.message {
                Address::Other => State { other: MOST_OTHER.min(state.other + 1), ..free },
                Address::Taken => State { same: MOST_SAME.min(state.same + 1), ..free },
                Address::Fresh => free,
            };
            search.action(MEDIUM, 0.0, [(1.0, answered)]);
        }
        Medium::ToHost => receive(state, free, search),
    }
}

/// Adds the host's reactions to the message on the medium. `free` is the state with the medium free.
fn receive(state: &State, free: State, search: &mut Search<State>) {
    let gives_up = State { at: At::Reconfigure, clock: 0, probes: 0, ..free };
    let mut receives = |next| search.action(RECEIVE, 0.0, [(1.0, next)]);
    let same = state.message == state.address;
    match state.at {
        At::Draw => receives(free),
        At::Probe if same => receives(State { collisions: MOST_COLLISIONS.min(state.collisions + 1), ..gives_up }),
        At::Announce if state.replies => {}
        At::Announce if same => {
            if !state.defends || state.since_defence >= DEFEND {
                receives(State { defends: true, replies: true, since_defence: 0, ..free });
            }
            if !state.defends || state.since_defence < DEFEND {
                receives(State { defends: false, since_defence: 0, ..gives_up });
            }
        }
        At::Probe | At::Announce => receives(free),
        At::Reconfigure | At::Use => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_those_of_the_benchmark() {
        let mdp = Zeroconf::default().generate().unwrap();
        assert_eq!(mdp.states(), 670);
    }
}
