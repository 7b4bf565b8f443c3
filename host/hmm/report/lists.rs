//! Reports of several paths of each sequence.

use std::io::{self, Write};

use serde::Serialize;

use super::decode::{NamedStates, write_states};
use super::{Context, Each, PathFormat};
use crate::backend::NO_STATE;
use crate::io::sequences::{field, word};
use crate::paths::Scored;
use warpkov_common::io::npy;
use warpkov_common::numbers::Number;
use warpkov_common::report::{Report, Results};

/// Several hidden paths of each sequence.
#[derive(Clone, Debug)]
pub struct PathLists<'a> {
    /// Input and device.
    pub context: Context<'a>,
    /// The paths of each sequence, at most `count`; none where the model cannot emit it.
    pub lists: Vec<Vec<Scored>>,
    /// K, the number of paths asked for.
    pub count: u32,
    /// Whether they are the most probable ones, in order. Lines of text then begin with ln P(O, q).
    pub ordered: bool,
}

impl PathLists<'_> {
    fn write_lines(&self, out: &mut dyn Write) -> io::Result<()> {
        let names = self.context.state_names(|name| word(name).into_owned());
        for list in &self.lists {
            if list.is_empty() {
                writeln!(out, "impossible")?;
            }
            for Scored { states, score } in list {
                if self.ordered {
                    write!(out, "{score:.6}\t")?;
                }
                write_states(out, states, &names)?;
                writeln!(out)?;
            }
        }
        Ok(())
    }

    fn write_csv(&self, out: &mut dyn Write) -> io::Result<()> {
        let (records, names) = (self.context.records, self.context.state_names(field));
        writeln!(out, "sequence,path,position,state")?;
        for (sequence, list) in self.lists.iter().enumerate() {
            let name = field(&records.name(sequence));
            for (number, path) in (1..).zip(list) {
                for (position, &state) in records.positions(sequence).map(|at| at + 1).zip(&path.states) {
                    writeln!(out, "{name},{number},{position},{}", names[state as usize])?;
                }
            }
        }
        Ok(())
    }

    /// Path k of all sequences, K × ΣT.
    fn write_npy(&self, out: &mut dyn Write) -> io::Result<()> {
        let sequences = &self.context.records.sequences;
        npy::write_header(out, <u32 as npy::Store>::DESCR, &[self.count as usize, sequences.steps()])?;
        for number in 0..self.count as usize {
            for (sequence, list) in self.lists.iter().enumerate() {
                match list.get(number) {
                    Some(path) => out.write_all(bytemuck::cast_slice(&path.states))?,
                    None => out.write_all(&NO_STATE.to_le_bytes().repeat(sequences.range(sequence).len()))?,
                }
            }
        }
        Ok(())
    }
}

impl Report for PathLists<'_> {
    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        self.write_lines(out)
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        #[derive(Serialize)]
        struct Fields<'a> {
            paths: Each<Each<NamedStates<'a>>>,
            scores: Each<Each<Number>>,
        }
        let names = self.context.state_names(str::to_owned);
        let of_paths = self.lists.iter().map(|list| list.iter().map(|path| NamedStates(&path.states, &names)));
        let of_scores = self.lists.iter().map(|list| list.iter().map(|path| Number(path.score)));
        let paths = Each(of_paths.map(|paths| Each(paths.collect())).collect());
        let scores = Each(of_scores.map(|scores| Each(scores.collect())).collect());
        let fields = Fields { paths, scores };
        self.context.write_json(out, fields)
    }
}

impl Results for PathLists<'_> {
    type Format = PathFormat;

    fn write_as(&self, format: PathFormat, out: &mut dyn Write) -> io::Result<()> {
        match format {
            PathFormat::Text => self.write_lines(out),
            PathFormat::Csv => self.write_csv(out),
            PathFormat::Npy => self.write_npy(out),
            PathFormat::Bed => {
                Err(io::Error::new(io::ErrorKind::Unsupported, "a BED file holds one path of a sequence"))
            }
        }
    }
}
