//! Reports of decoding, and files of hidden states.

use std::io::{self, Write};

use serde::{Serialize, Serializer};

use super::{Context, Each, state_names};
use crate::backend::NO_STATE;
use crate::io::sequences::{field, word};
use crate::model::Hmm;
use crate::sample::Sample;
use crate::sequences::Sequences;
use warpkov_common::choice::file_format;
use warpkov_common::io::npy;
use warpkov_common::numbers::Numbers;
use warpkov_common::report::{Report, Results};

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

/// States by name; `null` where there is no path.
pub(super) struct NamedStates<'a>(pub &'a [u32], pub &'a [String]);

impl Serialize for NamedStates<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|&state| self.1.get(state as usize)))
    }
}

impl Report for Paths<'_> {
    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        self.write_lines(out)
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        #[derive(Serialize)]
        struct Fields<'a> {
            paths: Each<NamedStates<'a>>,
            scores: Option<Numbers<'a>>,
        }
        let names = self.context.state_names(str::to_owned);
        let paths = (0..self.context.sequences()).map(|sequence| NamedStates(self.path(sequence), &names));
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

/// Writes one line per sequence, the names of its states; `impossible` where there is no path.
fn write_lines(out: &mut dyn Write, model: &Hmm, sequences: &Sequences, states: &[u32]) -> io::Result<()> {
    let names = state_names(model, |name| word(name).into_owned());
    for sequence in 0..sequences.len() {
        let path = &states[sequences.range(sequence)];
        if path.first() == Some(&NO_STATE) {
            write!(out, "impossible")?;
        } else {
            write_states(out, path, &names)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Writes the names of states, separated by blanks.
pub(super) fn write_states(out: &mut dyn Write, path: &[u32], names: &[String]) -> io::Result<()> {
    for (t, &state) in path.iter().enumerate() {
        write!(out, "{}{}", if t == 0 { "" } else { " " }, names[state as usize])?;
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
