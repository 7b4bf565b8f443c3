//! The description of a model, for people and for programs.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use serde::Serialize;

use super::channels::{Channel, Channels, Parameter};
use super::durations::{Duration, Segments};
use super::model::{Covariances, Emissions, Hmm, Names};
use warpkov_common::guard::{Warning, counted, write_warnings};
use warpkov_common::names::{distribution, name, named};
use warpkov_common::numbers::Number;
use warpkov_common::parameters::SUM_TOLERANCE;
use warpkov_common::report::{Report, write_object};
use warpkov_common::terminal::escaped;

/// Size and structure of a model.
#[derive(Clone, Debug, Serialize)]
pub struct Info<'a> {
    /// N.
    states: usize,
    /// V; none of a model that emits vectors.
    symbols: Option<u32>,
    /// D; none of a model that emits symbols.
    dimensions: Option<u32>,
    /// States whose initial probability is positive.
    starts: usize,
    /// Transitions whose probability is positive.
    transitions: usize,
    /// States whose end probability is positive; none where sequences may end at any time.
    ends: Option<usize>,
    /// Whether no transition leads to a state with a lower number.
    left_right: bool,
    /// Free parameters.
    parameters: usize,
    /// Expected number of steps of a visit of each state, N; infinite of a state that nothing leaves.
    stays: Vec<Number>,
    names: Cow<'a, Names>,
    /// The durations of the states of a semi-Markov model, none where Aᵢᵢ decides; none for other models.
    durations: Option<&'a [Option<Duration>]>,
    /// What looks wrong.
    warnings: Vec<Warning>,
    /// The emissions, in words.
    #[serde(skip)]
    emissions: String,
}

/// The family of a distribution, in words.
fn family(duration: &Duration) -> &'static str {
    match duration {
        Duration::Categorical(_) => "categorical",
        Duration::Geometric { .. } => "geometric",
        Duration::Poisson { .. } => "Poisson",
        Duration::NegativeBinomial { .. } => "negative binomial",
    }
}

impl<'a> Info<'a> {
    /// Describes a model. A semi-Markov model is described by the chain of its visits.
    #[must_use]
    pub fn new(given: &'a Hmm) -> Self {
        let visits = given.visits();
        let model = &*visits;
        let positive = |probs: &[f64]| probs.iter().filter(|p| **p > 0.0).count();
        let (emissions, symbols, dimensions) = match model.emissions() {
            Emissions::Categorical { symbols, .. } => (format!("{symbols} symbols"), Some(*symbols), None),
            Emissions::Gaussian { dimensions, covariances, .. } => {
                let kind = match covariances {
                    Covariances::Diagonal(_) => "diagonal",
                    Covariances::Full(_) => "full",
                };
                let numbers = if *dimensions == 1 { "numbers".to_owned() } else { format!("vectors of {dimensions}") };
                (format!("{numbers}, normal, {kind} covariances"), None, Some(*dimensions))
            }
            Emissions::Channels(channels) => {
                let list: Vec<&str> = channels.list.iter().map(|channel| channel.family.name()).collect();
                let columns = counted(channels.dimensions as usize, "column");
                (format!("{columns} in channels: {}", list.join(", ")), None, Some(channels.dimensions))
            }
        };
        let states = model.start().len();
        Self {
            states,
            symbols,
            dimensions,
            starts: positive(model.start()),
            transitions: positive(model.transitions()),
            ends: model.end().map(positive),
            left_right: (0..states).flat_map(|state| &model.row(state)[..state]).all(|p| *p <= 0.0),
            parameters: given.parameters(),
            stays: (0..states).map(|state| Number(stay(model, given.segments(), state))).collect(),
            names: match given.segments() {
                None => Cow::Borrowed(given.names()),
                Some(_) => Cow::Owned(model.names().clone()),
            },
            durations: given.segments().map(Segments::durations),
            warnings: warnings(model),
            emissions,
        }
    }
}

/// 1 / (1 − Aᵢᵢ), the expected number of steps of a visit of state i. A sum of the probabilities to leave keeps their digits where 1 − Aᵢᵢ
/// would cancel them. Of a semi-Markov model, the mean of the duration.
fn stay(visits: &Hmm, segments: Option<&Segments>, state: usize) -> f64 {
    if let Some(duration) = segments.and_then(|segments| segments.durations()[state].as_ref()) {
        return duration.mean();
    }
    let others = visits.row(state).iter().enumerate().filter(|(to, _)| *to != state).map(|(_, p)| p);
    1.0 / others.chain(visits.end().map(|end| &end[state])).sum::<f64>()
}

/// To four digits behind the point.
fn rounded(x: f64) -> f64 {
    (x * 1e4).round() / 1e4
}

/// What looks wrong in a model.
fn warnings(model: &Hmm) -> Vec<Warning> {
    let n = model.start().len();
    let states = || 0..n;
    let named = |state: usize| escaped(&name(&model.names().states, state as u32));
    let reached = reachable(n, states().filter(|&i| model.start()[i] > 0.0), |i, j| model.row(i)[j] > 0.0);
    let left_right = states().all(|i| model.row(i)[..i].iter().all(|p| *p <= 0.0));
    let stays = |i: usize| model.row(i)[i] >= 1.0 && !(left_right && i + 1 == n);
    let mut found = vec![
        Warning::new("unreachable-states", states().filter(|&i| !reached[i]).map(named), |count, list| {
            format!("no path from the start enters {}: {list}", counted(count, "state"))
        }),
        Warning::new("stuck-states", states().filter(|&i| n > 1 && stays(i)).map(named), |count, list| {
            format!("{} lead only to themselves: {list}", counted(count, "state"))
        }),
        Warning::new(
            "copied-states",
            copies(model).map(|[first, copy]| format!("{} = {}", named(copy), named(first))),
            |count, list| {
                format!("{} have the transitions and the emissions of another one: {list}", counted(count, "state"))
            },
        ),
    ];
    if let Some(end) = model.end() {
        let ends = reachable(n, states().filter(|&i| end[i] > 0.0), |i, j| model.row(j)[i] > 0.0);
        found.push(Warning::new(
            "endless-states",
            states().filter(|&i| reached[i] && !ends[i]).map(named),
            |count, list| format!("no sequence that enters {} can end: {list}", counted(count, "state")),
        ));
    }
    if n > 1 && states().all(|i| emission(model, i) == emission(model, 0)) {
        found.push(Warning::new("uninformative", states().map(named), |count, _| {
            format!("all {} emit alike: observations tell nothing about them", counted(count, "state"))
        }));
    }
    let mut both = vec![("A", "A[from][to]", model.transitions(), n)];
    if let Emissions::Categorical { symbols, probs } = model.emissions() {
        let v = *symbols as usize;
        both.push(("B", "B[state][symbol]", probs, v));
        let emitted = |o: usize| states().any(|i| reached[i] && probs[i * v + o] > 0.0);
        let symbol = |o: usize| escaped(&name(&model.names().symbols, o as u32));
        found.push(Warning::new("unemitted-symbols", (0..v).filter(|&o| !emitted(o)).map(symbol), |count, list| {
            format!("no state that can be reached emits {}: {list}", counted(count, "symbol"))
        }));
    }
    for (matrix, order, numbers, columns) in both {
        if columns == n && reads_both_ways(numbers, n) {
            found.push(Warning::new("transposed", [matrix.to_owned()], |_, _| {
                format!("the columns of {matrix} sum to 1 as its rows do: expected {order}, not the transpose")
            }));
        }
    }
    found.into_iter().flatten().collect()
}

/// For each of `n` states, whether a path of transitions leads to it from one of `starts`.
fn reachable(n: usize, starts: impl Iterator<Item = usize>, leads: impl Fn(usize, usize) -> bool) -> Vec<bool> {
    let mut open: Vec<usize> = starts.collect();
    let mut reached = vec![false; n];
    open.iter().for_each(|&state| reached[state] = true);
    while let Some(from) = open.pop() {
        let next: Vec<usize> = (0..n).filter(|&to| !reached[to] && leads(from, to)).collect();
        next.iter().for_each(|&to| reached[to] = true);
        open.extend(next);
    }
    reached
}

/// The parameters of the emissions of a state.
fn emission(model: &Hmm, state: usize) -> Vec<&[f64]> {
    let of = |width: usize| state * width..(state + 1) * width;
    match model.emissions() {
        Emissions::Categorical { symbols, probs } => vec![&probs[of(*symbols as usize)]],
        Emissions::Gaussian { dimensions, means, covariances } => {
            let d = *dimensions as usize;
            let covariances = match covariances {
                Covariances::Diagonal(variances) => &variances[of(d)],
                Covariances::Full(matrices) => &matrices[of(d * d)],
            };
            vec![&means[of(d)], covariances]
        }
        Emissions::Channels(channels) => {
            let n = model.start().len();
            channels.numbers(n).into_iter().map(|numbers| &numbers[of(numbers.len() / n)]).collect()
        }
    }
}

/// Pairs of a state and a later one with equal transitions, end probability and emissions.
fn copies(model: &Hmm) -> impl Iterator<Item = [usize; 2]> {
    let bits = |state: usize| -> Vec<u64> {
        let end = model.end().map_or(0.0, |end| end[state]);
        let emission = emission(model, state).concat();
        model.row(state).iter().chain(&emission).chain([&end]).map(|x| (x + 0.0).to_bits()).collect()
    };
    let mut seen = HashMap::new();
    (0..model.start().len()).filter_map(move |state| {
        let first = *seen.entry(bits(state)).or_insert(state);
        (first != state).then_some([first, state])
    })
}

/// Whether a square matrix with rows that sum to 1 differs from its transpose, and the columns sum to 1, too.
fn reads_both_ways(matrix: &[f64], n: usize) -> bool {
    let entry = |i: usize, j: usize| matrix[i * n + j];
    let sums = (0..n).all(|j| ((0..n).map(|i| entry(i, j)).sum::<f64>() - 1.0).abs() <= SUM_TOLERANCE);
    sums && (0..n).any(|i| (0..i).any(|j| entry(i, j) != entry(j, i)))
}

/// The row of one state: where it leads, and what it emits.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The state's number, from 0.
    state: u32,
    /// Its name, or its number.
    name: String,
    /// πᵢ.
    start: f64,
    /// The positive Aᵢⱼ, by the names of the states j.
    transitions: Vec<(String, f64)>,
    /// Expected number of steps of a visit.
    stay: Number,
    /// The distribution of this number; none where Aᵢᵢ decides.
    duration: Option<Duration>,
    /// Probability that sequences end behind the state; none of a model that does not describe it.
    end: Option<f64>,
    /// The positive Bᵢₒ, by the names of the symbols; none for vectors.
    symbols: Option<Vec<(String, f64)>>,
    /// μᵢ; none for symbols.
    mean: Option<Vec<f64>>,
    /// Σᵢ: variances, or a matrix row by row; none for symbols.
    covariance: Option<Vec<f64>>,
    /// The channels; none for symbols, and for vectors of one normal density.
    #[serde(skip_serializing_if = "Option::is_none")]
    channels: Option<Vec<ChannelRow>>,
}

/// A channel in one state.
#[derive(Clone, Debug, Serialize)]
struct ChannelRow {
    /// Names or numbers of its columns.
    columns: Vec<String>,
    /// The family of distributions.
    family: &'static str,
    /// Numbers of each parameter, row by row.
    parameters: BTreeMap<&'static str, Vec<f64>>,
}

impl ChannelRow {
    fn new(channels: &Channels, channel: &Channel, states: usize, state: usize) -> Self {
        let of_state = |parameter: Parameter<'_>| {
            let width = parameter.width();
            (parameter.name, parameter.numbers[state * width..][..width].to_vec())
        };
        Self {
            columns: channel.columns.iter().map(|&column| channels.column(column)).collect(),
            family: channel.family.name(),
            parameters: channel.parameters(states).into_iter().map(of_state).collect(),
        }
    }
}

impl Row {
    /// The row of a state of the model. Of a semi-Markov model, states are those of its [visits](Hmm::visits).
    #[must_use]
    pub fn new(given: &Hmm, state: u32) -> Self {
        let (visits, at) = (given.visits(), state as usize);
        let model = &*visits;
        let emission = emission(model, at);
        let numbers = |index: usize| emission.get(index).map(|numbers| numbers.to_vec());
        let (mut symbols, mut mean, mut covariance, mut channels) = (None, None, None, None);
        match model.emissions() {
            Emissions::Categorical { .. } => symbols = Some(named(0.., emission[0], &model.names().symbols)),
            Emissions::Gaussian { .. } => (mean, covariance) = (numbers(0), numbers(1)),
            Emissions::Channels(all) => {
                let row = |channel: &Channel| ChannelRow::new(all, channel, model.start().len(), at);
                channels = Some(all.list.iter().map(row).collect());
            }
        }
        Self {
            state,
            name: name(&model.names().states, state),
            start: model.start()[at],
            transitions: named(0.., model.row(at), &model.names().states),
            stay: Number(stay(model, given.segments(), at)),
            duration: given.segments().and_then(|all| all.durations()[at].clone()),
            end: model.end().map(|end| end[at]),
            symbols,
            mean,
            covariance,
            channels,
        }
    }
}

impl Report for Row {
    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        write_object(out, self)
    }

    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { state, start, transitions, .. } = self;
        writeln!(out, "State {state}, {}", escaped(&self.name))?;
        writeln!(out, "  starts with    {start}")?;
        writeln!(out, "  leads to       {}", distribution(transitions))?;
        writeln!(out, "  stays          {} steps", rounded(self.stay.0))?;
        if let Some(duration) = &self.duration {
            writeln!(out, "  lasts          by a {} distribution", family(duration))?;
        }
        if let Some(end) = self.end {
            writeln!(out, "  ends with      {end}")?;
        }
        if let Some(symbols) = &self.symbols {
            writeln!(out, "  emits          {}", distribution(symbols))?;
        }
        if let (Some(mean), Some(covariance)) = (&self.mean, &self.covariance) {
            let what = if covariance.len() == mean.len() { "variances" } else { "covariance" };
            writeln!(out, "  emits          vectors of mean {mean:?}, {what} {covariance:?}")?;
        }
        for ChannelRow { columns, family, parameters } in self.channels.iter().flatten() {
            let columns: Vec<String> = columns.iter().map(|column| escaped(column)).collect();
            let numbers: Vec<String> = parameters.iter().map(|(name, numbers)| format!("{name} {numbers:?}")).collect();
            writeln!(out, "  emits          {}: {family}, {}", columns.join(", "), numbers.join(", "))?;
        }
        Ok(())
    }
}

impl Report for Info<'_> {
    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        write_object(out, self)
    }

    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { states, starts, transitions, parameters, emissions, .. } = self;
        writeln!(out, "States (N)       {states}, {starts} to start in")?;
        writeln!(out, "Emissions        {emissions}")?;
        let kind = if self.left_right { ", left to right" } else { "" };
        writeln!(out, "Transitions      {transitions} of {} possible{kind}", states * states)?;
        match self.ends {
            Some(ends) => writeln!(out, "Ends             behind {ends} states")?,
            None => writeln!(out, "Ends             at any time")?,
        }
        let stays = || self.stays.iter().map(|stay| stay.0);
        let (least, most) = (stays().fold(f64::INFINITY, f64::min), stays().fold(0.0, f64::max));
        writeln!(out, "Expected stays   {} to {} steps in a state", rounded(least), rounded(most))?;
        for (state, duration) in (0..).zip(self.durations.unwrap_or_default()) {
            let of = escaped(&name(&self.names.states, state));
            writeln!(out, "Duration         {of}: {}", duration.as_ref().map_or("by A", family))?;
        }
        writeln!(out, "Free parameters  {parameters}")?;
        write_warnings(out, &self.warnings)
    }
}
