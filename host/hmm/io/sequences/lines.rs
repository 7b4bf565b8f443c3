//! One sequence a line: symbols or numbers, between blanks or commas. Vectors have one dimension here.

use std::io::{self, Write};

use super::{Alphabet, Builder, numbered};
use crate::hmm::io::Error;
use crate::hmm::model::{Hmm, name};
use crate::hmm::sequences::{Observations, Sequences};
use crate::mdp::io::lines::{Put, no_place};

/// Reads sequences.
pub fn read(text: &[u8], file: &str, alphabet: &Alphabet) -> Result<Sequences, Error> {
    let mut builder = Builder::new(alphabet, file);
    if let Some(d) = alphabet.dimensions.filter(|&d| d > 1) {
        return Err(builder.error(1, format!("vectors of {d} numbers are read from .csv and .npy, not from lines")));
    }
    // Blank lines at the end are no sequences.
    for (line, words) in numbered(text.trim_ascii_end()) {
        for word in words.split(|byte| byte.is_ascii_whitespace() || *byte == b',').filter(|word| !word.is_empty()) {
            builder.push(word, line)?;
        }
        builder.end(line)?;
    }
    Ok(builder.sequences())
}

/// Writes sequences.
pub fn write(out: &mut impl Write, sequences: &Sequences, model: &Hmm) -> io::Result<()> {
    for sequence in 0..sequences.len() {
        for (position, at) in sequences.range(sequence).enumerate() {
            out.text(if position == 0 { "" } else { " " })?;
            match &sequences.observations {
                Observations::Symbols(symbols) => out.text(&name(&model.names.symbols, symbols[at]))?,
                Observations::Vectors { dimensions: 1, values } => out.real(values[at])?,
                Observations::Vectors { .. } => {
                    return Err(no_place("vectors are written to .csv and .npy, not to lines".to_owned()));
                }
            }
        }
        out.text("\n")?;
    }
    Ok(())
}
