//! Undiscounted criteria as sums until the end: every policy ends almost surely, or loses without bound.
//!
//! All quantities are maximised: rewards of a minimised model change their sign. States whose value the graph decides
//! become *fixed*: 0, ±1 (goals to reach) or ±∞. End components in which a process can stay at no price are merged into
//! one *vertex*, since values within one are equal: each state reaches each other. Their inner rows vanish, and a row
//! that stays for ever, with a payoff, may take their place.
//!
//! | Criterion | Fixed | Merged |
//! | --- | --- | --- |
//! | reach, maximum | 0 where the goal cannot be reached | all components of the other states |
//! | reach, minimum | 0 where the goal can be avoided | none is left |
//! | total, gains (f ≥ 0) | ∞ where a policy may miss the goal; without a goal, where a component with a reward can be reached | without a goal, all others |
//! | total, costs (f ≤ 0) | −∞ where no policy surely reaches the goal; without a goal, the end or a component without costs | components without costs |
//! | total, both signs | none: refused if a state has an infinite value in either case above | with a goal none, without one all |
//! | average | 0 in states without actions | all components, which pay their gain to those who stay |
//!
//! Rows are divided by their sums.

use warpkov_mdp::model::{Mdp, Objective};

use crate::dyadic::sign_of_reward;
use crate::graph::{Backward, Components, NONE, Restricted};
use crate::interval::{Interval, Sum};

/// The origin of the row that stays in a component for ever.
pub(crate) const STAY: usize = usize::MAX;

/// Where the value of a state is found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Place {
    /// The graph decides the value.
    Fixed(f64),
    /// The vertex of the state.
    Open(u32),
}

/// An undiscounted criterion.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sums<'a> {
    /// The probability of reaching a set, one flag per state.
    Reach(&'a [bool]),
    /// The sum of rewards until a set is reached, or for ever.
    Total(Option<&'a [bool]>),
    /// The gain.
    Average,
}

/// A model of vertices. Each vertex has at least one row.
pub(crate) struct Reduced<'a> {
    pub model: Restricted<'a>,
    /// 1 to maximise, −1 to minimise.
    pub sign: f64,
    /// Whether rewards count.
    pub rewards: bool,
    /// The place of each state.
    pub place: Vec<Place>,
    /// Vertex v has the rows `first[v]..first[v + 1]` of `origin`.
    pub first: Vec<usize>,
    /// The row of the model behind each row, or [`STAY`].
    pub origin: Vec<usize>,
    /// The end components that are merged.
    pub components: Components,
    /// The component of each vertex, or [`NONE`].
    pub component: Vec<u32>,
}

/// The total reward is undefined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undefined {
    /// Rewards have both signs, and a policy may miss the goal.
    #[error(
        "the total reward is undefined: rewards have both signs, and some policy misses the goal from state {0}; \
         expected rewards of one sign, or a goal that every policy reaches"
    )]
    Missed(usize),
    /// Rewards have both signs, and a process can earn rewards for ever.
    #[error(
        "the total reward is undefined: rewards have both signs, and from state {0} a process can earn nonzero rewards \
         for ever; expected rewards of one sign, a goal, or the criterion average"
    )]
    Recurrent(usize),
}

/// What the graph says about the states of a model.
struct Found {
    /// Whether the value of each vertex of the graph is finite.
    finite: Vec<bool>,
    /// The value of the others.
    infinity: f64,
    components: Components,
    /// Whether a process may stay in a component for ever, at payoff 0.
    stay: bool,
}

impl<'a> Reduced<'a> {
    /// The vertices of a criterion.
    ///
    /// # Errors
    /// [`Undefined`], of total rewards.
    pub fn new(model: Restricted<'a>, sums: Sums<'_>) -> Result<Self, Undefined> {
        let graph = Backward::new(model);
        let objective = model.mdp.objective();
        let with_end = |set: &[bool]| set.iter().copied().chain([false]).collect::<Vec<_>>();
        match sums {
            Sums::Reach(goal) => {
                let goal = with_end(goal);
                let zero: Vec<bool> = match objective {
                    Objective::Maximize => graph.can_reach(&goal, |_, _| true).iter().map(|can| !can).collect(),
                    Objective::Minimize => graph.can_avoid(&goal),
                };
                let fixed = |state: usize| match (goal[state], zero[state]) {
                    (true, _) => Some(objective.sign()),
                    (_, zero) => zero.then_some(0.0),
                };
                let components = match objective {
                    Objective::Maximize => Components::new(model, |state, _| fixed(state).is_none()),
                    Objective::Minimize => Components::none(model),
                };
                Ok(Self::assemble(model, fixed, |_, _| true, components, false, false))
            }
            Sums::Total(goal) => {
                let goal = goal.map(with_end);
                let goal = goal.as_deref();
                let Found { finite, infinity, components, stay } = total(&graph, goal)?;
                let is_goal = |state: usize| goal.is_some_and(|goal| goal[state]);
                let fixed = |state: usize| match finite[state] {
                    false => Some(infinity),
                    true => (is_goal(state) || model.rows(state).is_empty()).then_some(0.0),
                };
                let allowed = |_: usize, row: usize| model.targets(row).all(|target| finite[target]);
                Ok(Self::assemble(model, fixed, allowed, components, stay, true))
            }
            Sums::Average => {
                let components = Components::new(model, |_, _| true);
                let fixed = |state: usize| model.rows(state).is_empty().then_some(0.0);
                Ok(Self::assemble(model, fixed, |_, _| true, components, true, false))
            }
        }
    }

    fn assemble(
        model: Restricted<'a>,
        fixed: impl Fn(usize) -> Option<f64>,
        allowed: impl Fn(usize, usize) -> bool,
        components: Components,
        stay: bool,
        rewards: bool,
    ) -> Self {
        let states = model.states();
        let mut vertex_of = vec![NONE; components.count];
        let mut component = Vec::new();
        let mut place = Vec::with_capacity(states);
        for state in 0..states {
            place.push(match (fixed(state), components.of_state[state]) {
                (Some(value), _) => Place::Fixed(value),
                (None, NONE) => {
                    component.push(NONE);
                    Place::Open(component.len() as u32 - 1)
                }
                (None, merged) => {
                    let vertex = &mut vertex_of[merged as usize];
                    if *vertex == NONE {
                        *vertex = component.len() as u32;
                        component.push(merged);
                    }
                    Place::Open(*vertex)
                }
            });
        }
        let mut rows: Vec<Vec<usize>> = vec![Vec::new(); component.len()];
        for (state, place) in place.iter().enumerate() {
            if let Place::Open(vertex) = *place {
                let leaves = |row: &usize| !components.inside[*row] && allowed(state, *row);
                rows[vertex as usize].extend(model.rows(state).filter(leaves));
            }
        }
        if stay {
            for (rows, component) in rows.iter_mut().zip(&component) {
                rows.extend((*component != NONE).then_some(STAY));
            }
        }
        let mut first = vec![0];
        let mut origin = Vec::new();
        for rows in rows {
            origin.extend(rows);
            first.push(origin.len());
        }
        let sign = model.mdp.objective().sign();
        Self { model, sign, rewards, place, first, origin, components, component }
    }

    /// The number of vertices.
    pub fn vertices(&self) -> usize {
        self.component.len()
    }

    /// The values of the states, by those of the vertices.
    pub fn values<T: Clone>(&self, of_vertex: &[T], fixed: impl Fn(f64) -> T) -> Vec<T> {
        let value = |place: &Place| match *place {
            Place::Fixed(value) => fixed(value),
            Place::Open(vertex) => of_vertex[vertex as usize].clone(),
        };
        self.place.iter().map(value).collect()
    }

    /// The action of each state, from the row of each vertex. In a component, states move to the one that leaves it, or stay. Where the
    /// graph decides the value, the action is that of `start`.
    pub fn policy(&self, rows: &[usize], start: &dyn Fn(usize) -> u32) -> Vec<u32> {
        let states = self.model.states();
        let action = |state: usize, row: usize| (row - self.model.mdp.choices().first(state)) as u32;
        let inside = |state: usize| self.model.rows(state).filter(|&row| self.components.inside[row]);
        let mut policy: Vec<u32> = (0..states).map(start).collect();
        let mut there = vec![true; states];
        for (state, place) in self.place.iter().enumerate() {
            let Place::Open(vertex) = *place else {
                // Where the goal can be avoided, the process stays among such states.
                let same = |row: &usize| self.model.successors(*row).all(|next| self.place[next] == *place);
                if *place == Place::Fixed(0.0)
                    && let Some(row) = self.model.rows(state).find(same)
                {
                    policy[state] = action(state, row);
                }
                continue;
            };
            let origin = self.origin[rows[vertex as usize]];
            if origin == STAY {
                policy[state] = inside(state).next().map_or(policy[state], |row| action(state, row));
            } else if self.model.rows(state).contains(&origin) {
                policy[state] = action(state, origin);
            } else {
                there[state] = false;
            }
        }
        let mut changed = true;
        while changed {
            changed = false;
            for state in 0..states {
                let leads = |row: &usize| self.model.successors(*row).any(|next| there[next]);
                if !there[state]
                    && let Some(row) = inside(state).find(leads)
                {
                    (policy[state], there[state], changed) = (action(state, row), true, true);
                }
            }
        }
        policy
    }

    /// The rewards of a row times the sum of the row, σ (c + Σ P R), with the sign of the objective; 0 if rewards do not count.
    pub fn reward(&self, row: usize) -> Interval {
        if self.rewards { scaled_reward(self.model.mdp, row) } else { Interval::ZERO }
    }
}

fn onward(mdp: &Mdp, row: usize) -> Sum {
    let mut sum = Sum::default();
    mdp.transitions().row(row).1.iter().for_each(|&p| sum.add(p));
    sum
}

/// The sum of a row without its end probability.
pub(crate) fn onward_sum(mdp: &Mdp, row: usize) -> Interval {
    onward(mdp, row).interval()
}

/// The sum σ of a row with its end probability.
pub(crate) fn row_sum(mdp: &Mdp, row: usize) -> Interval {
    let mut sum = onward(mdp, row);
    sum.add(mdp.end(row));
    sum.interval()
}

/// σ (c + Σ P R) of a row, with the sign of the objective.
pub(crate) fn scaled_reward(mdp: &Mdp, row: usize) -> Interval {
    let (_, probs) = mdp.transitions().row(row);
    let mut reward = Sum::default();
    mdp.rewards_of(row).zip(probs).for_each(|(r, &p)| reward.add_product(p, r));
    reward.add(mdp.action_reward(row));
    let scaled = row_sum(mdp, row) * reward.interval();
    if mdp.objective().sign() < 0.0 { -scaled } else { scaled }
}

fn total(graph: &Backward<'_>, goal: Option<&[bool]>) -> Result<Found, Undefined> {
    let model = graph.model;
    let states = model.states();
    let sign = model.mdp.objective().sign();
    let is_goal = |state: usize| goal.is_some_and(|goal| goal[state]);
    // The signs of the rewards, as written for a maximum. Those of all actions say what missing the goal is worth, also to a policy that
    // takes few of them.
    let mut signs = vec![0_i8; model.mdp.rows()];
    for state in (0..states).filter(|&state| !is_goal(state)) {
        for row in model.mdp.choices().rows(state) {
            signs[row] = sign_of_reward(model.mdp, row) * sign as i8;
        }
    }
    let has = |wanted: i8| signs.contains(&wanted);
    let first_infinite = |finite: &[bool]| (0..states).find(|&state| !finite[state]);
    let all_proper = |goal: &[bool]| Found {
        finite: graph.must_reach(goal),
        infinity: f64::INFINITY,
        components: Components::none(model),
        stay: false,
    };
    let for_ever = |counts: &dyn Fn(i8) -> bool| {
        let components = Components::new(model, |_, _| true);
        let mut earning = vec![false; components.count];
        for state in 0..states {
            for row in model.rows(state).filter(|&row| components.inside[row] && counts(signs[row])) {
                debug_assert!(components.inside[row]);
                earning[components.of_state[state] as usize] = true;
            }
        }
        let earns = |state: usize| components.of_state.get(state).is_some_and(|&of| of != NONE && earning[of as usize]);
        let sources: Vec<bool> = (0..=states).map(earns).collect();
        let finite = graph.can_reach(&sources, |_, _| true).into_iter().map(|infinite| !infinite).collect();
        Found { finite, infinity: f64::INFINITY, components, stay: true }
    };
    let maximize = model.mdp.objective() == Objective::Maximize;
    Ok(match (has(1), has(-1), goal) {
        (true, true, Some(goal)) => {
            let found = all_proper(goal);
            if let Some(state) = first_infinite(&found.finite) {
                return Err(Undefined::Missed(state));
            }
            found
        }
        (true, true, None) => {
            let found = for_ever(&|sign| sign != 0);
            if let Some(state) = first_infinite(&found.finite) {
                return Err(Undefined::Recurrent(state));
            }
            found
        }
        (true, false, Some(goal)) => all_proper(goal),
        (false, false, Some(goal)) if maximize => all_proper(goal),
        (true, false, None) => for_ever(&|sign| sign > 0),
        (false, false, None) if maximize => for_ever(&|sign| sign > 0),
        (false, _, _) => {
            let target: Vec<bool> = match goal {
                Some(goal) => goal.to_vec(),
                None => {
                    let free = Components::new(model, |_, row| signs[row] == 0);
                    let stops = |vertex: usize| {
                        vertex == states || model.rows(vertex).is_empty() || free.of_state[vertex] != NONE
                    };
                    (0..=states).map(stops).collect()
                }
            };
            let finite = graph.can_ensure(&target);
            let free = |state: usize, row: usize| {
                signs[row] == 0 && !is_goal(state) && finite[state] && model.targets(row).all(|target| finite[target])
            };
            let components = Components::new(model, free);
            Found { finite, infinity: f64::NEG_INFINITY, components, stay: goal.is_none() }
        }
    })
}
