//! The solve of a model in its own state order, with one method.

use rayon::prelude::*;

use super::certify::{Certified, until_certified};
use super::place::Placement;
use super::session::{Start, Watch};
use crate::auto::{Features, trial};
use crate::backends::dynamic::Dynamic;
use crate::error::SolveError;
use crate::model::Mdp;
use crate::options::SolveOptions;
use crate::solution::{Phases, Size, Solution};
use crate::team::Team;

/// Solves in the model's own state order, with a single method. `in_trial` limits value iteration to [`trial`] sweeps.
pub(super) fn once(
    mdp: &Mdp,
    team: &Team,
    start: Start,
    options: &SolveOptions,
    features: Option<Features>,
    in_trial: bool,
    watch: &mut Watch,
) -> Result<Solution, SolveError> {
    let maximized = mdp.to_maximize();
    let sign = mdp.objective().sign();
    let signed = |(state, value): (usize, &f64)| if mdp.choices().count(state) == 0 { 0.0 } else { sign * value };
    let initial = start.values.map(|values| values.iter().enumerate().map(signed).collect::<Vec<_>>());
    let start = Start { values: initial.as_deref(), ..start };
    let place = Placement::choose_by(&maximized, team, features.as_ref(), options)?;
    let (mut backend, setup, upload) = place.open()?;
    let mut limits = options.limits;
    if let (Dynamic::Values(backend), true) = (&mut backend, in_trial) {
        let mut most = [f64::from(trial(&maximized, backend.sweep_bytes()?))];
        team.max(&mut most)?;
        limits.max_sweeps = limits.max_sweeps.min(start.earlier.greedy_sweeps().saturating_add(most[0] as u32));
    }
    let mut watch = watch.mapped(|mut values| {
        values.iter_mut().for_each(|value| *value *= sign);
        Ok(values)
    });
    let certified = until_certified(&mut backend, &maximized, team, place.method, start, &limits, &mut watch)?;
    drop(watch);
    let Certified { mut values, policy, run, certificate, certify } = certified;
    drop(backend);
    let Placement { method, precision, device, notes, phases, .. } = place;
    let phases = Phases { upload, certify, ..phases };
    if sign < 0.0 {
        values.par_iter_mut().for_each(|value| *value = -*value);
    }
    Ok(Solution {
        values,
        policy,
        first: mdp.part().map_or(0, |part| part.first),
        size: Size::new(mdp, team)?,
        run,
        certificate,
        method,
        precision,
        device,
        notes,
        setup,
        phases,
        ranks: Vec::new(),
    })
}
