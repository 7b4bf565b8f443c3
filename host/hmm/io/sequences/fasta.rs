//! FASTA: a line with `>` begins a sequence, and every letter of the lines behind it is a symbol, small ones as capitals. A
//! model of four symbols without names has A, C, G and T.

use std::io::{self, Write};

use super::{Alphabet, Builder, numbered};
use crate::hmm::io::Error;
use crate::hmm::model::{Hmm, name};
use crate::hmm::sequences::{Observations, Sequences};
use crate::mdp::io::lines::{Put, no_place};

/// Letters of a line.
const LINE: usize = 60;

/// Letters of DNA.
const BASES: [&str; 4] = ["A", "C", "G", "T"];

/// Reads sequences.
pub fn read(text: &[u8], file: &str, alphabet: &Alphabet) -> Result<Sequences, Error> {
    let bases = BASES.map(str::to_owned);
    let dna;
    let alphabet = match (alphabet.names, alphabet.symbols) {
        ([], 4) => {
            let numbers = bases.iter().map(String::as_bytes).zip(0..).collect();
            dna = Alphabet { dimensions: None, symbols: 4, names: &bases, numbers };
            &dna
        }
        _ => alphabet,
    };
    let mut builder = Builder::new(alphabet, file);
    if alphabet.dimensions.is_some() || alphabet.names.is_empty() {
        let message = "the model has no symbols with names, which the letters could be".to_owned();
        return Err(builder.error(1, message));
    }
    let mut begun = false;
    let mut last = 1;
    for (line, row) in numbered(text) {
        last = line;
        match row {
            [] => {}
            [b'>', ..] => {
                if begun {
                    builder.end(line)?;
                }
                begun = true;
            }
            _ if !begun => {
                return Err(builder.error(line, "expected a line that begins with > before the letters".to_owned()));
            }
            letters => {
                for letter in letters {
                    let known = alphabet.symbol(&[*letter]).is_some();
                    let capital = letter.to_ascii_uppercase();
                    builder.push(&[if known { *letter } else { capital }], line)?;
                }
            }
        }
    }
    builder.end(last)?;
    Ok(builder.sequences())
}

/// Writes sequences.
pub fn write(out: &mut impl Write, sequences: &Sequences, model: &Hmm) -> io::Result<()> {
    let bases = BASES.map(str::to_owned);
    let names = match &model.names.symbols[..] {
        [] => &bases[..],
        names => names,
    };
    let Observations::Symbols(symbols) = &sequences.observations else {
        return Err(no_place("FASTA has no place for vectors".to_owned()));
    };
    if names.iter().any(|name| name.len() != 1) || symbols.iter().any(|&symbol| symbol as usize >= names.len()) {
        return Err(no_place("FASTA needs symbols with names of one letter each".to_owned()));
    }
    for sequence in 0..sequences.len() {
        writeln!(out, ">{}", sequence + 1)?;
        for line in symbols[sequences.range(sequence)].chunks(LINE) {
            for &symbol in line {
                out.text(&name(names, symbol))?;
            }
            out.text("\n")?;
        }
    }
    Ok(())
}
