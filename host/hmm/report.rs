//! Reports of scoring, decoding, posteriors and training: text, JSON, and files of results.
//!
//! The JSON objects share the fields of their [`Context`]: `device`, `precision`, `phases`, and,
//! where there are any, `names`, `starts`, `positions`, `notes` and `ranks`. All four reports are in one file because they share this context and the
//! writers of records.

use std::io::{self, Write};

use serde::{Serialize, Serializer};

use super::backend::NO_STATE;
use super::backends::device::ForwardMethod;
use super::divided::RankShare;
use super::io::sequences::{Records, field, word};
use super::io::{self as files};
use super::maximise::{Held, Spread};
use super::model::Hmm;
use super::options::{Options, Precision};
use super::sample::Sample;
use super::sequences::Sequences;
use super::train::{Round, Run, Status, Trained, aic, bic};
use warpkov_common::choice::file_format;
use warpkov_common::io::npy;
use warpkov_common::names::name;
use warpkov_common::numbers::{Number, Numbers};
use warpkov_common::ranks::summary;
use warpkov_common::report::{Report, Results, write_object};

/// Seconds of the phases of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Phases {
    /// Reading and checking model and sequences.
    pub read: f64,
    /// Opening the device.
    pub start: f64,
    /// The recursions, with the copies of model and sequences to a device.
    pub solve: f64,
    /// Writing files.
    pub write: f64,
}

/// Input and device of a run.
#[derive(Clone, Debug)]
pub struct Context<'a> {
    /// The model.
    pub model: &'a Hmm,
    /// The sequences, with the names and positions that their file gives.
    pub records: &'a Records,
    /// The device, in words.
    pub device: String,
    /// Floating-point type of the recursions.
    pub precision: Precision,
    /// Reason why `auto` chose the device.
    pub reason: Option<String>,
    /// Time of each phase.
    pub phases: Phases,
    /// All ranks, if there are several.
    pub ranks: Vec<RankShare>,
}

/// The fields that all JSON objects share.
#[derive(Serialize)]
struct Shared<'a> {
    device: &'a str,
    precision: Precision,
    phases: Phases,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    names: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    starts: &'a [u64],
    /// Positions, from 0, of the observations of each sequence, if some were removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    positions: Vec<&'a [u64]>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<&'a String>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    ranks: &'a [RankShare],
}

/// The fields of one report beside the shared ones.
#[derive(Serialize)]
struct Object<'a, R: Serialize> {
    #[serde(flatten)]
    results: R,
    #[serde(flatten)]
    shared: Shared<'a>,
}

impl Context<'_> {
    fn write_json(&self, out: &mut dyn Write, results: impl Serialize) -> io::Result<()> {
        let Records { sequences, names, starts, positions, notes, .. } = self.records;
        let positions = match &positions[..] {
            [] => Vec::new(),
            all => (0..sequences.len()).map(|sequence| &all[sequences.range(sequence)]).collect(),
        };
        let notes = notes.iter().chain(&self.reason).collect();
        let Self { device, precision, phases, ranks, .. } = self;
        let shared = Shared { device, precision: *precision, phases: *phases, names, starts, positions, notes, ranks };
        write_object(out, &Object { results, shared })
    }

    /// One line about the ranks, if there are several.
    fn write_ranks(&self, out: &mut dyn Write) -> io::Result<()> {
        match summary(&self.ranks) {
            Some(ranks) => writeln!(out, "Ranks            {ranks}"),
            None => Ok(()),
        }
    }

    /// M, the number of sequences.
    fn sequences(&self) -> usize {
        self.records.sequences.len()
    }

    /// N, the number of states.
    fn states(&self) -> usize {
        self.model.start().len()
    }

    /// The name of each state, passed through `quote`.
    fn state_names(&self, quote: impl Fn(&str) -> String) -> Vec<String> {
        state_names(self.model, quote)
    }
}

fn state_names(model: &Hmm, quote: impl Fn(&str) -> String) -> Vec<String> {
    (0..model.states()).map(|state| quote(&name(&model.names().states, state))).collect()
}

file_format! {
    /// A format of log-likelihoods.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ScoreFormat {
        /// A table: sequence, log-likelihood.
        Csv = "csv" in ["csv"],
        /// NumPy's array, M.
        Npy = "npy" in ["npy"],
    }
}

/// ln P(O) of each sequence.
#[derive(Clone, Debug)]
pub struct Scores<'a> {
    /// Input and device.
    pub context: Context<'a>,
    /// The method of the forward recursion.
    pub method: ForwardMethod,
    /// ln P(O) of each sequence, M; −∞ where the model cannot emit the sequence.
    pub log_likelihoods: Vec<f64>,
}

impl Scores<'_> {
    /// Whether the model can emit a sequence.
    #[must_use]
    pub fn is_possible(&self, sequence: usize) -> bool {
        self.log_likelihoods[sequence] > f64::NEG_INFINITY
    }

    /// ln P(O) of all sequences, with both information criteria.
    fn total(&self) -> (f64, f64, f64) {
        let Context { model, records, .. } = &self.context;
        let total: f64 = self.log_likelihoods.iter().sum();
        (total, aic(model.parameters(), total), bic(model.parameters(), &records.sequences, total))
    }
}

impl Report for Scores<'_> {
    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { context, method, log_likelihoods } = self;
        let (count, steps) = (context.sequences(), context.records.sequences.steps());
        let (total, aic, bic) = self.total();
        let least = log_likelihoods.iter().copied().fold(f64::INFINITY, f64::min);
        let most = log_likelihoods.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let impossible = (0..count).filter(|&sequence| !self.is_possible(sequence)).count();
        writeln!(out, "Sequences        {count}, {steps} observations")?;
        writeln!(out, "ln P(O)          {total:.6}, {:.6} per observation", total / steps as f64)?;
        writeln!(out, "  of a sequence  {least:.6} to {most:.6}")?;
        if impossible > 0 {
            writeln!(out, "  not possible   {impossible}")?;
        }
        writeln!(out, "AIC, BIC         {aic:.3}, {bic:.3}")?;
        let by = if *method == ForwardMethod::Fused { "" } else { ", method slices" };
        writeln!(out, "Device           {}, {}{by}", context.device, context.precision)?;
        context.write_ranks(out)
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        #[derive(Serialize)]
        struct Fields<'a> {
            method: ForwardMethod,
            sequences: usize,
            observations: usize,
            log_likelihood: Number,
            aic: Number,
            bic: Number,
            log_likelihoods: Numbers<'a>,
        }
        let (total, aic, bic) = self.total();
        let fields = Fields {
            method: self.method,
            sequences: self.context.sequences(),
            observations: self.context.records.sequences.steps(),
            log_likelihood: Number(total),
            aic: Number(aic),
            bic: Number(bic),
            log_likelihoods: Numbers(&self.log_likelihoods),
        };
        self.context.write_json(out, fields)
    }
}

impl Results for Scores<'_> {
    type Format = ScoreFormat;

    fn write_as(&self, format: ScoreFormat, out: &mut dyn Write) -> io::Result<()> {
        match format {
            ScoreFormat::Npy => npy::write(out, &self.log_likelihoods),
            ScoreFormat::Csv => {
                writeln!(out, "sequence,log_likelihood")?;
                for (sequence, log) in self.log_likelihoods.iter().enumerate() {
                    writeln!(out, "{},{log:?}", field(&self.context.records.name(sequence)))?;
                }
                Ok(())
            }
        }
    }
}

file_format! {
    /// A format of hidden paths.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum PathFormat {
        /// One line per sequence: the names of its states.
        Text = "text" in ["txt"],
        /// A table: sequence, position from 1, state.
        Csv = "csv" in ["csv"],
        /// BED: one line per run of equal states, with positions from 0.
        Bed = "bed" in ["bed"],
        /// NumPy's array of the numbers of states, ΣT; 2³² − 1 where there is no path.
        Npy = "npy" in ["npy"],
    }
}

impl PathFormat {
    /// A lower bound of the bytes per observation.
    #[must_use]
    pub fn least_bytes(self) -> u64 {
        match self {
            Self::Text => 2,
            Self::Csv => 6,
            // One line may hold a run of any length.
            Self::Bed => 0,
            Self::Npy => 4,
        }
    }
}

/// The hidden path of each sequence.
#[derive(Clone, Debug)]
pub struct Paths<'a> {
    /// Input and device.
    pub context: Context<'a>,
    /// States, ΣT; [`NO_STATE`] where the model cannot emit the sequence.
    pub states: Vec<u32>,
    /// ln P(O, q) of each sequence, M, if Viterbi's algorithm found the paths.
    pub scores: Option<Vec<f64>>,
    /// For each state, whether BED files hold its runs; N.
    pub shown: Vec<bool>,
}

impl Paths<'_> {
    /// The path of one sequence.
    fn path(&self, sequence: usize) -> &[u32] {
        &self.states[self.context.records.sequences.range(sequence)]
    }

    /// Whether the model can emit a sequence.
    #[must_use]
    pub fn is_possible(&self, sequence: usize) -> bool {
        self.path(sequence).first() != Some(&NO_STATE)
    }

    fn write_lines(&self, out: &mut dyn Write) -> io::Result<()> {
        write_lines(out, self.context.model, &self.context.records.sequences, &self.states)
    }

    fn write_csv(&self, out: &mut dyn Write) -> io::Result<()> {
        let (records, names) = (self.context.records, self.context.state_names(field));
        writeln!(out, "sequence,position,state")?;
        for sequence in 0..self.context.sequences() {
            let name = field(&records.name(sequence));
            for (position, &state) in records.positions(sequence).map(|at| at + 1).zip(self.path(sequence)) {
                let state = names.get(state as usize).map_or("", String::as_str);
                writeln!(out, "{name},{position},{state}")?;
            }
        }
        Ok(())
    }

    /// Runs of the states that are shown: sequence, first position from 0, position after the last, state. Runs end with the parts of
    /// a sequence that was split, and at removed observations.
    fn write_bed(&self, out: &mut dyn Write) -> io::Result<()> {
        // Tabs separate the fields.
        let plain = |text: &str| text.replace(|letter: char| letter.is_whitespace() || letter.is_control(), "_");
        let (records, names) = (self.context.records, self.context.state_names(plain));
        for sequence in 0..self.context.sequences() {
            let record = plain(&records.name(sequence));
            let steps: Vec<(u64, u32)> = records.positions(sequence).zip(self.path(sequence).iter().copied()).collect();
            for run in steps.chunk_by(|one, next| one.1 == next.1 && one.0 + 1 == next.0) {
                let (begin, state) = (run[0].0, run[0].1 as usize);
                let end = begin + run.len() as u64;
                if self.shown.get(state) == Some(&true) {
                    writeln!(out, "{record}\t{begin}\t{end}\t{}", names[state])?;
                }
            }
        }
        Ok(())
    }
}

/// Writes one line per sequence, the names of its states; `impossible` where there is no path.
fn write_lines(out: &mut dyn Write, model: &Hmm, sequences: &Sequences, states: &[u32]) -> io::Result<()> {
    let names = state_names(model, |name| word(name).into_owned());
    for sequence in 0..sequences.len() {
        let path = &states[sequences.range(sequence)];
        if path.first() == Some(&NO_STATE) {
            write!(out, "impossible")?;
        } else {
            for (t, &state) in path.iter().enumerate() {
                write!(out, "{}{}", if t == 0 { "" } else { " " }, names[state as usize])?;
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

file_format! {
    /// A format of the hidden states of sampled sequences.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum StateFormat {
        /// One line per sequence: the names of its states.
        Text = "text" in ["txt"],
        /// NumPy's array of the numbers of states, ΣT.
        Npy = "npy" in ["npy"],
    }
}

impl StateFormat {
    /// A lower bound of the bytes per observation.
    #[must_use]
    pub fn least_bytes(self) -> u64 {
        match self {
            Self::Text => 2,
            Self::Npy => 4,
        }
    }

    /// Writes the hidden states of `drawn`.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(self, out: &mut dyn Write, model: &Hmm, drawn: &Sample) -> io::Result<()> {
        match self {
            Self::Text => write_lines(out, model, &drawn.sequences, &drawn.states),
            Self::Npy => npy::write(out, &drawn.states),
        }
    }
}

impl Report for Paths<'_> {
    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        self.write_lines(out)
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        #[derive(Serialize)]
        struct Fields<'a> {
            paths: Each<Path<'a>>,
            scores: Option<Numbers<'a>>,
        }
        /// States by name; `null` where there is no path.
        struct Path<'a>(&'a [u32], &'a [String]);

        impl Serialize for Path<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_seq(self.0.iter().map(|&state| self.1.get(state as usize)))
            }
        }
        let names = self.context.state_names(str::to_owned);
        let paths = (0..self.context.sequences()).map(|sequence| Path(self.path(sequence), &names));
        let scores = self.scores.as_deref().map(Numbers);
        self.context.write_json(out, Fields { paths: Each(paths.collect()), scores })
    }
}

impl Results for Paths<'_> {
    type Format = PathFormat;

    fn write_as(&self, format: PathFormat, out: &mut dyn Write) -> io::Result<()> {
        match format {
            PathFormat::Text => self.write_lines(out),
            PathFormat::Csv => self.write_csv(out),
            PathFormat::Bed => self.write_bed(out),
            PathFormat::Npy => npy::write(out, &self.states),
        }
    }
}

/// One element per sequence.
#[derive(Serialize)]
#[serde(transparent)]
struct Each<T>(Vec<T>);

file_format! {
    /// A format of posterior probabilities.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum PosteriorFormat {
        /// A table: sequence, position from 1, one probability per state.
        Csv = "csv" in ["csv"],
        /// NumPy's array, ΣT × N.
        Npy = "npy" in ["npy"],
    }
}

impl PosteriorFormat {
    /// A lower bound of the bytes per probability.
    #[must_use]
    pub fn least_bytes(self) -> u64 {
        match self {
            Self::Csv => 4,
            Self::Npy => 8,
        }
    }
}

/// γₜ(i): the posterior probability of each state at each observation.
#[derive(Clone, Debug)]
pub struct Posteriors<'a> {
    /// Input and device.
    pub context: Context<'a>,
    /// γₜ(i), ΣT × N; 0 where the model cannot emit the sequence.
    pub probabilities: Vec<f64>,
}

impl Posteriors<'_> {
    /// γₜ(i) of one sequence, T × N.
    #[must_use]
    pub fn of_sequence(&self, sequence: usize) -> &[f64] {
        let (range, n) = (self.context.records.sequences.range(sequence), self.context.states());
        &self.probabilities[range.start * n..range.end * n]
    }

    /// Whether the model can emit a sequence.
    #[must_use]
    pub fn is_possible(&self, sequence: usize) -> bool {
        self.of_sequence(sequence)[..self.context.states()].iter().any(|p| *p > 0.0)
    }

    fn write_csv(&self, out: &mut dyn Write) -> io::Result<()> {
        write!(out, "sequence,position")?;
        for name in self.context.state_names(field) {
            write!(out, ",{name}")?;
        }
        writeln!(out)?;
        for sequence in 0..self.context.sequences() {
            let records = self.context.records;
            let name = field(&records.name(sequence));
            let rows = self.of_sequence(sequence).chunks_exact(self.context.states());
            for (position, row) in records.positions(sequence).map(|at| at + 1).zip(rows) {
                write!(out, "{name},{position}")?;
                for p in row {
                    write!(out, ",{p:?}")?;
                }
                writeln!(out)?;
            }
        }
        Ok(())
    }
}

impl Report for Posteriors<'_> {
    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        self.write_csv(out)
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        #[derive(Serialize)]
        struct Fields<'a> {
            posteriors: Each<Rows<'a>>,
        }
        /// T rows of N numbers.
        struct Rows<'a>(&'a [f64], usize);

        impl Serialize for Rows<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_seq(self.0.chunks_exact(self.1).map(Numbers))
            }
        }
        let rows =
            (0..self.context.sequences()).map(|sequence| Rows(self.of_sequence(sequence), self.context.states()));
        self.context.write_json(out, Fields { posteriors: Each(rows.collect()) })
    }
}

impl Results for Posteriors<'_> {
    type Format = PosteriorFormat;

    fn write_as(&self, format: PosteriorFormat, out: &mut dyn Write) -> io::Result<()> {
        match format {
            PosteriorFormat::Csv => self.write_csv(out),
            PosteriorFormat::Npy => npy::write_rows(out, &self.probabilities, self.context.states()),
        }
    }
}

/// What training gives, and how.
#[derive(Clone, Debug)]
pub struct Training<'a> {
    /// Input and device.
    pub context: Context<'a>,
    /// All models, and the best of them.
    pub trained: &'a Trained,
    /// The options of training.
    pub options: &'a Options,
}

impl Training<'_> {
    /// Whether the best model has converged, and else why training ended.
    fn status(&self) -> &'static str {
        match self.trained.status {
            Status::Converged => "converged",
            Status::Iterations | Status::Fell => "not converged",
            Status::Interrupted => "interrupted",
        }
    }

    /// M steps of the best model.
    #[must_use]
    pub fn iterations(&self) -> usize {
        self.trained.best().log_likelihoods.len() - 1
    }

    /// The variances of the best model that the floor holds.
    fn held(&self) -> Held {
        if self.iterations() == 0 {
            return Held::default();
        }
        Held::new(&self.trained.best().model, &Spread::new(&self.context.records.sequences).floors(self.options.floor))
    }

    /// AIC and BIC of the best model.
    fn criteria(&self) -> (f64, f64) {
        let best = self.trained.best();
        let log = best.log_likelihood();
        let parameters = self.options.constraint.parameters(&best.model);
        (aic(parameters, log), bic(parameters, &self.context.records.sequences, log))
    }

    /// Notes on the quality of the result.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let (best, held) = (self.trained.best(), self.held());
        let mut notes = Vec::new();
        if held.states > 0 {
            let (Held { states, variances }, all) = (held, best.model.states());
            let floor = self.options.floor;
            notes.push(format!(
                "the floor holds variances of {states} of {all} states, {variances} in all (floor {floor:e})"
            ));
        }
        if let Some(from) = best.fell {
            let (to, precision) = (best.objective(), self.context.precision);
            notes.push(format!(
                "the likelihood fell from {from} to {to}: {precision} is too inexact for this model and these sequences"
            ));
        }
        notes
    }
}

impl Report for Training<'_> {
    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let best = self.trained.best();
        let (status, iterations) = (self.status(), self.iterations());
        let (first, last) = (best.log_likelihoods[0], best.log_likelihood());
        let (aic, bic) = self.criteria();
        let Context { device, precision, phases: Phases { read, solve, write, .. }, .. } = &self.context;
        let models = match self.trained.runs.len() {
            1 => String::new(),
            models => format!(", the best of {models} models"),
        };
        writeln!(out, "Status           {status} after {iterations} iterations{models}")?;
        writeln!(out, "ln P(O)          {first:.6} at first, {last:.6} at last")?;
        writeln!(out, "AIC, BIC         {aic:.3}, {bic:.3}")?;
        writeln!(out, "Time             {solve:.3} s on {device}, {precision}")?;
        writeln!(out, "  files          {read:.3} s to read, {write:.3} s to write")?;
        self.context.write_ranks(out)
    }

    fn guarantee(&self) -> Option<String> {
        let log = self.trained.best().log_likelihood();
        Some(format!("ln P(O) = {log:.6}, {} after {} iterations", self.status(), self.iterations()))
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        #[derive(Serialize)]
        struct Fields<'a> {
            status: &'static str,
            iterations: usize,
            log_likelihood: f64,
            aic: f64,
            bic: f64,
            log_likelihoods: Numbers<'a>,
            best: usize,
            models: usize,
            all: Vec<f64>,
            seconds: f64,
            floor: f64,
            floored: Held,
            fell: Option<f64>,
        }
        let (best, (aic, bic)) = (self.trained.best(), self.criteria());
        let fields = Fields {
            status: self.status(),
            iterations: self.iterations(),
            log_likelihood: best.log_likelihood(),
            aic,
            bic,
            log_likelihoods: Numbers(&best.log_likelihoods),
            best: self.trained.best,
            models: self.trained.runs.len(),
            all: self.trained.runs.iter().map(Run::log_likelihood).collect(),
            seconds: self.context.phases.solve,
            floor: self.options.floor,
            floored: self.held(),
            fell: best.fell,
        };
        self.context.write_json(out, fields)
    }
}

impl Results for Training<'_> {
    type Format = files::Format;

    fn write_as(&self, format: files::Format, out: &mut dyn Write) -> io::Result<()> {
        files::write_to(out, format, &self.trained.best().model)
    }
}

/// One line of progress of training.
#[must_use]
pub fn progress(round: &Round) -> String {
    format!("ln P(O) {:.6}, {} in training", round.objective, round.active)
}
