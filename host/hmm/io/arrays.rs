//! The arrays of hmmlearn models, in an archive (`.npz`) or as separate files in a folder.
//!
//! | array | shape |
//! | --- | --- |
//! | `startprob_` | N |
//! | `transmat_` | N × N |
//! | `emissionprob_` | N × V |
//! | `means_`, `covars_` | N × D; N × D or N × D × D |
//! | `covariance_type` | text, optional |
//! | `lambdas_` | N × D, of a `PoissonHMM` |
//! | `emissionprob_`, `n_trials` | N × D; one number, of a `MultinomialHMM` |
//! | `weights_`, `means_`, `covars_` | N × K; N × K × D; N × K × D, of a `GMMHMM` with variances |
//! | `end_`, `states_`, `symbols_`, `classes_`, `columns_` | N; texts. Optional extensions of warpkov |
//!
//! The shape of `covars_` distinguishes diagonal from full covariances. hmmlearn's property `covars_` is N × D × D for
//! every type, so `covariance_type` takes precedence. For `diag` and `spherical` only the diagonals are read; a
//! `spherical` array may also have shape N. For `tied`, one D × D matrix applies to every state.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use super::Error;
use crate::channels::{Channel, Channels, Family, Mixture, Multinomial, Poisson};
use crate::model::{Covariances, Emissions, Hmm, HmmParts, Names};
use warpkov_common::io::BUFFER;
use warpkov_common::io::binary::{invalid, of_file, within};
use warpkov_common::io::npy::{self, Tensor};
use warpkov_common::io::npz::{Archive, Members};

/// Why a model has no such arrays.
pub const NO_PLACE: &str = "hmmlearn's arrays have no place for these channels, expected JSON";

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
    let emissions = if let Some(channels) = channels(&mut arrays, n)? {
        Emissions::Channels(channels)
    } else if arrays.has("emissionprob_") {
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
    let [states, symbols, classes] = ["states_", "symbols_", "classes_"].map(|name| texts(&mut arrays, name));
    let names = Names { states: states?, symbols: symbols?, classes: classes? };
    Ok(HmmParts { start, transitions, end, emissions, names })
}

/// The only channel of an hmmlearn model other than its categorical and its Gaussian ones, which this returns `None` for.
fn channels(arrays: &mut impl Arrays, n: usize) -> io::Result<Option<Channels>> {
    if n == 0 {
        return Ok(None);
    }
    let (d, family) = if arrays.has("lambdas_") {
        match array(arrays, "lambdas_")? {
            (shape, rates) if shape.len() == 2 && shape[0] == n => (shape[1], Family::Poisson(Poisson { rates })),
            (shape, _) => return Err(wrong("lambdas_", &shape, &format!("{n} × D"))),
        }
    } else if arrays.has("n_trials") && arrays.has("emissionprob_") {
        let (_, trials) = array(arrays, "n_trials")?;
        // A number for each observation says nothing about others.
        let equal = trials.first().filter(|first| trials.iter().all(|trials| trials == *first));
        let trials = equal.filter(|trials| trials.fract() == 0.0 && (0.0..4e9).contains(*trials)).map(|n| *n as u32);
        match array(arrays, "emissionprob_")? {
            (shape, probs) if shape.len() == 2 && shape[0] == n => {
                (shape[1], Family::Multinomial(Multinomial { trials, probs }))
            }
            (shape, _) => return Err(wrong("emissionprob_", &shape, &format!("{n} × D"))),
        }
    } else if arrays.has("weights_") {
        let (shape, weights) = array(arrays, "weights_")?;
        let [rows, parts] = shape[..] else { return Err(wrong("weights_", &shape, &format!("{n} × K"))) };
        let (shape, means) = array(arrays, "means_")?;
        if rows != n || parts == 0 || shape.len() != 3 || shape[..2] != [n, parts] {
            return Err(wrong("means_", &shape, &format!("{n} × {parts} × D")));
        }
        let (of_covars, variances) = array(arrays, "covars_")?;
        if of_covars != shape {
            let expected = format!("{n} × {parts} × {}, as mixtures have variances", shape[2]);
            return Err(wrong("covars_", &of_covars, &expected));
        }
        (shape[2], Family::Mixture(Mixture { weights, means, variances }))
    } else {
        return Ok(None);
    };
    let (dimensions, names) = (number(d)?, texts(arrays, "columns_")?);
    Ok(Some(Channels { dimensions, names, list: vec![Channel { columns: (0..dimensions).collect(), family }] }))
}

/// The only channel of a model whose arrays hmmlearn has.
fn only(channels: &Channels) -> Option<&Family> {
    match &channels.list[..] {
        [Channel { columns, family }] if columns.iter().copied().eq(0..channels.dimensions) => match family {
            Family::Poisson(_) | Family::Mixture(_) | Family::Multinomial(Multinomial { trials: Some(_), .. }) => {
                Some(family)
            }
            _ => None,
        },
        _ => None,
    }
}

/// Whether hmmlearn's models have such channels.
pub fn holds(channels: &Channels) -> bool {
    only(channels).is_some()
}

/// An array of texts; empty if it is absent.
fn texts(arrays: &mut impl Arrays, name: &str) -> io::Result<Vec<String>> {
    match arrays.has(name) {
        true => arrays.with(name, |reader| npy::read_texts(reader)),
        false => Ok(Vec::new()),
    }
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
        Emissions::Channels(channels) => {
            let d = channels.dimensions as usize;
            match only(channels) {
                Some(Family::Poisson(Poisson { rates })) => put("lambdas_", &[n, d], rates)?,
                Some(Family::Multinomial(Multinomial { trials: Some(trials), probs })) => {
                    put("emissionprob_", &[n, d], probs)?;
                    put("n_trials", &[], &[f64::from(*trials)])?;
                }
                Some(Family::Mixture(Mixture { weights, means, variances })) => {
                    let parts = weights.len() / n;
                    put("weights_", &[n, parts], weights)?;
                    put("means_", &[n, parts, d], means)?;
                    put("covars_", &[n, parts, d], variances)?;
                    archive.add("covariance_type", |out| npy::write_texts(out, &["diag"]))?;
                }
                _ => return Err(invalid(NO_PLACE)),
            }
        }
    }
    let Names { states, symbols, classes } = model.names();
    let columns = if let Emissions::Channels(channels) = model.emissions() { &channels.names } else { &Vec::new() };
    for (name, texts) in [("states_", states), ("symbols_", symbols), ("classes_", classes), ("columns_", columns)] {
        if !texts.is_empty() {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            archive.add(name, |out| npy::write_texts(out, &texts))?;
        }
    }
    archive.finish()
}
