//! The gain g: the expected reward per step in the long run.
//!
//! # Mathematics
//! If the gain is the same for all states, then min (Th − h) ≤ g ≤ max (Th − h) for every h, and the gain of the greedy
//! policy satisfies the lower bound, too. Sweeps bring the two bounds together if no policy is periodic. They therefore
//! run on a transformed model, which stays in its state with probability 1 − τ and has the gain τg (Puterman, *Markov
//! Decision Processes*, 1994, 8.5.3 and 8.5.4; the bounds are Odoni's, 1969). h is shifted from time to time so that it
//! does not grow, and converges to the bias.
//!
//! All states of an end component have the same optimal gain, because each can reach every other. A model of one
//! component, and of states that every policy leaves for it, is therefore solved as a whole. In other models, all
//! components are solved for their gains at once. The gain of the model is then a total reward: a process that stays in
//! a component is paid its gain, once (de Alfaro 1997; Ashok et al., *Value Iteration for Long-Run Average Reward in
//! MDPs*, 2017).
//!
//! Gains of components can cancel, so a relative ε refers to the resulting values, not to the gains themselves. If the
//! values are not close enough, the gains are computed again with a smaller ε.

mod parts;

use self::parts::{Gains, Parts};
use super::direct::gain::Gain;
use super::direct::model::{Model, expected};
use super::direct::{self, Big, Deepened, Halt, Numbers, Solution, Work, size};
use super::proper::{self, ExactTerms, Policies};
use super::{Bounded, Ended, Error, OPERATIONS, Session, middle, radius, signed};
use crate::analysis::graph::{EndComponents, Graph, NO_COMPONENT, NO_ROW};
use crate::analysis::quotient::{Quotient, QuotientParts, actions};
use crate::solution::Status;

/// τ, the probability that the transformed model takes a step of the original. τ and 1 − τ = 2⁻³ are exact in `f64`.
const TAU: f64 = 0.875;

/// Unit roundoff of `f64`.
const UNIT: f64 = f64::EPSILON / 2.0;

pub(super) fn solve<E: std::error::Error>(graph: &Graph, session: &mut Session<E>) -> Result<Bounded, Error<E>> {
    let mdp = graph.mdp();
    let states = mdp.states() as usize;
    let components = graph.end_components(|_| true);
    let may_end = graph.can_reach(&(0..=states).map(|v| graph.rows(v).is_empty()).collect::<Vec<_>>(), |_| true);
    let single = components.count == 1 && !may_end.contains[..states].contains(&true);
    let run = Average { graph, components: &components, single };
    let mut parts = Parts::new(&run)?;

    // Half of ε covers the gains of components, half the total reward of reaching them.
    let asked = session.options;
    if !single {
        session.options.epsilon /= 2.0;
    }
    let Bounded { lower, upper, policy, bias, status, .. } = run.solve(&mut parts, asked, session)?;
    session.options = asked;
    Ok(Bounded { bias, ..session.bounded(lower, upper, policy, status) })
}

/// The input of a solve.
struct Average<'a> {
    graph: &'a Graph<'a>,
    components: &'a EndComponents,
    /// Whether the model has one end component, which every policy reaches. Then all states form one part.
    single: bool,
}

impl Average<'_> {
    /// The part that a state belongs to: 0 in a `single` model, else its end component.
    fn part(&self, state: usize) -> Option<u32> {
        match self.single {
            true => Some(0),
            false => Some(self.components.of_state[state]).filter(|&part| part != NO_COMPONENT),
        }
    }

    /// Whether a row stays in its part.
    fn stays(&self, row: usize) -> bool {
        self.single || self.components.inside[row]
    }

    fn solve<E: std::error::Error>(
        &self,
        parts: &mut Parts,
        asked: super::Options,
        session: &mut Session<E>,
    ) -> Result<Bounded, Error<E>> {
        /// Maximum number of times that gains are computed.
        const ATTEMPTS: usize = 4;
        let mdp = self.graph.mdp();
        let entries = mdp.transitions().nnz();
        let mut allowance = session.allowance();
        let mut attempt = 0;
        let mut numbers = Numbers::FIRST;
        loop {
            let gains = parts.solve(&mut allowance, session)?;
            if gains.ended == Ended::Slow {
                let operations = allowance.operations(entries);
                let direct = self.eliminate(&gains.rows, asked, &mut numbers, operations, session)?;
                if let Some(direct) = direct.filter(|direct| direct.status != Status::Stalled) {
                    session.record_elimination(numbers, &direct.lower, &direct.upper);
                    return Ok(direct);
                }
                allowance.double();
                continue;
            }
            attempt += 1;
            let found = match self.single {
                true => self.with_one_gain(&gains),
                false => self.with_component_gains(&gains, session)?,
            };
            let status = match found.unsettled(&asked).next() {
                None if found.status == Status::Stalled => Status::Solved,
                Some(_) if found.status == Status::Solved => Status::Stalled,
                _ => found.status,
            };
            if status != Status::Stalled {
                return Ok(Bounded { status, ..found });
            }
            let close = attempt < ATTEMPTS && gains.ended == Ended::Met && !self.single;
            let Some(smallest) = smallest(&found).filter(|_| close) else {
                let direct = self.eliminate(&gains.rows, asked, &mut numbers, OPERATIONS, session)?;
                let better = |direct: &Bounded| direct.status != status || direct.error() <= found.error();
                let Some(direct) = direct.filter(better) else { return Ok(Bounded { status, ..found }) };
                session.record_elimination(numbers, &direct.lower, &direct.upper);
                return Ok(direct);
            };
            let closer = if asked.relative { asked.epsilon * smallest / 4.0 } else { asked.epsilon / 4.0 };
            let before = if session.options.relative { f64::INFINITY } else { session.options.epsilon };
            session.options.relative = false;
            session.options.epsilon = closer.min(before / 8.0);
        }
    }

    /// The solution if all states have the same gain.
    fn with_one_gain(&self, gains: &Gains) -> Bounded {
        let mdp = self.graph.mdp();
        let states = mdp.states() as usize;
        let (lower, upper) = (vec![gains.lower[0]; states], vec![gains.upper[0]; states]);
        let (lower, upper) = signed(mdp.objective(), lower, upper);
        let policy = actions(self.graph, gains.rows.iter().copied());
        let sign = mdp.objective().sign();
        let bias = Some(gains.bias.iter().map(|h| sign * h).collect());
        Bounded { bias, ..without_history(lower, upper, policy, gains.ended.status()) }
    }

    /// The solution if gains differ: the total reward of staying in components.
    fn with_component_gains<E: std::error::Error>(
        &self,
        gains: &Gains,
        session: &mut Session<E>,
    ) -> Result<Bounded, Error<E>> {
        let (graph, mdp) = (self.graph, self.graph.mdp());
        let states = mdp.states() as usize;
        let bounds = || gains.lower.iter().zip(&gains.upper);
        let pay: Vec<f64> = bounds().map(|(&lower, &upper)| middle(lower, upper)).collect();
        let options = session.options;
        if options.relative {
            let smallest = pay.iter().map(|g| g.abs()).filter(|&g| g > 0.0).fold(f64::INFINITY, f64::min);
            session.options.relative = false;
            session.options.epsilon *= if smallest.is_finite() { smallest } else { 1.0 };
        }
        let quotient = self.quotient(&pay)?;
        let component = self.component_of(&quotient);
        let stay = |state: usize, numbers: Numbers| numbers.big(pay[component[state]]);
        let source = ExactTerms { graph, reward: &|_, _, _| (Big::ZERO, Big::ZERO), stay: &stay };
        let found = proper::solve(&quotient, &source, Policies::Proper, session)?;
        session.options = options;

        // A process is paid once, so an error of the gains enters once.
        let off = bounds().map(|(&lower, &upper)| radius(lower, upper)).fold(0.0, f64::max);
        let mut lower = quotient.values(&found.lower, |_| 0.0);
        let mut upper = quotient.values(&found.upper, |_| 0.0);
        for state in (0..states).filter(|&state| !graph.rows(state).is_empty()) {
            lower[state] = (lower[state] - off).next_down();
            upper[state] = (upper[state] + off).next_up();
        }
        let (lower, upper) = signed(mdp.objective(), lower, upper);
        let policy = quotient.policy(graph, self.components, &found.rows, |state| gains.rows[state], |_| NO_ROW);
        let status = if gains.ended == Ended::Met { found.status } else { gains.ended.status() };
        Ok(without_history(lower, upper, policy, status))
    }

    /// The quotient with merged components. Staying in component i earns `pay[i]`.
    fn quotient<E: std::error::Error>(&self, pay: &[f64]) -> Result<Quotient, Error<E>> {
        let (graph, mdp) = (self.graph, self.graph.mdp());
        let open: Vec<bool> = (0..mdp.states() as usize).map(|state| !graph.rows(state).is_empty()).collect();
        let plan = QuotientParts {
            graph,
            open: &open,
            allowed: &vec![true; mdp.rows()],
            components: self.components,
            stay: Some(pay),
            reward: |_| 0.0,
            reward_size: pay.iter().map(|g| g.abs()).fold(0.0, f64::max),
        };
        Ok(plan.quotient()?)
    }

    /// The component of each state of the quotient, or 0 if it has none.
    fn component_of(&self, quotient: &Quotient) -> Vec<usize> {
        let mut component = vec![0; quotient.mdp.as_ref().map_or(0, |mdp| mdp.states() as usize)];
        for (state, &part) in self.components.of_state.iter().enumerate().filter(|(_, part)| **part != NO_COMPONENT) {
            if let Some(target) = quotient.target(state as u32) {
                component[target as usize] = part as usize;
            }
        }
        component
    }

    /// Solves by elimination within a budget of `operations`, starting from the policy that takes `rows` in its
    /// components. `None` if the model or the work exceeds the limits.
    fn eliminate<E: std::error::Error>(
        &self,
        rows: &[usize],
        asked: super::Options,
        numbers: &mut Numbers,
        operations: f64,
        session: &mut Session<E>,
    ) -> Result<Option<Bounded>, Error<E>> {
        let (graph, mdp) = (self.graph, self.graph.mdp());
        if mdp.transitions().nnz() > direct::ENTRIES {
            return Ok(None);
        }
        let count = if self.single { 1 } else { self.components.count as usize };
        let mut members = vec![Vec::new(); count];
        (0..mdp.states() as usize).for_each(|state| {
            if let Some(part) = self.part(state) {
                members[part as usize].push(state);
            }
        });
        let quotient = if self.single { None } else { Some(self.quotient(&vec![0.0; count])?) };
        let mut rows = rows.to_vec();
        let mut stop = || session.stop_requested();
        let mut work = Work::new(operations, &mut stop);
        let Deepened { found, interrupted } = direct::deepen(mdp, &asked, numbers, &mut work, |numbers, work| {
            self.solve_exactly(&members, quotient.as_ref(), &mut rows, numbers, work)
        });
        let found = found.map(|(settled, (policy, bias))| {
            let status = settled.status();
            let (lower, upper) = signed(mdp.objective(), settled.lower, settled.upper);
            Bounded { bias, ..without_history(lower, upper, policy, status) }
        });
        Ok(match interrupted {
            false => found,
            true => {
                let nothing = |bound: f64| vec![bound; mdp.states() as usize];
                let unknown = || {
                    let policy = actions(graph, rows.iter().copied());
                    without_history(nothing(f64::NEG_INFINITY), nothing(f64::INFINITY), policy, Status::Interrupted)
                };
                Some(Bounded { status: Status::Interrupted, ..found.unwrap_or_else(unknown) })
            }
        })
    }

    /// Bounds of all maximised gains in the precision of `numbers`, with a policy, and the bias if all states have the
    /// same gain.
    fn solve_exactly(
        &self,
        members: &[Vec<usize>],
        quotient: Option<&Quotient>,
        rows: &mut [usize],
        numbers: Numbers,
        work: &mut Work,
    ) -> Result<Solution<Found>, Halt> {
        let (graph, mdp) = (self.graph, self.graph.mdp());
        let states = mdp.states() as usize;
        let sign = mdp.objective().sign();
        let reward = |row: usize, sum: &Big, numbers: Numbers| expected(mdp, row, sign, sum, numbers);
        let mut number = vec![0; states];
        let mut gains = Vec::with_capacity(members.len());
        for states in members {
            (0..).zip(states).for_each(|(own, &state)| number[state] = own);
            let within = |row: usize| self.stays(row);
            let origin: Vec<usize> = states.iter().flat_map(|&s| graph.rows(s).filter(|&row| within(row))).collect();
            work.spend(4 * origin.iter().map(|&row| mdp.transitions().row(row).0.len() + 1).sum::<usize>(), numbers)?;
            let model = Model::of_part(graph, states, &number, &within, numbers, &reward);
            let start = |(own, &state): (usize, &usize)| {
                let all = model.rows_of(own);
                all.clone().find(|&row| origin[row] == rows[state]).unwrap_or(all.start)
            };
            let policy: Vec<usize> = states.iter().enumerate().map(start).collect();
            let gain = direct::gain::solve(&model, &policy, work)?;
            for (&state, &row) in states.iter().zip(&gain.rows) {
                rows[state] = origin[row];
            }
            gains.push(gain);
        }
        let Some(quotient) = quotient else {
            let Some(Gain { lower, upper, bias, .. }) = gains.pop() else { return Err(Halt::Coarse) };
            let bias = bias.iter().map(|h| sign * h.to_f64().value()).collect();
            let policy = actions(graph, rows.iter().copied());
            return Ok(Solution { lower: vec![lower; states], upper: vec![upper; states], rest: (policy, Some(bias)) });
        };
        let half = numbers.big(0.5);
        let pay: Vec<Big> = gains.iter().map(|gain| (&gain.lower + &gain.upper) * &half).collect();
        // The full width exceeds the distance of the midpoint from the gain. The second term bounds the rounding error
        // of the midpoint.
        let width =
            |gain: &Gain| (&gain.upper - &gain.lower) + numbers.error(4) * (size(&gain.lower) + size(&gain.upper));
        let off = gains.iter().map(width).fold(Big::ZERO, Big::max);
        let component = self.component_of(quotient);
        let stay = |state: usize, _: Numbers| pay[component[state]].clone();
        let nothing = |_: usize, _: &Big, _: Numbers| (Big::ZERO, Big::ZERO);
        work.spend(4 * mdp.transitions().nnz(), numbers)?;
        let model = Model::of_quotient(quotient, graph, numbers, &nothing, &stay);
        let first: Vec<usize> = (0..model.states()).map(|state| model.first[state]).collect();
        let found = direct::proper::solve(&model, &first, work)?;
        let moved = |bounds: &[Big], off: &Big| -> Vec<Big> {
            let values = (0..states).map(|state| match quotient.target(state as u32) {
                Some(target) => &bounds[target as usize] + off,
                None => Big::ZERO,
            });
            values.collect()
        };
        let (lower, upper) = (moved(&found.lower, &-&off), moved(&found.upper, &off));
        let policy = quotient.policy(graph, self.components, &found.rows, |state| rows[state], |_| NO_ROW);
        Ok(Solution { lower, upper, rest: (policy, None) })
    }
}

/// A policy, and the bias if all states have the same gain.
type Found = (Vec<u32>, Option<Vec<f64>>);

/// A solution without the history of the session.
fn without_history(lower: Vec<f64>, upper: Vec<f64>, policy: Vec<u32>, status: Status) -> Bounded {
    let (rounds, looks) = (Vec::new(), Vec::new());
    Bounded { lower, upper, policy, bias: None, status, bits: None, rounds, looks }
}

/// The smallest magnitude among the values not proven to be 0; `None` if one of these may be 0.
fn smallest(found: &Bounded) -> Option<f64> {
    let bounds = found.lower.iter().zip(&found.upper).filter(|(lower, upper)| **lower != 0.0 || **upper != 0.0);
    let of_value = |(&lower, &upper): (&f64, &f64)| (lower > 0.0 || upper < 0.0).then(|| lower.abs().min(upper.abs()));
    bounds.map(of_value).try_fold(f64::INFINITY, |least, size| Some(size?.min(least))).filter(|size| size.is_finite())
}
