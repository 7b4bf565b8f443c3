//! Carrier sense multiple access with collision detection, IEEE 802.3: as modelled with integer clocks by Kwiatkowska,
//! Norman, Sproston and Wang (2007) and in the Quantitative Verification Benchmark Set (`csma`).

use super::Error;
use super::explore::{Search, explore};
use crate::model::Mdp;
use warpkov_common::parameters::{Parameters as _, parameters};

parameters! {
    /// Stations that each have one message to send over a shared bus.
    ///
    /// A station that finds the bus free sends for 30 time units. Other stations detect the signal after 1 unit, so two
    /// stations may start within that time and collide. After its c-th collision, a station backs off for a random number
    /// of slots of 2 units, uniform below 2ᶜ, with c at most `backoff`. Actions select the next event, or a time step of 1
    /// unit, which earns 1. Undiscounted.
    ///
    /// Labels: `init`; `all_delivered`, where all rewards are 0; `one_delivered`; `collision_max_backoff`, a collision that
    /// involves a station with `backoff` collisions; `early`, some station delivered after fewer than `backoff` collisions.
    ///
    /// By default, 1,038 states.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Csma {
        /// N, the number of stations, 1 to 4.
        pub stations: u32 = 2, "N" in 1..=MOST as u32;
        /// K, the maximum backoff exponent, 1 to 10.
        pub backoff: u32 = 2, "K" in 1..=10;
    }
}

/// Time units to send a message.
const MESSAGE: u32 = 30;
/// Time units until all stations detect a signal.
const HEARD: u32 = 1;
/// Time units of a backoff slot.
const SLOT: u32 = 2 * HEARD;

/// State of the bus. `since` is the time since the first signal, `second` the time since a second signal collided with
/// it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Bus {
    Idle,
    Active { since: u32 },
    Collision { since: u32, second: u32 },
}

impl Bus {
    /// The bus after a time step, or `None` if it must act first.
    fn tick(self) -> Option<Self> {
        let later = |time: u32| (time + 1).min(HEARD + 1);
        match self {
            Self::Idle => Some(Self::Idle),
            Self::Active { since } => Some(Self::Active { since: later(since) }),
            Self::Collision { since, second } if second < HEARD => {
                Some(Self::Collision { since: later(since), second: later(second) })
            }
            Self::Collision { .. } => None,
        }
    }

    /// The bus after a station begins to send, or `None` if the bus does not allow it.
    fn send(self) -> Option<Self> {
        match self {
            Self::Idle => Some(Self::Active { since: 0 }),
            Self::Active { since } if since < HEARD => Some(Self::Collision { since, second: 0 }),
            Self::Collision { since, .. } if since < HEARD => Some(self),
            _ => None,
        }
    }

    /// Whether stations detect a signal.
    fn busy(self) -> bool {
        matches!(self, Self::Active { since } | Self::Collision { since, .. } if since >= HEARD)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Station {
    Begins,
    Sends {
        since: u32,
    },
    /// About to draw a number of slots.
    Collided,
    Waits {
        since: u32,
        slots: u32,
    },
    Delivered,
}

impl Station {
    /// The station after a time step, or `None` if it must act first.
    fn tick(self) -> Option<Self> {
        match self {
            Self::Sends { since } if since < MESSAGE => Some(Self::Sends { since: since + 1 }),
            Self::Waits { since, slots } if since < SLOT => Some(Self::Waits { since: since + 1, slots }),
            Self::Waits { slots, .. } if slots > 0 => Some(Self::Waits { since: 1, slots: slots - 1 }),
            Self::Delivered => Some(self),
            _ => None,
        }
    }
}

/// Capacity of a state: the maximum of `stations`.
const MOST: usize = 4;

/// The bus and, for each station, its state and its number of collisions, at most K.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct State {
    bus: Bus,
    stations: [(Station, u32); MOST],
}

const NAMES: [&str; 6] = ["time", "send", "busy", "end", "collision", "backoff"];

impl Csma {
    /// Generates the model.
    ///
    /// # Errors
    /// A field is out of its range.
    pub fn generate(&self) -> Result<Mdp, Error> {
        self.check()?;
        let (all, most) = (self.stations as usize, self.backoff);
        let start = State { bus: Bus::Idle, stations: [(Station::Begins, 0); MOST] };
        let explored = explore(start, &NAMES, |state, search| self.expand(state, search))?;
        let delivered = |state: &State| {
            state.stations[..all]
                .iter()
                .filter(|station| station.0 == Station::Delivered)
                .map(|station| station.1)
                .min()
        };
        let explored = explored
            .label("all_delivered", |state| self.delivered(state))
            .label("one_delivered", |state| delivered(state).is_some())
            .label("early", |state| delivered(state).is_some_and(|collisions| collisions < most))
            .label("collision_max_backoff", |state| {
                let limit = |&(station, collisions): &(Station, u32)| {
                    matches!(station, Station::Sends { .. }) && collisions == most
                };
                matches!(state.bus, Bus::Collision { .. }) && state.stations[..all].iter().any(limit)
            });
        Ok(explored.mdp)
    }

    fn delivered(&self, state: &State) -> bool {
        state.stations[..self.stations as usize].iter().all(|station| station.0 == Station::Delivered)
    }

    fn expand(&self, state: &State, search: &mut Search<State>) {
        let all = self.stations as usize;
        let collided = |collisions: u32| (Station::Collided, self.backoff.min(collisions + 1));
        let mut later = *state;
        let mut passes = state.bus.tick().map(|bus| later.bus = bus).is_some();
        for station in &mut later.stations[..all] {
            passes &= station.0.tick().map(|next| station.0 = next).is_some();
        }
        if passes {
            search.action(0, if self.delivered(state) { 0.0 } else { 1.0 }, [(1.0, later)]);
        }
        for (own, &(station, collisions)) in state.stations[..all].iter().enumerate() {
            let with = |bus, station| {
                let mut next = State { bus, ..*state };
                next.stations[own] = station;
                next
            };
            match station {
                Station::Begins | Station::Waits { since: SLOT, slots: 0 } => {
                    if let Some(bus) = state.bus.send() {
                        let sends = with(bus, (Station::Sends { since: 0 }, collisions));
                        search.action(1, 0.0, [(1.0, sends)]);
                    }
                    if state.bus.busy() {
                        search.action(2, 0.0, [(1.0, with(state.bus, collided(collisions)))]);
                    }
                }
                Station::Sends { since: MESSAGE } => {
                    if let Bus::Active { .. } = state.bus {
                        let free = with(Bus::Idle, (Station::Delivered, collisions));
                        search.action(3, 0.0, [(1.0, free)]);
                    }
                }
                Station::Collided => {
                    let slots = 1_u32 << collisions;
                    let waits = |slots| with(state.bus, (Station::Waits { since: 0, slots }, collisions));
                    search.action(5, 0.0, (0..slots).map(|drawn| (f64::from(slots).recip(), waits(drawn))));
                }
                _ => {}
            }
        }
        if let Bus::Collision { second, .. } = state.bus
            && second <= HEARD
        {
            let mut next = State { bus: Bus::Idle, ..*state };
            for station in &mut next.stations[..all] {
                if let Station::Sends { .. } = station.0 {
                    *station = collided(station.1);
                }
            }
            search.action(4, 0.0, [(1.0, next)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference: states from the benchmark set, transitions from PRISM's website.
    #[test]
    fn counts_are_those_of_the_benchmark() {
        let mdp = Csma::default().generate().unwrap();
        assert_eq!((mdp.states(), mdp.transitions().nnz()), (1038, 1282));
    }
}
