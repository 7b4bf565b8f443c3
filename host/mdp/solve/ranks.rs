//! Solves on several ranks: each solves a part of the states.

use warpkov_runtime::comm::{Clocked, Communicator};

use std::borrow::Cow;
use std::ops::Range;
use std::time::Instant;

use super::auto::{by_method, order};
use super::session::{Next, Start, Values, Watch};
use crate::analysis::divide::{GhostOrder, agreed, balanced, by_metis, cut};
use crate::analysis::partition::Proposal;
use crate::auto::Features;
use crate::error::SolveError;
use crate::model::{Mdp, Whole};
use crate::options::{Divide, Method, Precision, Reorder, SolveOptions};
use crate::solution::{RankWork, Round, Solution};
use crate::team::Team;

/// Solves a model that every rank has whole: its states are divided in their [order](SolveOptions::reorder) into parts of equal work.
/// The solution of rank 0 has the values and the policy of all states, those of the other ranks none.
pub(super) fn solve_shared(
    comm: &dyn Communicator,
    mdp: &Mdp,
    initial: Values,
    start: Start,
    options: &SolveOptions,
    watch: &mut Watch,
) -> Result<Solution, SolveError> {
    let (mut order, note) = order(mdp, options).unzip();
    let mut notes = Vec::from_iter(note);
    let mut ordered = order.as_ref().map(|order| order.apply(mdp));
    let mut borders = None;
    if options.divide != Divide::Contiguous {
        let model = ordered.as_ref().unwrap_or(mdp);
        let Proposal { parts, note } = by_metis(model, options.divide == Divide::Auto, comm)?;
        notes.extend(note);
        if let Some((next, splits)) = parts {
            ordered = Some(next.apply(model));
            order = Some(order.map_or_else(|| next.clone(), |order| order.then(&next)));
            borders = Some(splits);
        }
    }
    let Some(order) = order else {
        let mut solution = solve_parts(comm, mdp, borders, initial, start, options, watch)?;
        solution.values = comm.collect(&solution.values)?;
        solution.policy = comm.collect(&solution.policy)?;
        solution.notes.splice(0..0, notes);
        return Ok(Solution { first: 0, ..solution });
    };
    let initial = agreed(initial(0..mdp.states().into()), comm)?.map(|values| order.to_new(&values));
    let of_states = |states: Range<u64>| {
        Ok(initial.as_ref().map(|values| Cow::from(&values[states.start as usize..states.end as usize])))
    };
    // The first rank has the values of all states, in the order of the model.
    let whole = |own: &[f64]| {
        let all = comm.collect(own)?;
        Ok(if comm.rank() == 0 { order.to_old(&all) } else { all })
    };
    let mut watch = watch.mapped(|own| whole(&own));
    let model = ordered.as_ref().unwrap_or(mdp);
    let mut solution = solve_parts(comm, model, borders, &of_states, start, options, &mut watch)?;
    solution.values = whole(&solution.values)?;
    solution.policy = comm.collect(&solution.policy)?;
    if comm.rank() == 0 {
        solution.policy = order.to_old(&solution.policy);
    }
    solution.notes.splice(0..0, notes);
    Ok(Solution { first: 0, ..solution })
}

/// Solves a model of which each rank reads, solves and returns a part: contiguous states, in the order of the model, of
/// about equal work unless `borders` divide them. No rank holds more than its part and its ghosts. Checkpoints get the values of the own states.
pub(super) fn solve_parts(
    comm: &dyn Communicator,
    whole: &dyn Whole,
    borders: Option<Vec<u64>>,
    initial: Values,
    start: Start,
    options: &SolveOptions,
    watch: &mut Watch,
) -> Result<Solution, SolveError> {
    let begun = Instant::now();
    let clocked = Clocked::new(comm);
    let comm: &dyn Communicator = &clocked;
    let order = match options.method {
        Some(Method::Projected(_) | Method::Modified | Method::Krylov) => GhostOrder::Behind,
        _ => GhostOrder::Around,
    };
    let splits = borders.map_or_else(|| balanced(whole, comm), Ok)?;
    let rank = comm.rank() as usize;
    let initial = agreed(initial(splits[rank]..splits[rank + 1]), comm)?;
    let part = cut(whole, &splits, order, comm)?;
    let of_rank = part.part().cloned().unwrap_or_default();
    let team = Team::new(comm, &of_rank);
    let options = &SolveOptions { reorder: Reorder::None, ..*options };
    let features = Features::if_auto(&part, &team, options)?;
    let mut initial = initial.map(|values| {
        let mut local = vec![0.0; part.states() as usize];
        local[part.own()].copy_from_slice(&values);
        local
    });
    if let Some(initial) = &mut initial {
        team.refresh(initial)?;
    }
    let start = Start { values: initial.as_deref(), ..start };
    let own = part.own();
    let Watch { follow, keep } = watch.mapped(|values| Ok(values[own.clone()].to_vec()));
    // A stop request reaches the ranks at different times, and the clock of the first says when a checkpoint is due.
    let mut follow = |round: &Round| {
        let next = follow(round)?;
        let mut most = [f64::from(next as u8)];
        team.max(&mut most)?;
        Ok([Next::Continue, Next::Keep, Next::Stop][most[0] as usize])
    };
    let mut watch = Watch { follow: &mut follow, keep };
    let mut solution = by_method(&part, &team, start, options, features, begun, &mut watch)?;
    drop(watch);
    let local = options.local_sweeps;
    if local > 1 && solution.method == Method::Values && solution.precision != Precision::Refined {
        solution.notes.push(format!("ranks exchange values every {local} sweeps"));
    }
    solution.values.truncate(part.own().end);
    solution.values.drain(..part.own().start);
    solution.policy.truncate(part.own().end);
    solution.policy.drain(..part.own().start);
    solution.ranks = clocked.shares(&solution.device, RankWork::new(&part).unwrap_or_default())?;
    Ok(solution)
}
