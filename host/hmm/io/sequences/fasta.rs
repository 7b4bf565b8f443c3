//! FASTA: a line with `>` begins a record; its first word names the record. Every letter of the following lines is a
//! symbol. Lines with `;` are comments. A letter that the model lacks matches the same letter in the other case, and U
//! matches T and vice versa. A model of four symbols without names has the symbols A, C, G and T.
//!
//! For models of nucleotides or amino acids, the ambiguity codes of IUPAC (Cornish-Bowden 1985) stand for one of
//! several symbols. `-`, `.` and `?` stand for any symbol.

use std::io::{self, Write};

use super::missing::{HINT, Missing};
use super::records::Read;
use super::{Alphabet, Builder, numbered};
use crate::io::Error;
use crate::model::{Emissions, Hmm};
use crate::sequences::{Observations, Sequences};
use warpkov_common::io::lines::{Put, no_place, quoted};
use warpkov_common::names::name;

/// Letters per line.
const LINE: usize = 60;

/// Message for vectors, which the format cannot represent.
const VECTORS: &str = "FASTA has no place for vectors";

/// The letters of DNA.
const BASES: [&str; 4] = ["A", "C", "G", "T"];

/// The meaning of a byte of a sequence.
#[derive(Clone)]
enum Letter {
    Symbol(u32),
    /// One of these symbols; all symbols for a gap.
    OneOf(Vec<u32>),
    Unknown,
}

/// The meaning of each byte under a model.
struct Letters(Vec<Letter>);

impl Letters {
    fn new(alphabet: &Alphabet) -> Self {
        let has = |letter: u8| alphabet.symbol(&[letter.to_ascii_uppercase()]).is_some();
        let proteins = b"EFILPQ".iter().any(|&letter| has(letter)) && has(b'A');
        let bases = !proteins && b"ACG".iter().all(|&letter| has(letter)) && (has(b'T') || has(b'U'));
        let exact = |letter: u8| {
            let (upper, lower) = (letter.to_ascii_uppercase(), letter.to_ascii_lowercase());
            [letter, upper, lower].iter().find_map(|&letter| alphabet.symbol(&[letter]))
        };
        let symbol = |letter: u8| {
            exact(letter).or_else(|| match letter.to_ascii_uppercase() {
                b'T' if bases => exact(b'U'),
                b'U' if bases => exact(b'T'),
                _ => None,
            })
        };
        let letter = |byte: u8| {
            if let Some(symbol) = symbol(byte) {
                return Letter::Symbol(symbol);
            }
            let code = byte.to_ascii_uppercase();
            let letters = match code {
                b'-' | b'.' | b'?' => return Letter::OneOf((0..alphabet.symbols).collect()),
                _ if bases => nucleotides(code),
                _ if proteins => amino_acids(code),
                _ => b"",
            };
            let mut set: Vec<u32> = letters.iter().filter_map(|&letter| symbol(letter)).collect();
            set.sort_unstable();
            set.dedup();
            if set.is_empty() { Letter::Unknown } else { Letter::OneOf(set) }
        };
        Self((0..=u8::MAX).map(letter).collect())
    }
}

/// The nucleotides that an IUPAC code stands for.
fn nucleotides(code: u8) -> &'static [u8] {
    match code {
        b'R' => b"AG",
        b'Y' => b"CT",
        b'S' => b"CG",
        b'W' => b"AT",
        b'K' => b"GT",
        b'M' => b"AC",
        b'B' => b"CGT",
        b'D' => b"AGT",
        b'H' => b"ACT",
        b'V' => b"ACG",
        b'N' | b'X' => b"ACGT",
        _ => b"",
    }
}

/// The amino acids that an IUPAC code stands for.
fn amino_acids(code: u8) -> &'static [u8] {
    match code {
        b'B' => b"DN",
        b'J' => b"IL",
        b'Z' => b"EQ",
        b'X' => b"ACDEFGHIKLMNPQRSTVWY",
        _ => b"",
    }
}

/// Reads sequences.
pub fn read(text: &[u8], file: &str, alphabet: &Alphabet) -> Result<Read, Error> {
    let bases = BASES.map(str::to_owned);
    let dna;
    let alphabet = match (alphabet.names, alphabet.symbols) {
        ([], 4) => {
            let numbers = bases.iter().map(String::as_bytes).zip(0..).collect();
            dna = Alphabet { names: &bases, numbers, ..alphabet.clone() };
            &dna
        }
        _ => alphabet,
    };
    let mut builder = Builder::new(alphabet, file);
    if alphabet.dimensions.is_some() || alphabet.names.is_empty() {
        let message = "the model has no named symbols that letters could stand for".to_owned();
        return Err(builder.error(1, message));
    }
    let letters = Letters::new(alphabet);
    let mut last = 1;
    for (line, row) in numbered(text) {
        last = line;
        match row {
            [] | [b';', ..] => {}
            [b'>', title @ ..] => {
                if !builder.read.names.is_empty() {
                    end(&mut builder, line)?;
                }
                let name = title.split(u8::is_ascii_whitespace).next().unwrap_or_default();
                let number = builder.read.names.len() + 1;
                let name =
                    if name.is_empty() { number.to_string() } else { String::from_utf8_lossy(name).into_owned() };
                builder.read.names.push(name);
            }
            _ if builder.read.names.is_empty() => {
                return Err(
                    builder.error(line, "expected a record line, which begins with >, before the letters".to_owned())
                );
            }
            row => {
                for &byte in row {
                    match &letters.0[usize::from(byte)] {
                        Letter::Symbol(symbol) => {
                            if let Observations::Symbols(symbols) = &mut builder.read.observations {
                                symbols.push(*symbol);
                            }
                        }
                        _ if byte.is_ascii_whitespace() => {}
                        Letter::OneOf(set) if alphabet.missing == Missing::Marginalise => {
                            let symbol = builder.read.set(set.clone(), alphabet.symbols);
                            if let Observations::Symbols(symbols) = &mut builder.read.observations {
                                symbols.push(symbol);
                            }
                        }
                        Letter::OneOf(_) if alphabet.missing != Missing::Refuse => builder.read.push_missing(),
                        letter => return Err(unexpected(&builder, line, byte, letter)),
                    }
                }
            }
        }
    }
    end(&mut builder, last)?;
    Ok(builder.read)
}

/// Ends the last record.
fn end(builder: &mut Builder, line: u64) -> Result<(), Error> {
    match builder.read.names.last() {
        Some(name) if Some(&builder.read.len()) == builder.read.offsets.last() => {
            Err(builder.error(line, format!("record {} has no letters", quoted(name.as_bytes()))))
        }
        _ => builder.end(line),
    }
}

#[cold]
fn unexpected(builder: &Builder, line: u64, byte: u8, letter: &Letter) -> Error {
    let record = builder.read.names.last().map(|name| quoted(name.as_bytes())).unwrap_or_default();
    let position = builder.read.len() - builder.read.offsets[builder.read.offsets.len() - 1] + 1;
    let (found, expected) = (quoted(&[byte]), builder.alphabet.expected());
    let code = match letter {
        _ if matches!(byte, b'-' | b'.' | b'?') => ", a gap".to_owned(),
        Letter::OneOf(set) => {
            let names: Vec<String> = set.iter().map(|&symbol| name(builder.alphabet.names, symbol)).collect();
            format!(", which is {}", names.join(" or "))
        }
        _ => String::new(),
    };
    let hint = if code.is_empty() { "" } else { HINT };
    builder.error(
        line,
        format!("record {record}, position {position}: found \"{found}\"{code}, expected {expected}{hint}"),
    )
}

/// The letter of each symbol.
fn letters(model: &Hmm) -> io::Result<Vec<String>> {
    let Emissions::Categorical { symbols, .. } = model.emissions() else { return Err(no_place(VECTORS.to_owned())) };
    let names = match (&model.names().symbols[..], *symbols) {
        // As the reader has it.
        ([], 4) => BASES.map(str::to_owned).into_iter().collect(),
        (names, _) => names.to_vec(),
    };
    if names.is_empty() || names.iter().any(|name| name.len() != 1) {
        return Err(no_place("FASTA needs symbols with names of one letter each".to_owned()));
    }
    let unreadable = |name: &&String| matches!(name.as_bytes()[0], b'>' | b';' | 0..=b' ' | 0x7f);
    if let Some(name) = names.iter().find(unreadable) {
        let message = format!(
            "FASTA has no place for the symbol \"{}\", which does not stand for itself there",
            quoted(name.as_bytes())
        );
        return Err(no_place(message));
    }
    Ok(names)
}

/// Checks that the format can represent the sequences of a model.
pub fn holds(model: &Hmm) -> io::Result<()> {
    letters(model).map(drop)
}

/// Writes sequences.
pub fn write(out: &mut impl Write, sequences: &Sequences, model: &Hmm) -> io::Result<()> {
    let names = &letters(model)?[..];
    let Observations::Symbols(symbols) = sequences.observations() else {
        return Err(no_place(VECTORS.to_owned()));
    };
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
