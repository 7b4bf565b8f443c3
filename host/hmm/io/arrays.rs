//! The arrays of hmmlearn models, in an archive (`.npz`) or as separate files in a folder.
//!
//! | array | shape |
//! | --- | --- |
//! | `startprob_` | N |
//! | `transmat_` | N × N |
//! | `emissionprob_` | N × V |
//! | `means_`, `covars_` | N × D; N × D or N × D × D |
//! | `covariance_type` | text, optional |
//! | `end_`, `states_`, `symbols_`, `classes_` | N; texts. Optional extensions of warpkov |
//!
//! The shape of `covars_` distinguishes diagonal from full covariances. hmmlearn's property `covars_` is N × D × D for
//! every type, so `covariance_type` takes precedence. For `diag` and `spherical` only the diagonals are read; a
//! `spherical` array may also have shape N. For `tied`, one D × D matrix applies to every state.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use super::Error;
use crate::model::{Covariances, Emissions, Hmm, HmmParts, Names};
use warpkov_common::io::BUFFER;
use warpkov_common::io::binary::{invalid, of_file, within};
use warpkov_common::io::npy::{self, Tensor};
use warpkov_common::io::npz::{Archive, Members};

/// Why a model has no such arrays.
pub const NO_PLACE: &str = "hmmlearn's arrays have no place for channels, expected JSON";

/// A source of named arrays.
trait Arrays {
    fn has(&self, name: &str) -> bool;
    fn with<T>(&mut self, name: &str, read: impl FnOnce(&mut dyn Read) -> io::Result<T>) -> io::Result<T>;
}

impl Arrays for Archive {
    fn has(&self, name: &str) -> bool {
        Self::has(self, name)
    }

    fn with<T>(&mut self, name: &str, read: impl FnOnce(&mut dyn Read) -> io::Result<T>) -> io::Result<T> {
        Self::with(self, name, read)
    }
}

impl Arrays for &Path {
    fn has(&self, name: &str) -> bool {
        self.join(format!("{name}.npy")).exists()
    }

    fn with<T>(&mut self, name: &str, read: impl FnOnce(&mut dyn Read) -> io::Result<T>) -> io::Result<T> {
        let file = File::open(self.join(format!("{name}.npy"))).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => invalid(format!("array {name} is missing")),
            _ => error,
        })?;
        read(&mut BufReader::with_capacity(BUFFER, file)).map_err(within(name))
    }
}

/// Reads a model from an archive, without validation.
pub fn read(file: File, name: String) -> Result<HmmParts, Error> {
    Archive::open(file).and_then(model).map_err(of_file(name))
}

/// Reads a model from a folder, without validation.
pub fn read_folder(path: &Path) -> Result<HmmParts, Error> {
    model(path).map_err(of_file(path.display().to_string()))
}

fn model(mut arrays: impl Arrays) -> io::Result<HmmParts> {
    let (shape, start) = array(&mut arrays, "startprob_")?;
    let [n] = shape[..] else { return Err(wrong("startprob_", &shape, "one dimension")) };
    let square = format!("{n} × {n}");
    let (shape, transitions) = array(&mut arrays, "transmat_")?;
    if shape != [n, n] {
        return Err(wrong("transmat_", &shape, &square));
    }
    let emissions = if arrays.has("emissionprob_") {
        match array(&mut arrays, "emissionprob_")? {
            (shape, probs) if shape.len() == 2 && shape[0] == n => {
                Emissions::Categorical { symbols: number(shape[1])?, probs }
            }
            (shape, _) => return Err(wrong("emissionprob_", &shape, &format!("{n} × V"))),
        }
    } else if arrays.has("means_") {
        let (shape, means) = array(&mut arrays, "means_")?;
        let [rows, d] = shape[..] else { return Err(wrong("means_", &shape, &format!("{n} × D"))) };
        if rows != n || d == 0 {
            return Err(wrong("means_", &shape, &format!("{n} × D")));
        }
        let kind = match arrays.has("covariance_type") {
            true => arrays.with("covariance_type", |reader| npy::read_texts(reader))?.into_iter().next(),
            false => None,
        };
        let (shape, numbers) = array(&mut arrays, "covars_")?;
        let covariances = covariances(kind.as_deref(), &shape, numbers, n, d)?;
        Emissions::Gaussian { dimensions: number(d)?, means, covariances }
    } else {
        return Err(invalid("arrays emissionprob_ and means_ are both missing"));
    };
    let end = arrays.has("end_").then(|| array(&mut arrays, "end_").map(|(_, end)| end)).transpose()?;
    let mut texts = |name: &str| match arrays.has(name) {
        true => arrays.with(name, |reader| npy::read_texts(reader)),
        false => Ok(Vec::new()),
    };
    let names = Names { states: texts("states_")?, symbols: texts("symbols_")?, classes: texts("classes_")? };
    Ok(HmmParts { start, transitions, end, emissions, names })
}

fn array(arrays: &mut impl Arrays, name: &str) -> io::Result<(Vec<usize>, Vec<f64>)> {
    let Tensor { shape, elements } = arrays.with(name, |reader| npy::read(reader))?;
    Ok((shape, elements))
}

fn number(count: usize) -> io::Result<u32> {
    u32::try_from(count).map_err(|_| invalid("an array has more than 2³² − 1 columns"))
}

fn wrong(name: &str, shape: &[usize], expected: &str) -> io::Error {
    invalid(format!("{name} is of shape {shape:?}, expected {expected}"))
}

/// Covariances of `n` states, interpreted by their type, or else by their shape.
fn covariances(kind: Option<&str>, shape: &[usize], numbers: Vec<f64>, n: usize, d: usize) -> io::Result<Covariances> {
    let (diagonal, matrices) = (shape == [n, d], shape == [n, d, d]);
    Ok(match kind {
        None | Some("diag") if diagonal => Covariances::Diagonal(numbers),
        None | Some("full" | "tied") if matrices => Covariances::Full(numbers),
        Some("diag" | "spherical") if matrices => Covariances::Full(numbers).diagonal(d),
        Some("spherical") if shape == [n] || shape == [n, 1] => {
            Covariances::Diagonal(numbers.iter().flat_map(|&variance| std::iter::repeat_n(variance, d)).collect())
        }
        Some("tied") if shape == [d, d] => Covariances::Full(numbers.repeat(n)),
        None => return Err(wrong("covars_", shape, &format!("{n} × {d} or {n} × {d} × {d}"))),
        Some("diag") => return Err(wrong("covars_", shape, &format!("{n} × {d} as covariance_type is diag"))),
        Some("full") => return Err(wrong("covars_", shape, &format!("{n} × {d} × {d} as covariance_type is full"))),
        Some("spherical") => return Err(wrong("covars_", shape, &format!("{n} as covariance_type is spherical"))),
        Some("tied") => return Err(wrong("covars_", shape, &format!("{d} × {d} as covariance_type is tied"))),
        Some(other) => {
            return Err(invalid(format!("covariance_type is {other:?}, expected diag, full, spherical or tied")));
        }
    })
}

/// Writes a model to an archive.
pub fn write(out: &mut dyn Write, model: &Hmm) -> io::Result<()> {
    let n = model.start().len();
    let mut archive = Members::new(out);
    let mut put = |name: &str, shape: &[usize], numbers: &[f64]| {
        archive.add(name, |out| {
            npy::write_header(out, "<f8", shape)?;
            out.write_all(bytemuck::cast_slice(numbers))
        })
    };
    put("startprob_", &[n], model.start())?;
    put("transmat_", &[n, n], model.transitions())?;
    if let Some(end) = model.end() {
        put("end_", &[n], end)?;
    }
    match model.emissions() {
        Emissions::Categorical { symbols, probs } => put("emissionprob_", &[n, *symbols as usize], probs)?,
        Emissions::Gaussian { dimensions, means, covariances } => {
            let d = *dimensions as usize;
            put("means_", &[n, d], means)?;
            let kind = match covariances {
                Covariances::Diagonal(variances) => {
                    put("covars_", &[n, d], variances)?;
                    "diag"
                }
                Covariances::Full(matrices) => {
                    put("covars_", &[n, d, d], matrices)?;
                    "full"
                }
            };
            archive.add("covariance_type", |out| npy::write_texts(out, &[kind]))?;
        }
        Emissions::Channels(_) => return Err(invalid(NO_PLACE)),
    }
    let Names { states, symbols, classes } = model.names();
    for (name, texts) in [("states_", states), ("symbols_", symbols), ("classes_", classes)] {
        if !texts.is_empty() {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            archive.add(name, |out| npy::write_texts(out, &texts))?;
        }
    }
    archive.finish()
}
