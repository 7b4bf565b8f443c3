//! SARSOP's policies: a `Policy` with an `AlphaVector` of `Vector`s (all values) and `SparseVector`s (`Entry`s of a state and its
//! value).
//!
//! `vectorLength` counts the states that are not seen and `numObsValue` those that are. All states of a model here are of the
//! first kind: there is one value that is seen, 0.

use std::io::{self, Write};

use quick_xml::escape::escape;

use super::Error;
use super::place::Fault;
use super::xml;
use crate::mdp::io::lines::Put;
use crate::pomdp::alpha::AlphaVectors;

/// Reads vectors.
pub fn read(text: &[u8], file: String) -> Result<AlphaVectors, Error> {
    vectors(text).map_err(|fault| fault.error(file, text))
}

fn vectors(text: &[u8]) -> Result<AlphaVectors, Fault> {
    let policy = xml::parse(text)?;
    if policy.name != "Policy" {
        return Err(Fault::new(policy.at, format!("found <{}>, expected <Policy>", policy.name)));
    }
    if let Some(kind) = policy.attribute("type").filter(|kind| *kind != "value") {
        return Err(Fault::new(policy.at, format!("a policy of type \"{kind}\", expected \"value\"")));
    }
    let list = policy.required("AlphaVector")?;
    let states = list.integer("vectorLength")?;
    let seen = list.attribute("numObsValue").map_or(Ok(1), |_| list.integer("numObsValue"))?;
    if seen != 1 {
        return Err(Fault::new(
            list.at,
            format!("vectors of {seen} values that are seen, expected those of a flat model, 1"),
        ));
    }
    let (mut vectors, mut values) = (AlphaVectors::new(states), Vec::new());
    for vector in &list.children {
        values.clear();
        match &vector.name[..] {
            "Vector" => {
                let words = vector.words()?;
                values.reserve(words.len());
                for word in words {
                    values.push(word.real()?);
                }
                if values.len() != states as usize {
                    let found = values.len();
                    return Err(Fault::new(vector.at, format!("a vector of {found} numbers, expected {states}")));
                }
            }
            "SparseVector" => {
                // Only as long as the other vectors are.
                values.resize(states as usize, 0.0);
                for entry in vector.all("Entry") {
                    let [state, value] = entry.words()?[..] else {
                        return Err(Fault::new(entry.at, "an <Entry> that is not a state and its value"));
                    };
                    let place = state.text.parse().ok().and_then(|state: usize| values.get_mut(state));
                    *place.ok_or_else(|| state.unexpected(&format!("a state below {states}")))? = value.real()?;
                }
            }
            _ => continue,
        }
        if vector.attribute("obsValue").map_or(Ok(0), |_| vector.integer("obsValue"))? != 0 {
            return Err(Fault::new(vector.at, "an obsValue that is not 0, which is the only one of a flat model"));
        }
        vectors.push(vector.integer("action")?, &values);
    }
    if vectors.is_empty() {
        return Err(Fault::new(list.at, "<AlphaVector> has no vector"));
    }
    // A file that was cut and mended, or whose vectors have other names.
    if list.attribute("numVectors").is_some() && list.integer("numVectors")? as usize != vectors.len() {
        let (found, expected) = (vectors.len(), list.integer("numVectors")?);
        return Err(Fault::new(
            list.at,
            format!("<AlphaVector> has {found} vectors, expected {expected} as numVectors says"),
        ));
    }
    Ok(vectors)
}

/// Writes vectors of the model that is called `model`.
pub fn write(out: &mut impl Write, vectors: &AlphaVectors, model: &str) -> io::Result<()> {
    let model: String = model.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    writeln!(
        out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Policy version=\"0.1\" type=\"value\" model=\"{}\">\n\
         <AlphaVector vectorLength=\"{}\" numObsValue=\"1\" numVectors=\"{}\">",
        escape(&model),
        vectors.states,
        vectors.len()
    )?;
    for (i, action) in vectors.actions.iter().enumerate() {
        write!(out, "<Vector action=\"{action}\" obsValue=\"0\">")?;
        // SARSOP's programs read a number up to the next blank: without one, the last takes the tag with it.
        for &value in vectors.vector(i) {
            out.real(value)?;
            out.text(" ")?;
        }
        out.text("</Vector>\n")?;
    }
    out.text("</AlphaVector>\n</Policy>\n")
}
