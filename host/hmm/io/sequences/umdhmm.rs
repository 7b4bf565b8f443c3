//! The text format of UMDHMM: `T= length`, and symbol numbers from 1.

use std::io::{self, Write};

use super::records::Read;
use crate::io::Error;
use crate::io::umdhmm::Words;
use crate::sequences::{Observations, Sequences};
use warpkov_common::io::lines::{Put, integer, no_place};

/// Reads a sequence.
pub fn read(text: &[u8], file: &str) -> Result<Read, Error> {
    let mut words = Words::new(text, file);
    let length = words.count("T=")?;
    let mut symbols = Vec::new();
    for _ in 0..length {
        let word = words.next();
        let symbol = word.and_then(integer).and_then(|number| u32::try_from(number).ok()?.checked_sub(1));
        symbols.push(symbol.ok_or_else(|| words.unexpected(word, "a symbol number from 1"))?);
    }
    match words.next() {
        None => Ok(Read::from_observations(vec![0, length.into()], Observations::Symbols(symbols))),
        word => Err(words.unexpected(word, "the end of the file")),
    }
}

/// Message for sequences that the format cannot represent.
pub const NO_PLACE: &str = "UMDHMM's format has one sequence of symbols";

/// Writes a sequence.
pub fn write(out: &mut impl Write, sequences: &Sequences) -> io::Result<()> {
    match sequences.observations() {
        Observations::Symbols(symbols) if sequences.len() == 1 => {
            write!(out, "T= {}", symbols.len())?;
            for (at, &symbol) in symbols.iter().enumerate() {
                out.text(if at == 0 { "\n" } else { " " })?;
                out.integer(u64::from(symbol) + 1)?;
            }
            out.text("\n")
        }
        _ => Err(no_place(NO_PLACE.to_owned())),
    }
}
