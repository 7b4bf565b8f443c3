//! The recursions on several [ranks](warpkov_runtime::comm), each with a share of the sequences.
//!
//! [`Division`] gives every rank a share. [`Divided`] is the backend of one rank: it runs the recursions over the share on
//! the rank's own device, and exchanges what the ranks must know of each other.
//!
//! | result | exchange | where |
//! | --- | --- | --- |
//! | ln P(O), paths, posteriors | each rank sends those of its share | the first rank |
//! | expected counts, ln P(O) in training | one sum per iteration, over all models | all ranks |
//! | model | none: every rank computes the same M step from the same sums | all ranks |
//!
//! If all ranks [store](Recursions::stored) their sums in one layout, as devices do, these are what they add, and each takes the M step on its
//! device. Otherwise they add the expected counts, and take it on the host.
//!
//! *Reproducibility.* Sums are taken in the order of ranks, so equal inputs on equally many ranks give equal bits, and all
//! ranks hold the same model, bit for bit. Another number of ranks adds the counts in another order, which changes the last
//! digits. Results of a sequence have the same bits on any number of ranks, but for a device that
//! [cuts](super::backends::device::Scan) long sequences: it decides this from its own share.
//!
//! *Stop requests.* A [request](warpkov_common::interrupt) reaches each rank at another time, or only one of them. The ranks
//! tell each other with the sum of the counts, so all stop in the same iteration, with the same model.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use bytemuck::Pod;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::backend::{Decoded, Expected, NO_STATE, Recursions, SLOW, Stored, fit};
use super::backends::device::{self, Limits};
use super::invariants::Violated;
use super::maximise::{Spread, maximise};
use super::model::Hmm;
use super::options::{Options, Precision};
use super::place::{Dynamic, Error, recursions};
use super::segmental::BestPaths;
use super::sequences::Sequences;
use warpkov_common::interrupt;
use warpkov_common::ranks;
use warpkov_runtime as runtime;
use warpkov_runtime::choose::Place;
use warpkov_runtime::comm::{self, Clocked, Communicator};

/// The share of each rank: whole sequences, with about equally many steps.
///
/// The longest sequence that is left goes to the rank with the fewest steps (Graham's rule: no share exceeds 4/3 of the
/// least possible maximum). The first rank has the longest sequence; a rank may have none.
#[derive(Clone, Debug, PartialEq)]
pub struct Division<'s> {
    sequences: &'s Sequences,
    /// Indices of each rank's sequences, in ascending order.
    shares: Vec<Vec<usize>>,
}

impl<'s> Division<'s> {
    /// Divides the sequences among this number of ranks.
    #[must_use]
    pub fn new(sequences: &'s Sequences, ranks: u32) -> Self {
        let length = |&sequence: &usize| sequences.range(sequence).len();
        let mut order: Vec<usize> = (0..sequences.len()).collect();
        // Stable: of equally long sequences, the first comes first.
        order.sort_by_key(|sequence| Reverse(length(sequence)));
        let mut shares = vec![Vec::new(); ranks as usize];
        let mut loads: BinaryHeap<_> = (0..shares.len()).map(|rank| Reverse((0, rank))).collect();
        for sequence in order {
            let Some(mut least) = loads.peek_mut() else { break };
            let Reverse((steps, rank)) = &mut *least;
            *steps += length(&sequence);
            shares[*rank].push(sequence);
        }
        shares.iter_mut().for_each(|share| share.sort_unstable());
        Self { sequences, shares }
    }

    /// The sequences of a rank; `None` if it has none.
    #[must_use]
    pub fn share(&self, rank: u32) -> Option<Sequences> {
        self.sequences.select(&self.shares[rank as usize])
    }

    /// Indices of a rank's sequences, in ascending order.
    #[must_use]
    pub fn of_rank(&self, rank: u32) -> &[usize] {
        &self.shares[rank as usize]
    }

    /// Steps of a rank's sequences.
    fn steps(&self, rank: u32) -> usize {
        self.of_rank(rank).iter().map(|&sequence| self.sequences.range(sequence).len()).sum()
    }
}

/// The work of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankWork {
    /// Its sequences.
    pub sequences: usize,
    /// Their steps.
    pub steps: usize,
}

/// The share of one of several ranks.
pub type RankShare = ranks::RankShare<RankWork>;

/// The backend of one of several ranks. All ranks call its methods in the same order, with the same arguments, except for
/// [`models`](Recursions::models), [`interrupted`](Recursions::interrupted) and [`slow`](Recursions::slow), which need
/// no other rank.
///
/// [`log_likelihoods`](Recursions::log_likelihoods), [`posteriors`](Recursions::posteriors) and
/// [`viterbi`](Recursions::viterbi) have their results on the first rank; elsewhere they return an empty list.
///
/// # Errors
/// An error of one rank's device is that rank's alone: the others wait for it until it [fails](comm::Local::fail), its
/// process ends, or their time-out passes. A stop request of one rank is an error of all.
pub struct Divided<'a> {
    division: &'a Division<'a>,
    /// The recursions over the share; `None` if it is empty.
    own: Option<Dynamic<'a>>,
    comm: Clocked<'a>,
    /// Whether the share is on a device in f64, and whether it is on one in f32.
    on_device: [bool; 2],
    /// What [`models`](Recursions::models) does to the models of M steps, if any rank has a device, which rounds them.
    round: Option<fn(&mut Hmm)>,
    /// Unrounded.
    models: Vec<Hmm>,
    /// Whether `models` come from an M step.
    maximised: bool,
    /// Expected counts of the last E step over all ranks; empty after the M step.
    expected: Vec<Expected>,
    /// The layout of the sums of all ranks, if they have one; unknown before the first E step of the models.
    stored: Option<Option<Stored>>,
    /// Spread of the observations of all ranks, computed at the first M step.
    spread: OnceLock<Spread>,
    /// Whether this rank, or all of them, stopped.
    stopped: bool,
    /// Whether the last recursions over the share were slow, or those of any rank.
    slow: bool,
}

impl<'a> Divided<'a> {
    /// The recursions over `share`, which is [this rank's](Division::share), at `place`. `limits` applies to devices.
    ///
    /// # Errors
    /// Those of the device.
    pub fn open(
        division: &'a Division<'a>,
        share: Option<&'a Sequences>,
        place: &'a Place,
        precision: Precision,
        limits: Limits,
        comm: &'a dyn Communicator,
    ) -> Result<Self, Error> {
        let own = share.map(|share| recursions(place, share, precision, limits)).transpose()?;
        let (device, wide) = (!matches!(place, Place::Cpu), precision == Precision::F64);
        Ok(Self::new(division, own, [device && wide, device && !wide], comm))
    }

    /// The recursions `own` over this rank's share. `on_device`: whether they run on a device in f64, and whether on one in f32.
    #[must_use]
    pub fn new(
        division: &'a Division<'a>,
        own: Option<Dynamic<'a>>,
        on_device: [bool; 2],
        comm: &'a dyn Communicator,
    ) -> Self {
        Self {
            division,
            own,
            comm: Clocked::new(comm),
            on_device,
            round: None,
            models: Vec::new(),
            maximised: false,
            expected: Vec::new(),
            stored: None,
            spread: OnceLock::new(),
            stopped: false,
            slow: false,
        }
    }

    /// The same, whose E step counts the [best paths](BestPaths) of the share.
    #[must_use]
    pub fn by_paths(self, share: Option<&'a Sequences>) -> Self {
        let by_paths = |(own, share)| -> Dynamic<'a> { Box::new(BestPaths::new(own, share)) };
        Self { own: self.own.zip(share).map(by_paths), ..self }
    }

    /// What each rank, on its `device`, has done so far. All ranks call it.
    ///
    /// # Errors
    /// If a rank fails.
    pub fn shares(&self, device: &str) -> Result<Vec<RankShare>, Error> {
        let rank = self.comm.rank();
        let work = RankWork { sequences: self.division.of_rank(rank).len(), steps: self.division.steps(rank) };
        Ok(self.comm.shares(device, work).map_err(runtime::Error::from)?)
    }

    /// Runs the recursions over the share. Without a share, or once this rank has stopped, there are no results.
    fn run<T>(&mut self, of: impl FnOnce(&mut Dynamic<'a>) -> Result<Vec<T>, Error>) -> Result<Vec<T>, Error> {
        self.stopped |= interrupt::requested();
        let Some(own) = self.own.as_mut().filter(|_| !self.stopped) else { return Ok(Vec::new()) };
        let begun = Instant::now();
        let found = of(own);
        self.slow = begun.elapsed() > SLOW;
        match found {
            Err(Error::Runtime(runtime::Error::Interrupted)) => {
                self.stopped = true;
                Ok(Vec::new())
            }
            Err(Error::Violated(violated)) => {
                let sequence = self.division.of_rank(self.comm.rank())[violated.sequence - 1] + 1;
                Err(Violated { sequence, ..violated }.into())
            }
            found => found,
        }
    }

    /// Communicates.
    fn talk<T>(&mut self, with: impl FnOnce(&dyn Communicator) -> Result<T, comm::Error>) -> Result<T, Error> {
        Ok(with(&self.comm)?)
    }

    /// Gives the models to the share's recursions.
    fn set(&mut self) -> Result<(), Error> {
        let models = std::mem::take(&mut self.models);
        let set = self.run(|own| own.set_models(&models).map(|()| Vec::<()>::new()));
        self.models = models;
        set.map(|_| ())
    }

    /// The layout in which all ranks store their sums, if it is the same. All ranks call it.
    ///
    /// # Errors
    /// Those of the communicator, and a stop of another rank.
    pub fn common_layout(&mut self) -> Result<Option<Stored>, Error> {
        if let Some(known) = self.stored {
            return Ok(known);
        }
        let own = self.own.as_ref().and_then(|own| own.stored());
        let numbers = own.map_or([0; 3], |Stored { bytes, pairs, listed }| [bytes, pairs, listed]);
        let all = self.talk(|comm| comm.all_gather_equal(bytemuck::bytes_of(&numbers)))?;
        let stored = own.filter(|_| all.iter().all(|other| other == bytemuck::bytes_of(&numbers)));
        self.stored = Some(stored);
        Ok(stored)
    }

    /// The backend that has the expected counts of all ranks after an E step, if ranks on devices have added what they store.
    fn summing(&mut self) -> Option<&mut Dynamic<'a>> {
        self.own.as_mut().filter(|_| matches!(self.stored, Some(Some(_))))
    }

    /// The log-likelihoods of all sequences for each model, from those of each rank's share. A rank without results has no `logs`.
    fn exchange(&mut self, logs: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, Error> {
        let (division, models) = (self.division, self.models.len());
        let [double, single] = self.on_device;
        let mut own = [self.stopped, self.slow, double, single].map(|flag| f64::from(u8::from(flag))).to_vec();
        let flags = own.len();
        let len = |rank: u32| flags + models * division.of_rank(rank).len();
        own.extend(logs.iter().flatten());
        own.resize(len(self.comm.rank()), 0.0);
        let lengths: Vec<usize> = (0..self.comm.size()).map(|rank| len(rank) * size_of::<f64>()).collect();
        let all = self.talk(|comm| comm.gather_lengths(bytemuck::cast_slice(&own), &lengths))?;
        let all: Vec<Vec<f64>> = all.iter().map(|bytes| bytemuck::pod_collect_to_vec(bytes)).collect();
        let any = |flag: usize| all.iter().any(|of_rank| of_rank[flag] > 0.0);
        (self.stopped, self.slow) = (any(0), any(1));
        self.round = match [any(2), any(3)] {
            [_, true] => Some(device::round::<f32>),
            [true, _] => Some(device::round::<f64>),
            _ => None,
        };
        if self.stopped {
            return Err(runtime::Error::Interrupted.into());
        }
        let mut logs = vec![vec![0.0; division.sequences.len()]; models];
        for (rank, of_rank) in (0..).zip(&all) {
            let share = division.of_rank(rank);
            for (logs, of_rank) in logs.iter_mut().zip(of_rank[flags..].chunks_exact(share.len().max(1))) {
                share.iter().zip(of_rank).for_each(|(&sequence, &log)| logs[sequence] = log);
            }
        }
        Ok(logs)
    }

    /// Sums the expected counts of all ranks, and collects their log-likelihoods.
    fn sum(&mut self, mut found: Vec<Expected>) -> Result<Vec<Expected>, Error> {
        let logs: Vec<_> = found.iter_mut().map(|expected| std::mem::take(&mut expected.log_likelihoods)).collect();
        let logs = self.exchange(&logs)?;
        let mut all: Vec<Expected> = self.models.iter().map(Expected::zero).collect();
        let own = if found.is_empty() { &all } else { &found };
        let mut sums: Vec<f64> = own.iter().flat_map(|expected| expected.counts().concat()).collect();
        self.talk(|comm| comm.all_reduce_sum(&mut sums))?;
        let mut rest = &sums[..];
        for (sum, logs) in all.iter_mut().zip(logs) {
            sum.log_likelihoods = logs;
            for counts in sum.counts_mut() {
                let (part, behind) = rest.split_at(counts.len());
                counts.copy_from_slice(part);
                rest = behind;
            }
        }
        Ok(all)
    }

    /// The results of all models, in the order of the sequences, on the first rank. A sequence of T steps has `width`(T)
    /// numbers; `none` fills the place of numbers to come.
    fn gather<T: Pod>(
        &mut self,
        found: Vec<Vec<T>>,
        none: T,
        width: impl Fn(usize) -> usize,
    ) -> Result<Vec<Vec<T>>, Error> {
        let stopped = self.stopped;
        self.stopped = self.talk(|comm| comm.any(stopped))?;
        if self.stopped {
            return Err(runtime::Error::Interrupted.into());
        }
        let (division, models) = (self.division, self.models.len());
        let collected = self.talk(|comm| comm.collect(&found.concat()))?;
        if self.comm.rank() > 0 {
            return Ok(Vec::new());
        }
        let width = |sequence: usize| width(division.sequences.range(sequence).len());
        let mut whole = 0;
        let offset = |sequence: usize| {
            let start = whole;
            whole += width(sequence);
            start
        };
        let offsets: Vec<usize> = (0..division.sequences.len()).map(offset).collect();
        let mut all = vec![vec![none; whole]; models];
        // Rank by rank, model by model, sequence by sequence.
        let mut rest = &collected[..];
        for rank in 0..self.comm.size() {
            for all in &mut all {
                for &sequence in division.of_rank(rank) {
                    let (part, behind) = rest.split_at(width(sequence));
                    all[offsets[sequence]..][..part.len()].copy_from_slice(part);
                    rest = behind;
                }
            }
        }
        Ok(all)
    }
}

impl Recursions for Divided<'_> {
    type Error = Error;

    fn set_models(&mut self, models: &[Hmm]) -> Result<(), Error> {
        assert!(fit(models, self.division.sequences), "models of one shape that emit what was observed");
        self.models = models.to_vec();
        (self.maximised, self.stopped, self.stored) = (false, false, None);
        self.expected.clear();
        self.set()
    }

    fn log_likelihoods(&mut self) -> Result<Vec<Vec<f64>>, Error> {
        let found = self.run(|own| own.log_likelihoods())?;
        self.gather(found, f64::NEG_INFINITY, |_| 1)
    }

    fn posteriors(&mut self) -> Result<Vec<Vec<f64>>, Error> {
        let found = self.run(|own| own.posteriors())?;
        let states = self.models.first().map_or(0, |model| model.start().len());
        self.gather(found, 0.0, |length| length * states)
    }

    fn viterbi(&mut self) -> Result<Vec<Decoded>, Error> {
        let found = self.run(|own| own.viterbi())?;
        let (states, scores) = found.into_iter().map(|Decoded { states, scores }| (states, scores)).unzip();
        let states = self.gather(states, NO_STATE, |length| length)?;
        let scores = self.gather(scores, f64::NEG_INFINITY, |_| 1)?;
        Ok(states.into_iter().zip(scores).map(|(states, scores)| Decoded { states, scores }).collect())
    }

    fn expect(&mut self) -> Result<Vec<Expected>, Error> {
        let found = self.run(|own| own.expect())?;
        self.sum(found)
    }

    fn e_step(&mut self) -> Result<Vec<Vec<f64>>, Error> {
        if self.common_layout()?.is_some() {
            let found = self.run(|own| own.e_step())?;
            let logs = self.exchange(&found)?;
            if let Some(own) = &mut self.own {
                // SAFETY: all ranks have the layout that `stored` has found, and none has stopped.
                unsafe { own.add_ranks(&self.comm)? };
            }
            return Ok(logs);
        }
        let found = self.run(|own| {
            let logs = own.e_step()?;
            let counts = own.take_counts()?.into_iter();
            Ok(counts.zip(logs).map(|(counts, logs)| Expected { log_likelihoods: logs, ..counts }).collect())
        })?;
        self.expected = self.sum(found)?;
        Ok(self.expected.iter_mut().map(|expected| std::mem::take(&mut expected.log_likelihoods)).collect())
    }

    fn take_counts(&mut self) -> Result<Vec<Expected>, Error> {
        match self.summing() {
            Some(own) => own.take_counts(),
            None => Ok(std::mem::take(&mut self.expected)),
        }
    }

    fn m_step(&mut self, options: &Options) -> Result<(), Error> {
        // Even if this rank has been asked to stop: all ranks have the same models after the same M steps.
        if let Some(own) = self.summing() {
            return own.m_step(options);
        }
        let expected = std::mem::take(&mut self.expected);
        if expected.is_empty() {
            return Ok(());
        }
        let floors = self.spread.get_or_init(|| Spread::new(self.division.sequences)).floors(options.floor);
        let pairs = self.models.par_iter_mut().zip(&expected);
        pairs.for_each(|(model, expected)| maximise(model, expected, options, &floors));
        self.maximised = true;
        self.set()
    }

    fn weights(&self) -> &[f64] {
        self.division.sequences.weights()
    }

    fn models(&mut self) -> Result<Vec<Hmm>, Error> {
        if let Some(own) = self.summing() {
            return own.models();
        }
        let mut models = self.models.clone();
        if let Some(round) = self.round.filter(|_| self.maximised) {
            models.iter_mut().for_each(round);
        }
        Ok(models)
    }

    fn interrupted(&self) -> bool {
        self.stopped
    }

    fn slow(&self, _: Duration) -> bool {
        self.slow
    }
}
