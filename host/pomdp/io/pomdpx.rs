//! POMDPX 1.0, the factored XML format of SARSOP's authors.
//!
//! States are all combinations of values of the state variables; the last variable varies fastest. Actions are
//! combinations in the same manner. Observations are combinations of the observation variables, followed by the fully
//! observed state variables, which are also known at the start. Names are joined by `_`. The reward is the sum of all
//! reward functions, in expectation over observations. State variables may depend on each other within a time step, but
//! not cyclically.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::Error;
use super::fault::Fault;
use super::pomdpx_function::{Function, MAX_ENTRIES, MAX_STATES, Variables};
use super::xml::{self, Element};
use crate::belief::Belief;
use crate::model::{Names, PomdpParts, scaled};
use warpkov_mdp::model::{Choices, Csr, MdpParts};

/// Maximum number of combinations with names.
const MAX_NAMES: u32 = 1 << 20;

/// Reads a model without validation.
pub fn read(text: &[u8], file: String) -> Result<PomdpParts, Error> {
    xml::parse(text).and_then(|root| model(&root)).map_err(|fault| fault.error(file, text))
}

/// A joint distribution: tables in topological order of their dependencies.
struct Joint {
    tables: Vec<Function>,
    /// Stride of each variable among all combinations.
    strides: HashMap<usize, usize>,
}

impl Joint {
    /// Reads the `CondProb`s of `targets`, which may also depend on `parents`.
    fn read(
        section: &Element,
        variables: &Variables,
        targets: &Range<usize>,
        parents: &[&Range<usize>],
        strides: HashMap<usize, usize>,
    ) -> Result<Self, Fault> {
        let mut waiting: Vec<Function> = Vec::new();
        for prob in section.all("CondProb") {
            let variable = prob.required("Var")?;
            let [target] = variables.named(variable, &[targets])?[..] else {
                return Err(Fault::new(variable.at, "expected <Var> to name one variable"));
            };
            if waiting.iter().any(|table| table.target() == target) {
                return Err(Fault::new(prob.at, format!("{} appears twice", variables.slots[target].name)));
            }
            let mut slots = match prob.child("Parent") {
                Some(parent) => variables.named(parent, &[parents, &[targets]].concat())?,
                None => Vec::new(),
            };
            slots.push(target);
            waiting.push(Function::read(prob, slots, variables, "ProbTable")?);
        }
        if let Some(missing) = targets.clone().find(|target| waiting.iter().all(|table| table.target() != *target)) {
            let (section_name, name) = (&section.name, &variables.slots[missing].name);
            return Err(Fault::new(section.at, format!("<{section_name}> has no <CondProb> of {name}")));
        }
        let mut tables = Vec::new();
        while let Some(first) = waiting.first() {
            let depends = |table: &Function| {
                let parents = &table.slots[..table.slots.len() - 1];
                waiting.iter().any(|other| parents.contains(&other.target()))
            };
            let Some(ready) = waiting.iter().position(|table| !depends(table)) else {
                return Err(Fault::new(first.at, "cyclic dependency between variables"));
            };
            tables.push(waiting.remove(ready));
        }
        Ok(Self { tables, strides })
    }

    /// The combinations with positive probability, ascending, given `values` of the parents.
    fn outcomes(
        &self,
        values: &mut [usize],
        variables: &Variables,
        outcomes: &mut Vec<(u32, f64)>,
    ) -> Result<(), Fault> {
        outcomes.clear();
        self.extend(0, (0, 1.0), values, variables, outcomes)?;
        outcomes.sort_unstable_by_key(|outcome| outcome.0);
        Ok(())
    }

    fn extend(
        &self,
        depth: usize,
        (index, weight): (usize, f64),
        values: &mut [usize],
        variables: &Variables,
        outcomes: &mut Vec<(u32, f64)>,
    ) -> Result<(), Fault> {
        let Some(table) = self.tables.get(depth) else {
            outcomes.push((index as u32, weight));
            return Ok(());
        };
        let (target, stride) = (table.target(), self.strides[&table.target()]);
        for (value, prob) in table.distribution(values, variables)?.iter().enumerate().filter(|(_, prob)| **prob > 0.0)
        {
            values[target] = value;
            self.extend(depth + 1, (index + value * stride, weight * prob), values, variables, outcomes)?;
        }
        Ok(())
    }
}

/// All combinations of the values of some variables, the last varying fastest.
struct Combinations {
    slots: Vec<usize>,
    /// Stride of each variable among the combinations.
    strides: HashMap<usize, usize>,
    count: u32,
}

impl Combinations {
    /// `None` if there are more than `most`.
    fn new(slots: Vec<usize>, variables: &Variables, most: u64) -> Option<Self> {
        let mut strides = HashMap::new();
        let mut stride: u64 = 1;
        for &slot in slots.iter().rev() {
            strides.insert(slot, stride as usize);
            stride = stride.checked_mul(variables.size(slot) as u64).filter(|&stride| stride <= most)?;
        }
        Some(Self { slots, strides, count: stride as u32 })
    }

    /// Names of all combinations. None if there are too many, or if two combinations would have the same name.
    fn names(&self, variables: &Variables) -> Vec<String> {
        if self.count > MAX_NAMES {
            return Vec::new();
        }
        let joined = |index: usize| {
            let mut index = index;
            let mut parts = Vec::new();
            for &slot in self.slots.iter().rev() {
                parts.push(&variables.slots[slot].values[index % variables.size(slot)][..]);
                index /= variables.size(slot);
            }
            parts.reverse();
            parts.join("_")
        };
        let names: Vec<String> = (0..self.count as usize).map(joined).collect();
        let distinct = names.iter().collect::<HashSet<_>>().len() == names.len();
        if distinct { names } else { Vec::new() }
    }

    /// Sets the values of the variables to those of combination `index`.
    fn assign(&self, mut index: usize, variables: &Variables, values: &mut [usize]) {
        for &slot in self.slots.iter().rev() {
            values[slot] = index % variables.size(slot);
            index /= variables.size(slot);
        }
    }
}

/// Builds a CSR matrix row by row.
struct Rows {
    row_ptr: Vec<u64>,
    col: Vec<u32>,
    val: Vec<f64>,
}

impl Rows {
    fn new() -> Self {
        Self { row_ptr: vec![0], col: Vec::new(), val: Vec::new() }
    }

    fn push(&mut self, entries: impl Iterator<Item = (u32, f64)>) {
        for (col, val) in entries {
            self.col.push(col);
            self.val.push(val);
        }
        self.row_ptr.push(self.col.len() as u64);
    }

    /// Fails if the matrix has too many nonzeros.
    fn check(&self, section: &Element) -> Result<(), Fault> {
        let most = self.col.len() as u64 <= MAX_ENTRIES;
        if most { Ok(()) } else { Err(Fault::new(section.at, format!("more than {MAX_ENTRIES} outcomes"))) }
    }
}

impl From<Rows> for Csr {
    fn from(Rows { row_ptr, col, val }: Rows) -> Self {
        Self::built(row_ptr, col, val)
    }
}

fn model(root: &Element) -> Result<PomdpParts, Fault> {
    if root.name != "pomdpx" {
        return Err(Fault::new(root.at, format!("found <{}>, expected <pomdpx>", root.name)));
    }
    let discount = root.required("Discount")?.word()?;
    let gamma = discount.real()?;
    if !(0.0..=1.0).contains(&gamma) {
        return Err(discount.unexpected("γ in [0, 1]"));
    }
    let factored = Factored::read(root)?;
    let start = factored.start(root)?;
    let (transitions, observations) = (factored.transitions(root)?, factored.observations(root)?);
    let (transitions, observations) = (scaled(transitions), scaled(observations));
    let (rewards, action_rewards) = factored.rewards(root, &transitions, &observations)?;
    let Factored { variables, actions, after, observed, .. } = &factored;
    let process = MdpParts {
        states: after.count,
        choices: Choices::Uniform(actions.count),
        gamma,
        transitions,
        rewards,
        action_rewards: action_rewards.into(),
        ..MdpParts::default()
    };
    let [states, actions, observation_names] = [after, actions, observed].map(|of| of.names(variables));
    let names = Names { states, actions, observations: observation_names };
    Ok(PomdpParts { process, observation_count: observed.count, observations, start, seen: factored.seen(), names })
}

/// The variables, and their combinations: the actions, the states before and after a transition, the observations.
struct Factored {
    variables: Variables,
    actions: Combinations,
    before: Combinations,
    after: Combinations,
    observed: Combinations,
}

impl Factored {
    fn read(root: &Element) -> Result<Self, Fault> {
        let variables = Variables::read(root)?;
        let place = root.required("Variable")?.at;
        let all = |slots: Vec<usize>, most: u64, what: &str| {
            let found = Combinations::new(slots, &variables, most);
            found.ok_or_else(|| Fault::new(place, format!("more than {most} {what}")))
        };
        let actions = all(variables.actions.clone().collect(), MAX_ENTRIES, "actions")?;
        let states = "states, the combinations of all state variables";
        let after = all(variables.after.clone().collect(), MAX_STATES, states)?;
        if u64::from(after.count) * u64::from(actions.count) > MAX_ENTRIES {
            return Err(Fault::new(place, format!("more than {MAX_ENTRIES} pairs of a state and an action")));
        }
        let before = all(variables.before.clone().collect(), MAX_STATES, "states")?;
        let observed: Vec<usize> = variables.observed.clone().chain(variables.seen.iter().copied()).collect();
        if observed.is_empty() {
            return Err(Fault::new(place, "<Variable> has neither an <ObsVar> nor a fully observed <StateVar>"));
        }
        let observed = all(observed, MAX_ENTRIES, "observations")?;
        Ok(Self { variables, actions, before, after, observed })
    }

    /// A value for each variable.
    fn values(&self) -> Vec<usize> {
        vec![0; self.variables.slots.len()]
    }

    /// The initial belief.
    fn start(&self, root: &Element) -> Result<Belief, Fault> {
        let (section, variables) = (root.required("InitialStateBelief")?, &self.variables);
        let joint = Joint::read(section, variables, &variables.before, &[], self.before.strides.clone())?;
        let mut outcomes = Vec::new();
        joint.outcomes(&mut self.values(), variables, &mut outcomes)?;
        let (states, probs) = outcomes.into_iter().unzip();
        Ok(Belief::built(states, probs))
    }

    /// P, in the order of states and then actions.
    fn transitions(&self, root: &Element) -> Result<Csr, Fault> {
        let Self { variables, actions, before, after, .. } = self;
        let section = root.required("StateTransitionFunction")?;
        let parents = [&variables.actions, &variables.before];
        let joint = Joint::read(section, variables, &variables.after, &parents, after.strides.clone())?;
        let (mut values, mut outcomes, mut rows) = (self.values(), Vec::new(), Rows::new());
        for state in 0..after.count as usize {
            before.assign(state, variables, &mut values);
            for action in 0..actions.count as usize {
                actions.assign(action, variables, &mut values);
                joint.outcomes(&mut values, variables, &mut outcomes)?;
                rows.push(outcomes.drain(..));
            }
            rows.check(section)?;
        }
        Ok(rows.into())
    }

    /// The observation probabilities, in the order of actions and then successors.
    fn observations(&self, root: &Element) -> Result<Csr, Fault> {
        let Self { variables, actions, after, observed, .. } = self;
        let section = if variables.observed.is_empty() { root } else { root.required("ObsFunction")? };
        let parents = [&variables.actions, &variables.after];
        let joint = Joint::read(section, variables, &variables.observed, &parents, observed.strides.clone())?;
        let (mut values, mut outcomes, mut rows) = (self.values(), Vec::new(), Rows::new());
        for action in 0..actions.count as usize {
            actions.assign(action, variables, &mut values);
            for state in 0..after.count as usize {
                after.assign(state, variables, &mut values);
                joint.outcomes(&mut values, variables, &mut outcomes)?;
                let told: usize = variables.seen.iter().map(|slot| values[*slot] * observed.strides[slot]).sum();
                rows.push(outcomes.drain(..).map(|(index, prob)| (index + told as u32, prob)));
            }
            rows.check(section)?;
        }
        Ok(rows.into())
    }

    /// The combination of the fully observed variables in each state; empty without such variables.
    fn seen(&self) -> Vec<u32> {
        let Self { variables, after, .. } = self;
        if variables.seen.is_empty() {
            return Vec::new();
        }
        let mut values = self.values();
        let part = |state: usize| {
            after.assign(state, variables, &mut values);
            variables.seen.iter().fold(0, |part, &slot| part * variables.size(slot) as u32 + values[slot] as u32)
        };
        (0..after.count as usize).map(part).collect()
    }

    /// The sum of all reward functions: R(s, a, s') in rows where it depends on s', and one number per row elsewhere.
    fn rewards(&self, root: &Element, transitions: &Csr, observations: &Csr) -> Result<(Csr, Vec<f64>), Fault> {
        let Self { variables, actions, before, after, observed } = self;
        let mut tables = Vec::new();
        if let Some(section) = root.child("RewardFunction") {
            for function in section.all("Func") {
                let slots = match function.child("Parent") {
                    Some(parent) => {
                        let Variables { actions, before, after, observed, .. } = variables;
                        variables.named(parent, &[actions, before, after, observed])?
                    }
                    None => Vec::new(),
                };
                tables.push(Function::read(function, slots, variables, "ValueTable")?);
            }
        }
        let uses = |table: &Function, range: &Range<usize>| table.slots.iter().any(|slot| range.contains(slot));
        // Functions of observations, of the successor, and of state and action only.
        let (observing, others): (Vec<_>, Vec<_>) =
            tables.into_iter().partition(|table| uses(table, &variables.observed));
        let (following, taking): (Vec<_>, Vec<_>) = others.into_iter().partition(|table| uses(table, &variables.after));
        let (states, action_count) = (before.count as usize, actions.count as usize);
        let mut values = self.values();
        let sum = |tables: &[Function], values: &[usize]| {
            tables.iter().fold(0.0, |sum, table| sum + table.number(values, variables))
        };
        let (mut rewards, mut action_rewards, mut row) = (Rows::new(), Vec::new(), Vec::new());
        for state in 0..states {
            before.assign(state, variables, &mut values);
            for action in 0..action_count {
                actions.assign(action, variables, &mut values);
                let taken = sum(&taking, &values);
                if following.is_empty() && observing.is_empty() {
                    action_rewards.push(taken);
                    rewards.push(std::iter::empty());
                    continue;
                }
                row.clear();
                for &successor in transitions.row(state * action_count + action).0 {
                    after.assign(successor as usize, variables, &mut values);
                    let mut reward = taken + sum(&following, &values);
                    if !observing.is_empty() {
                        let (seen, probs) = observations.row(action * states + successor as usize);
                        for (&observation, prob) in seen.iter().zip(probs) {
                            observed.assign(observation as usize, variables, &mut values);
                            reward += prob * sum(&observing, &values);
                        }
                    }
                    row.push((successor, reward));
                }
                let same = row.iter().all(|entry| entry.1 == row[0].1);
                action_rewards.push(if same { row.first().map_or(taken, |entry| entry.1) } else { 0.0 });
                rewards.push(row.drain(..).filter(|entry| !same && entry.1 != 0.0));
            }
        }
        if action_rewards.iter().all(|reward| *reward == 0.0) {
            action_rewards.clear();
        }
        Ok((rewards.into(), action_rewards))
    }
}
