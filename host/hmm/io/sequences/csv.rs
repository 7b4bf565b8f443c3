//! A header, then an observation a line. Where the header begins with `sequence`, so does every line with the name of its
//! sequence, whose lines follow each other; else all are one sequence. Behind it comes a symbol, or the numbers of a vector.

use std::io::{self, Write};

use super::{Alphabet, Builder, numbered};
use crate::hmm::io::Error;
use crate::hmm::model::{Hmm, name};
use crate::hmm::sequences::{Observations, Sequences};
use crate::mdp::io::lines::Put;

/// Reads sequences.
pub fn read(text: &[u8], file: &str, alphabet: &Alphabet) -> Result<Sequences, Error> {
    let mut builder = Builder::new(alphabet, file);
    let mut lines = numbered(text.trim_ascii_end());
    let header = lines.next().map_or(&[][..], |(_, header)| header);
    let named = header.split(|&byte| byte == b',').next().is_some_and(|first| first.trim_ascii() == b"sequence");
    let columns = header.split(|&byte| byte == b',').count();
    let expected = alphabet.dimensions.unwrap_or(1) + usize::from(named);
    if columns != expected {
        let message = format!("the header has {columns} columns, expected {expected} for what the model emits");
        return Err(builder.error(1, message));
    }
    let (mut last, mut number) = (None, 1);
    for (line, row) in lines {
        number = line;
        let fields = row.split(|&byte| byte == b',').count();
        if fields != columns {
            return Err(builder.error(line, format!("found {fields} columns, expected {columns} as in the header")));
        }
        let mut fields = row.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
        let sequence = if named { fields.next() } else { Some(&[][..]) };
        if last.is_some() && last != sequence {
            builder.end(line)?;
        }
        last = sequence;
        for field in fields {
            builder.push(field, line)?;
        }
    }
    builder.end(number)?;
    Ok(builder.sequences())
}

/// Writes sequences, numbered from 1.
pub fn write(out: &mut impl Write, sequences: &Sequences, model: &Hmm) -> io::Result<()> {
    match &sequences.observations {
        Observations::Symbols(_) => out.text("sequence,symbol\n")?,
        Observations::Vectors { dimensions, .. } => {
            out.text("sequence")?;
            for k in 1..=*dimensions {
                write!(out, ",x{k}")?;
            }
            out.text("\n")?;
        }
    }
    for sequence in 0..sequences.len() {
        for at in sequences.range(sequence) {
            out.integer(sequence as u64 + 1)?;
            match &sequences.observations {
                Observations::Symbols(symbols) => {
                    out.text(",")?;
                    out.text(&name(&model.names.symbols, symbols[at]))?;
                }
                Observations::Vectors { dimensions, values } => {
                    let d = *dimensions as usize;
                    for &value in &values[at * d..][..d] {
                        out.text(",")?;
                        out.real(value)?;
                    }
                }
            }
            out.text("\n")?;
        }
    }
    Ok(())
}
