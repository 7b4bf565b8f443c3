//! SARSOP's policy files: a `Policy` with an `AlphaVector` of `Vector`s (all values) and `SparseVector`s (`Entry`s of a
//! state and a value).
//!
//! With mixed observability, states have a fully observed component x. Then `numObsValue` is the number of values of x,
//! `obsValue` is the value that a vector belongs to, and `vectorLength` is the number of states with the same x.
//! [`AlphaVectors`] span all states: the k-th vectors of an action for all x form one of them. An x with fewer vectors
//! gets entries worse than all its own vectors, which are never the best.

use std::io::{self, Write};

use quick_xml::escape::escape;
use rayon::prelude::*;

use super::Error;
use super::fault::Fault;
use super::xml::{self, Element};
use crate::alpha::AlphaVectors;
use crate::model::Pomdp;
use warpkov_common::io::lines::Put;

/// Reads vectors, in the sign of the model if there is one.
pub fn read(text: &[u8], file: String, model: Option<&Pomdp>) -> Result<AlphaVectors, Error> {
    let (parts, sign) = model.map_or((Vec::new(), 1.0), |model| (parts(model), model.process().objective().sign()));
    vectors(text, &parts, model.map(Pomdp::states), sign).map_err(|fault| fault.error(file, text))
}

/// The states of each x, if all x have equally many states and are numbered consecutively, i.e. if states are all
/// combinations. Otherwise empty.
fn parts(model: &Pomdp) -> Vec<Vec<u32>> {
    let parts = model.parts();
    let all = model.seen().iter().all(|&x| (x as usize) < parts.len());
    let even = parts.windows(2).all(|pair| pair[0].len() == pair[1].len());
    if all && even { parts } else { Vec::new() }
}

/// A vector for one value of x, or for all states.
struct Plane {
    action: u32,
    values: Vec<f64>,
}

/// Most states of vectors that are read without a model.
const MAX_LENGTH: u32 = 1 << 28;

/// Most numbers of sparse vectors that are read without a model, and their most per byte of the file where that is more: sparse vectors of
/// any length take few bytes.
const MAX_SPARSE: [usize; 2] = [1 << 20, 16];

fn vectors(text: &[u8], parts: &[Vec<u32>], states: Option<u32>, sign: f64) -> Result<AlphaVectors, Fault> {
    let policy = xml::parse(text)?;
    if policy.name != "Policy" {
        return Err(Fault::new(policy.at, format!("found <{}>, expected <Policy>", policy.name)));
    }
    if let Some(kind) = policy.attribute("type").filter(|kind| *kind != "value") {
        return Err(Fault::new(policy.at, format!("a policy of type \"{kind}\", expected \"value\"")));
    }
    let list = policy.required("AlphaVector")?;
    let length = list.integer("vectorLength")?;
    let seen = list.attribute("numObsValue").map_or(Ok(1), |_| list.integer("numObsValue"))?;
    if seen != 1 && (seen as usize != parts.len() || parts.first().map(Vec::len) != Some(length as usize)) {
        let expected = match parts {
            [first, _, ..] => format!("{} values of {} states each as in the model, or 1", parts.len(), first.len()),
            _ => "1, because no component of the model's states is fully observed".to_owned(),
        };
        let message = format!("vectors for {seen} observed values with {length} states each, expected {expected}");
        return Err(Fault::new(list.at, message));
    }
    if let Some(states) = states.filter(|&states| seen == 1 && states != length) {
        return Err(Fault::new(list.at, format!("vectors of {length} states, expected {states} as in the model")));
    }
    if length > MAX_LENGTH {
        return Err(Fault::new(list.at, format!("a vectorLength of {length}, expected at most {MAX_LENGTH}")));
    }
    let numbers_of_sparse = list.all("SparseVector").count().saturating_mul(length as usize);
    let [few, per_byte] = MAX_SPARSE;
    let most = few.max(per_byte.saturating_mul(text.len()));
    if states.is_none() && numbers_of_sparse > most {
        let message = format!(
            "sparse vectors of {numbers_of_sparse} numbers in all, expected at most {most} without their model"
        );
        return Err(Fault::new(list.at, message));
    }
    let mut planes: Vec<Vec<Plane>> = (0..seen).map(|_| Vec::new()).collect();
    let mut found = 0;
    for vector in &list.children {
        let Some(values) = numbers(vector, length as usize)? else { continue };
        let place = vector.attribute("obsValue").map_or(Ok(0), |_| vector.integer("obsValue"))?;
        let Some(planes) = planes.get_mut(place as usize) else {
            return Err(Fault::new(vector.at, format!("obsValue {place}, expected one below numObsValue, {seen}")));
        };
        planes.push(Plane { action: vector.integer("action")?, values });
        found += 1;
    }
    if found == 0 {
        return Err(Fault::new(list.at, "<AlphaVector> has no vector"));
    }
    // Detects truncated files and vectors with unknown element names.
    if list.attribute("numVectors").is_some() && list.integer("numVectors")? != found {
        let expected = list.integer("numVectors")?;
        let message = format!("<AlphaVector> has {found} vectors, expected {expected} as numVectors says");
        return Err(Fault::new(list.at, message));
    }
    if seen == 1 {
        let mut vectors = AlphaVectors::new(length);
        planes.iter().flatten().for_each(|plane| vectors.push(plane.action, &plane.values));
        return Ok(vectors);
    }
    if let Some(place) = planes.iter().position(Vec::is_empty) {
        return Err(Fault::new(list.at, format!("<AlphaVector> has no vector with obsValue {place}")));
    }
    Ok(joined(planes, parts, sign))
}

/// The values of a vector; `None` for an element that is not a vector.
fn numbers(vector: &Element, length: usize) -> Result<Option<Vec<f64>>, Fault> {
    let mut values = Vec::new();
    match &vector.name[..] {
        "Vector" => {
            let words = vector.words()?;
            values.reserve(words.len());
            for word in words {
                values.push(word.real()?);
            }
            if values.len() != length {
                let found = values.len();
                return Err(Fault::new(vector.at, format!("a vector of {found} numbers, expected {length}")));
            }
        }
        "SparseVector" => {
            // All vectors of a file have `length` entries; missing ones are 0.
            values.resize(length, 0.0);
            for entry in vector.all("Entry") {
                let [state, value] = entry.words()?[..] else {
                    return Err(Fault::new(entry.at, "expected <Entry> to hold a state and its value"));
                };
                let place = state.text.parse().ok().and_then(|state: usize| values.get_mut(state));
                *place.ok_or_else(|| state.unexpected(&format!("a state below {length}")))? = value.real()?;
            }
        }
        _ => return Ok(None),
    }
    Ok(Some(values))
}

/// Joins the vectors of each x to vectors for all states. `sign` is −1 for costs.
fn joined(planes: Vec<Vec<Plane>>, parts: &[Vec<u32>], sign: f64) -> AlphaVectors {
    let states: usize = parts.iter().map(Vec::len).sum();
    // Worse than all values that x has in a state, so that only its own vectors can be the best.
    let mut worse = vec![0.0; states];
    for (planes, own) in planes.iter().zip(parts) {
        let all = planes.iter().flat_map(|plane| &plane.values);
        let largest = all.fold(1.0, |most: f64, value| most.max(value.abs()));
        for (i, &state) in own.iter().enumerate() {
            let least = planes.iter().map(|plane| sign * plane.values[i]).fold(f64::INFINITY, f64::min);
            worse[state as usize] = sign * (least - largest);
        }
    }
    let mut actions: Vec<u32> = planes.iter().flatten().map(|plane| plane.action).collect();
    actions.sort_unstable();
    actions.dedup();
    let mut vectors = AlphaVectors::new(states as u32);
    for action in actions {
        let mut own: Vec<_> =
            planes.iter().map(|planes| planes.iter().filter(|plane| plane.action == action)).collect();
        loop {
            let (mut values, mut any) = (worse.clone(), false);
            for (planes, own) in own.iter_mut().zip(parts) {
                if let Some(plane) = planes.next() {
                    any = true;
                    own.iter().zip(&plane.values).for_each(|(&state, &value)| values[state as usize] = value);
                }
            }
            if !any {
                break;
            }
            vectors.push(action, &values);
        }
    }
    vectors
}

/// Writes vectors in the sign of their model; `name` is the model's name. With a fully observed component, writes
/// vectors for each of its values, and omits those that another one dominates.
pub fn write(out: &mut impl Write, vectors: &AlphaVectors, model: Option<&Pomdp>, name: &str) -> io::Result<()> {
    let own = model.filter(|model| model.states() == vectors.states());
    let (mut parts, sign) = own.map_or((Vec::new(), 1.0), |model| (parts(model), model.process().objective().sign()));
    if parts.is_empty() {
        parts.push((0..vectors.states()).collect());
    }
    let kept: Vec<Vec<usize>> = match &parts[..] {
        // A single part: vectors stay as they are.
        [_] => vec![(0..vectors.len()).collect()],
        parts => parts.par_iter().map(|states| undominated(vectors, states, sign)).collect(),
    };
    let name: String = name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    writeln!(
        out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Policy version=\"0.1\" type=\"value\" model=\"{}\">\n\
         <AlphaVector vectorLength=\"{}\" numObsValue=\"{}\" numVectors=\"{}\">",
        escape(&name),
        parts[0].len(),
        parts.len(),
        kept.iter().map(Vec::len).sum::<usize>()
    )?;
    for (part, (states, kept)) in parts.iter().zip(&kept).enumerate() {
        for &i in kept {
            write!(out, "<Vector action=\"{}\" obsValue=\"{part}\">", vectors.actions()[i])?;
            // SARSOP's reader needs a blank after the last number, before the end tag.
            for &state in states {
                out.real(vectors.vector(i)[state as usize])?;
                out.text(" ")?;
            }
            out.text("</Vector>\n")?;
        }
    }
    out.text("</AlphaVector>\n</Policy>\n")
}

/// The vectors that no other one dominates on these states; the first of equal ones.
fn undominated(vectors: &AlphaVectors, states: &[u32], sign: f64) -> Vec<usize> {
    let own = |i: usize| states.iter().map(move |&state| sign * vectors.vector(i)[state as usize]);
    let mut order: Vec<(usize, f64)> = (0..vectors.len()).map(|i| (i, own(i).sum())).collect();
    // A dominating vector has at least the same sum.
    order.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let mut kept: Vec<usize> = Vec::new();
    for (i, _) in order {
        if !kept.iter().any(|&other| own(i).zip(own(other)).all(|(own, other)| own <= other)) {
            kept.push(i);
        }
    }
    kept.sort_unstable();
    kept
}
