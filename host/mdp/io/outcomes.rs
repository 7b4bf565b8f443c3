//! Models of outcomes in any order: the state, the action, the next state, the probability and the reward of each, by names or by
//! numbers.

use std::collections::HashMap;
use std::sync::Arc;

use rayon::slice::ParallelSliceMut;

use super::rows::RowsBuilder;
use crate::model::MdpParts;
use crate::model::validate::ROW_SUM_TOLERANCE;
use warpkov_common::io::json::nearest;
use warpkov_common::io::lines::integer;
use warpkov_common::terminal::quoted;

/// The outcomes read so far.
#[derive(Default)]
pub struct Outcomes {
    states: Known,
    actions: Known,
    /// States in the order in which they come as states, not as next ones.
    order: Vec<u32>,
    /// Whether a state is in `order`.
    ordered: Vec<bool>,
    outcomes: Vec<Outcome>,
}

struct Outcome {
    state: u32,
    action: u32,
    next: u32,
    /// Where the file has it: a line, or an index.
    place: u64,
    probability: f64,
    reward: f64,
}

/// What is wrong with the outcomes, and at which place, if at one.
#[derive(Debug, PartialEq)]
pub struct Fault {
    pub place: Option<u64>,
    pub message: String,
}

impl Fault {
    fn new(message: String) -> Self {
        Self { place: None, message }
    }

    fn at(place: u64, message: String) -> Self {
        Self { place: Some(place), message }
    }
}

impl Outcomes {
    /// Outcomes of states and actions that are known before, in this order. Without a list, the names in the file are the names.
    pub fn new(states: Option<&[String]>, actions: Option<&[String]>) -> Self {
        let (states, actions) = (Known::new(states), Known::new(actions));
        let count = if states.given { states.names.len() } else { 0 };
        Self { order: (0..count as u32).collect(), ordered: vec![true; count], states, actions, outcomes: Vec::new() }
    }

    /// Notes a state. A state without outcomes has no actions.
    pub fn state(&mut self, state: &str, place: u64) -> Result<u32, String> {
        let state = self.states.number(state, "state", place)?;
        self.ordered.resize(self.states.names.len(), false);
        if !std::mem::replace(&mut self.ordered[state as usize], true) {
            self.order.push(state);
        }
        Ok(state)
    }

    /// Adds an outcome, which is at this place.
    pub fn add(
        &mut self,
        [state, action, next]: [&str; 3],
        [probability, reward]: [f64; 2],
        place: u64,
    ) -> Result<(), String> {
        if !(0.0..=1.0 + ROW_SUM_TOLERANCE).contains(&probability) {
            return Err(format!("found the probability {probability}, expected a number in [0, 1]"));
        }
        if !reward.is_finite() {
            return Err(format!("found the reward {reward}, expected a finite number"));
        }
        let state = self.state(state, place)?;
        let action = self.actions.number(action, "action", place)?;
        let next = self.states.number(next, "next state", place)?;
        self.outcomes.push(Outcome { state, action, next, place, probability, reward });
        Ok(())
    }

    /// Adds the outcomes of the rows behind these, as if each had been added. No names may be given.
    pub fn append(&mut self, more: Self) -> Result<(), String> {
        let states = self.states.append(&more.states)?;
        let actions = self.actions.append(&more.actions)?;
        self.ordered.resize(self.states.names.len(), false);
        for state in more.order {
            let state = states[state as usize];
            if !std::mem::replace(&mut self.ordered[state as usize], true) {
                self.order.push(state);
            }
        }
        self.outcomes.extend(more.outcomes.into_iter().map(|outcome| Outcome {
            state: states[outcome.state as usize],
            action: actions[outcome.action as usize],
            next: states[outcome.next as usize],
            ..outcome
        }));
        Ok(())
    }

    /// A note on the states that only come as next states, if there are any and the states are not given.
    pub fn note(&self) -> Option<String> {
        /// States that the note lists.
        const SHOWN: usize = 8;

        let is_only_next = |state: &usize| !self.ordered.get(*state).is_some_and(|ordered| *ordered);
        let mut only = (0..self.states.names.len()).filter(is_only_next);
        let shown: Vec<_> =
            only.by_ref().take(SHOWN).map(|state| quoted(self.states.names[state].as_bytes())).collect();
        let rest = if only.next().is_some() { ", …" } else { "" };
        let (states, have) = if shown.len() == 1 { ("state", "has") } else { ("states", "have") };
        let message = || format!("the {states} {}{rest} {have} no actions: the process ends there", shown.join(", "));
        (!shown.is_empty()).then(message)
    }

    /// Builds a model with γ = 1, without validation. `place` names a place in messages.
    ///
    /// If all states are numbers, they are 0 … S − 1. Otherwise they are names, in the order in which they come as states, before those
    /// that only come as next states. The actions of a state are in the order of their numbers if all are numbers, else in that in which
    /// the names first come.
    pub fn into_model(mut self, place: impl Fn(u64) -> String) -> Result<MdpParts, Fault> {
        if self.outcomes.is_empty() {
            return Err(Fault::new("found no transitions, expected at least one".to_owned()));
        }
        let count = self.states.names.len();
        self.ordered.resize(count, false);
        let names = match self.states.numbers() {
            Some(numbers) => {
                self.check_numbers(&numbers)?;
                self.outcomes.iter_mut().for_each(|outcome| {
                    outcome.state = numbers[outcome.state as usize];
                    outcome.next = numbers[outcome.next as usize];
                });
                None
            }
            None => {
                let rest = (0..count as u32).filter(|&state| !self.ordered[state as usize]);
                self.order.extend(rest);
                let mut rank = vec![0; count];
                self.order.iter().zip(0..).for_each(|(&state, number)| rank[state as usize] = number);
                self.outcomes.iter_mut().for_each(|outcome| {
                    outcome.state = rank[outcome.state as usize];
                    outcome.next = rank[outcome.next as usize];
                });
                Some(self.order.iter().map(|&state| self.states.names[state as usize].to_string()).collect::<Vec<_>>())
            }
        };
        let action_numbers = self.actions.numbers();
        if let Some(numbers) = &action_numbers {
            self.outcomes.iter_mut().for_each(|outcome| outcome.action = numbers[outcome.action as usize]);
        }
        let state_name = |state: u32| match &names {
            Some(names) => quoted(names[state as usize].as_bytes()),
            None => state.to_string(),
        };
        let action_name = |action: u32| match &action_numbers {
            Some(_) => action.to_string(),
            None => self.actions.names[action as usize].to_string(),
        };
        self.outcomes.par_sort_unstable_by_key(|outcome| (outcome.state, outcome.action, outcome.next));

        let mut rows = RowsBuilder::default();
        for own in self.outcomes.chunk_by(|a, b| a.state == b.state) {
            for (action, row) in (0..).zip(own.chunk_by(|a, b| a.action == b.action)) {
                let Outcome { state, action: name, place: first, .. } = row[0];
                let of = || format!("action {} of state {}", quoted(action_name(name).as_bytes()), state_name(state));
                rows.begin(state, action);
                rows.named(&action_name(name));
                for outcome in row {
                    rows.entry(outcome.next, outcome.probability, outcome.reward);
                }
                if let Some(same) = row.windows(2).find(|pair| pair[0].next == pair[1].next) {
                    let mut places = [same[0].place, same[1].place];
                    places.sort_unstable();
                    let (before, next) = (place(places[0]), state_name(same[0].next));
                    let message = format!("{} leads to state {next} here and in {before}, expected once", of());
                    return Err(Fault::at(places[1], message));
                }
                let sum: f64 = row.iter().map(|outcome| outcome.probability).sum();
                if (sum - 1.0).abs() > ROW_SUM_TOLERANCE {
                    let message = format!("the probabilities of {} sum to {sum}, expected 1", of());
                    return Err(Fault::at(row.iter().map(|outcome| outcome.place).min().unwrap_or(first), message));
                }
            }
        }
        let parts = rows.into_model(count as u32).map_err(|gap| Fault::new(gap.to_string()))?;
        Ok(MdpParts { state_names: names.map(Arc::new), ..parts })
    }

    /// Checks that the numbers of states, one per state, are 0 … S − 1.
    fn check_numbers(&self, numbers: &[u32]) -> Result<(), Fault> {
        let count = numbers.len();
        let mut found = vec![false; count];
        numbers.iter().filter(|&&number| (number as usize) < count).for_each(|&number| found[number as usize] = true);
        let Some(missing) = found.iter().position(|found| !found) else { return Ok(()) };
        let (largest, place) = numbers.iter().zip(&self.states.places).max().map_or((0, 0), |(&n, &place)| (n, place));
        let expected = "expected the numbers from 0 to S − 1 without gaps, or names";
        Err(match missing == 0 && largest as usize == count {
            true => Fault::new(format!("the states are numbered from 1 to {count}, {expected}")),
            false => Fault::at(place, format!("found state {largest}, but no state {missing}; {expected}")),
        })
    }
}

/// Names in the order in which they first come.
#[derive(Default)]
struct Known {
    numbers: HashMap<Arc<str>, u32>,
    names: Vec<Arc<str>>,
    /// Where each first came.
    places: Vec<u64>,
    /// Whether no other names may come.
    given: bool,
    /// The last one asked for.
    last: u32,
}

impl Known {
    fn new(names: Option<&[String]>) -> Self {
        let mut known = Self { given: names.is_some(), ..Self::default() };
        for name in names.unwrap_or_default() {
            known.insert(name, 0);
        }
        known
    }

    fn insert(&mut self, name: &str, place: u64) -> u32 {
        let (number, name) = (self.names.len() as u32, Arc::<str>::from(name));
        self.names.push(Arc::clone(&name));
        self.places.push(place);
        self.numbers.insert(name, number);
        number
    }

    /// The numbers here of the names of `more`, which are added.
    fn append(&mut self, more: &Self) -> Result<Vec<u32>, String> {
        more.names.iter().zip(&more.places).map(|(name, &place)| self.number(name, "", place)).collect()
    }

    /// The number of a name.
    fn number(&mut self, name: &str, what: &str, place: u64) -> Result<u32, String> {
        // Rows of one state follow one another.
        if self.names.get(self.last as usize).is_some_and(|last| **last == *name) {
            return Ok(self.last);
        }
        self.last = self.found(name, what, place)?;
        Ok(self.last)
    }

    fn found(&mut self, name: &str, what: &str, place: u64) -> Result<u32, String> {
        match self.numbers.get(name) {
            Some(&number) => Ok(number),
            None if name.is_empty() => Err(format!("found no {what}, expected a name or a number")),
            None if self.given => {
                /// Names that are compared for a hint, as the message shall not take long.
                const COMPARED: usize = 10_000;

                let names: Vec<&str> = self.names.iter().take(COMPARED).map(|name| &**name).collect();
                let hint = nearest(name, &names).map_or_else(String::new, |near| format!(", did you mean \"{near}\"?"));
                Err(format!("found the {what} \"{}\", expected one of the given names{hint}", quoted(name.as_bytes())))
            }
            None if self.names.len() == u32::MAX as usize => Err(format!("found more than {} names", u32::MAX)),
            None => Ok(self.insert(name, place)),
        }
    }

    /// The names as numbers, if they are not given and all are numbers as people write them.
    fn numbers(&self) -> Option<Vec<u32>> {
        if self.given {
            return None;
        }
        self.names.iter().map(|name| number(name)).collect()
    }
}

/// A number without sign and leading zeros, below 2³² − 1.
pub fn number(text: &str) -> Option<u32> {
    let plain = text == "0" || !text.starts_with('0');
    integer(text.as_bytes()).filter(|_| plain)?.try_into().ok().filter(|&number| number < u32::MAX)
}
