//! File formats. Models: Cassandra's `.pomdp`, the factored POMDPX, and JSON for scripts. Policies: alpha vectors as
//! `.alpha` and as SARSOP's XML, and their finite-state controllers as `.pg` and DOT.

mod alpha;
pub mod beliefs;
mod cassandra;
mod controller;
mod fault;
mod json;
mod policy_graph;
mod policy_xml;
mod pomdpx;
mod pomdpx_diagrams;
mod pomdpx_function;
mod pomdpx_writer;
mod xml;

use std::fmt;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use self::pomdpx_writer::Form;
use super::alpha::AlphaVectors;
use super::controller::Controller;
use super::model::{Pomdp, PomdpParts};
use super::solution::{Stage, Support};
use warpkov_common::choice::file_format;
use warpkov_common::io::input::{Input, SNIFFED, plain_name};
use warpkov_common::io::lines::no_place;
use warpkov_common::io::output::atomic_write;
use warpkov_common::io::{BUFFER, invalid, of_extension};

pub use self::cassandra::nameable;
pub use self::policy_graph::PolicyGraph;
pub use warpkov_common::io::Error;

/// The JSON Schema (draft 2020-12) of models as JSON.
pub const SCHEMA: &str = include_str!("schema.json");

file_format! {
    /// A file format.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Format {
        /// Cassandra's .pomdp.
        Pomdp = "pomdp" in ["pomdp", "mdp"],
        /// POMDPX, factored, with tables.
        Pomdpx = "pomdpx" in ["pomdpx"],
        /// POMDPX with decision diagrams, which are smaller where rows are equal.
        PomdpxDd = "pomdpx-dd" in [],
        /// JSON, for scripts.
        Json = "json" in ["json"],
        /// Alpha vectors as pomdp-solve's .alpha.
        Alpha = "alpha" in ["alpha"],
        /// Alpha vectors as SARSOP's policy in XML.
        PolicyXml = "policy-xml" in ["policy", "xml"],
        /// The controller of a policy as pomdp-solve's .pg.
        Pg = "pg" in ["pg"],
        /// The controller of a policy as a graph for Graphviz.
        Dot = "dot" in ["dot", "gv"],
    }
}

/// The kind of content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A model.
    Model,
    /// Alpha vectors.
    Vectors,
    /// A finite-state controller.
    Graph,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Model => "a model",
            Self::Vectors => "alpha vectors",
            Self::Graph => "a controller",
        })
    }
}

impl Format {
    /// The format of the extension of `path`, if known.
    #[must_use]
    pub fn of_name(path: &Path) -> Option<Self> {
        of_extension(path)
    }

    /// The kind of content of such files.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            Self::Pomdp | Self::Pomdpx | Self::PomdpxDd | Self::Json => Kind::Model,
            Self::Alpha | Self::PolicyXml => Kind::Vectors,
            Self::Pg | Self::Dot => Kind::Graph,
        }
    }

    /// The format of a file of kind `kind`: from its first character if that is conclusive, otherwise from its name,
    /// otherwise the plain text format of its kind.
    fn detect(name: Option<Self>, text: &[u8], kind: Kind) -> Self {
        let text = text.trim_ascii_start();
        match (kind, text, name) {
            (Kind::Model, [b'{', ..], None | Some(Self::Pomdp)) => Self::Json,
            (Kind::Model, [b'<', ..], None | Some(Self::Pomdp)) => Self::Pomdpx,
            (Kind::Vectors, [b'<', ..], None | Some(Self::Alpha)) => Self::PolicyXml,
            (_, _, Some(named)) => named,
            (Kind::Model, ..) => Self::Pomdp,
            _ => Self::Alpha,
        }
    }
}

/// Reads the model in `path`, in `format`, or otherwise in the format of its content or extension.
///
/// # Errors
/// If the file cannot be read, or its model is invalid.
pub fn read(path: &Path, format: Option<Format>) -> Result<Pomdp, Error> {
    let file = path.display().to_string();
    unchecked(Input::open(path), Format::of_name(&plain_name(path)), &file, format)?.validated().map_err(invalid(file))
}

/// Reads a model from a stream. Messages refer to it as `name`.
///
/// # Errors
/// The errors of [`read()`].
pub fn read_from(reader: impl Read, name: &str, format: Option<Format>) -> Result<Pomdp, Error> {
    unchecked(Input::new(reader), None, name, format)?.validated().map_err(invalid(name))
}

/// Reads the arrays of a model from `path` without requiring rows of O to sum to 1. Such a model cannot be solved, but
/// the [reference](super::reference) computations are defined for it.
///
/// # Errors
/// The errors of [`read()`].
pub fn read_arrays(path: &Path, format: Option<Format>) -> Result<Pomdp, Error> {
    let file = path.display().to_string();
    let model = unchecked(Input::open(path), Format::of_name(&plain_name(path)), &file, format)?;
    model.with_any_observations().map_err(invalid(file))
}

/// Reads a model without validation, in `format`, or otherwise in the format of its content or `name`. JSON is parsed as a
/// stream; the other formats need the whole text.
fn unchecked(
    input: io::Result<Input<'_>>,
    name: Option<Format>,
    file: &str,
    format: Option<Format>,
) -> Result<PomdpParts, Error> {
    let error = || Error::read(file);
    let mut input = input.map_err(error())?;
    let format = match format {
        Some(format) => format,
        None => Format::detect(name, input.start(SNIFFED).map_err(error())?, Kind::Model),
    };
    let file = file.to_owned();
    match format {
        Format::Json => json::read(input, file),
        Format::Pomdp => cassandra::read(&input.read_all().map_err(error())?, file),
        Format::Pomdpx | Format::PomdpxDd => pomdpx::read(&input.read_all().map_err(error())?, file),
        format => Err(other_kind(file, format, Kind::Model)),
    }
}

/// Reads the alpha vectors in `path`, in `format`, or otherwise in the format of their content or extension. Their
/// values have the model's own sign: costs are positive.
///
/// # Errors
/// If the file cannot be read, has no valid alpha vectors, or they do not fit `model`.
pub fn read_vectors(path: &Path, format: Option<Format>, model: Option<&Pomdp>) -> Result<AlphaVectors, Error> {
    let text = text_at(path)?;
    let format = format.unwrap_or_else(|| Format::detect(Format::of_name(&plain_name(path)), &text, Kind::Vectors));
    parse_vectors(&text, path.display().to_string(), format, model)
}

/// Reads alpha vectors from a stream. Messages refer to it as `name`.
///
/// # Errors
/// The errors of [`read_vectors()`].
pub fn read_vectors_from(
    reader: impl Read,
    name: &str,
    format: Option<Format>,
    model: Option<&Pomdp>,
) -> Result<AlphaVectors, Error> {
    let text = Input::new(reader).and_then(Input::read_all).map_err(Error::read(name))?;
    parse_vectors(&text, name.to_owned(), format.unwrap_or_else(|| Format::detect(None, &text, Kind::Vectors)), model)
}

fn parse_vectors(text: &[u8], file: String, format: Format, model: Option<&Pomdp>) -> Result<AlphaVectors, Error> {
    let vectors = match format {
        Format::Alpha => alpha::read(text, file.clone())?,
        Format::PolicyXml => policy_xml::read(text, file.clone(), model)?,
        format => return Err(other_kind(file, format, Kind::Vectors)),
    };
    if let Some(model) = model {
        if vectors.states() != model.states() {
            let message =
                format!("vectors of {} states, expected {} as in the model", vectors.states(), model.states());
            return Err(Error::Content { file, message });
        }
        if let Some(i) = vectors.actions().iter().position(|&action| action >= model.actions()) {
            let (found, expected) = (vectors.actions()[i], model.actions());
            let message = format!("vector {i} has action {found}, expected one below {expected} as in the model");
            return Err(Error::Content { file, message });
        }
    }
    Ok(vectors)
}

/// A policy of either kind.
#[derive(Clone, Debug, PartialEq)]
pub enum AnyPolicy {
    /// Alpha vectors in the model's own sign.
    Vectors(AlphaVectors),
    /// A finite-state controller.
    Controller(Controller),
}

/// Reads the alpha vectors or the controller in `path`, in `format`, or otherwise in the format of its content or
/// extension. A controller begins in node `start`; by default in the best of the nodes that its file marks, or of all
/// nodes, or of those with the most steps in a plan, which has no cycle of nodes.
///
/// # Errors
/// If the file cannot be read, or its policy does not fit `model`.
pub fn read_policy(path: &Path, format: Option<Format>, model: &Pomdp, start: Option<u32>) -> Result<AnyPolicy, Error> {
    let text = text_at(path)?;
    let file = path.display().to_string();
    let format = format.unwrap_or_else(|| Format::detect(Format::of_name(&plain_name(path)), &text, Kind::Vectors));
    match (format, start) {
        (Format::Pg | Format::Dot, start) => {
            controller::read(&text, file, format, model, start).map(AnyPolicy::Controller)
        }
        (_, Some(_)) if format.kind() == Kind::Vectors => Err(Error::Content {
            file,
            message: format!("a file in {format} holds alpha vectors, which have no nodes"),
        }),
        _ => parse_vectors(&text, file, format, Some(model)).map(AnyPolicy::Vectors),
    }
}

fn other_kind(file: String, format: Format, expected: Kind) -> Error {
    Error::Content { file, message: format!("a file in {format} holds {}, expected {expected}", format.kind()) }
}

/// Reads the whole text of a file.
fn text_at(path: &Path) -> Result<Vec<u8>, Error> {
    Input::open(path).and_then(Input::read_all).map_err(Error::read(path))
}

/// Writes a model to `path` atomically.
///
/// # Errors
/// Errors of the file system, and if models cannot be written in `format`.
pub fn write(path: &Path, format: Format, model: &Pomdp) -> Result<(), Error> {
    whole(path, |out| write_to(out, format, model))
}

/// Writes a model to a stream.
///
/// # Errors
/// Errors of `writer`, and if models cannot be written in `format`.
pub fn write_to(writer: impl Write, format: Format, model: &Pomdp) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(BUFFER, writer);
    match format {
        Format::Pomdp if model.starts().len() > 1 => {
            let message = "Cassandra's format cannot express a component observed at the start; JSON can".to_owned();
            return Err(no_place(message));
        }
        Format::Pomdp => cassandra::write(&mut out, model)?,
        Format::Pomdpx => pomdpx_writer::write(&mut out, model, Form::Tables)?,
        Format::PomdpxDd => pomdpx_writer::write(&mut out, model, Form::Diagrams)?,
        Format::Json => json::write(&mut out, model)?,
        _ => return Err(no_place(format!("models cannot be written in {format}"))),
    }
    out.flush()
}

/// Alpha vectors in the model's own sign, with their model.
#[derive(Clone, Copy)]
pub struct Policy<'p> {
    /// The vectors.
    pub vectors: &'p AlphaVectors,
    /// The model; controllers need it.
    pub model: Option<&'p Pomdp>,
    /// Name of the model.
    pub name: &'p str,
    /// Policies for a finite horizon, the first of which has `vectors`; empty for an infinite one.
    pub stages: &'p [Stage],
    /// A controller that attains the value of the vectors at the start, if it is known.
    pub support: Option<&'p Support>,
}

/// Writes a policy to `path` atomically: its vectors, or its [controller](PolicyGraph).
///
/// # Errors
/// Errors of the file system, and if policies cannot be written in `format`, or it needs a model.
pub fn write_policy(path: &Path, format: Format, policy: Policy<'_>) -> Result<(), Error> {
    whole(path, |out| write_policy_to(out, format, policy))
}

/// Writes a policy to a stream.
///
/// # Errors
/// Errors of `writer`, and if policies cannot be written in `format`, or it needs a model.
pub fn write_policy_to(writer: impl Write, format: Format, policy: Policy<'_>) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(BUFFER, writer);
    let Policy { vectors, model, name, stages, support } = policy;
    match (format, model) {
        (Format::Alpha, _) => alpha::write(&mut out, vectors)?,
        (Format::PolicyXml, model) => policy_xml::write(&mut out, vectors, model, name)?,
        (Format::Pg | Format::Dot, Some(model)) => {
            let graph = match (stages, support) {
                ([], None) => PolicyGraph::new(model, vectors),
                ([], Some(support)) => PolicyGraph::of_support(model, vectors, support),
                (stages, _) => PolicyGraph::of_stages(model, stages),
            };
            let graph = graph.ok_or_else(|| no_place("a policy needs at least one alpha vector".to_owned()))?;
            graph.write(&mut out, format, model)?;
        }
        (Format::Pg | Format::Dot, None) => return Err(no_place(format!("{format} needs the model"))),
        _ => return Err(no_place(format!("policies cannot be written in {format}"))),
    }
    out.flush()
}

/// Writes a controller to `path` atomically.
///
/// # Errors
/// Errors of the file system, and if controllers cannot be written in `format`.
pub fn write_controller(path: &Path, format: Format, graph: &PolicyGraph, model: &Pomdp) -> Result<(), Error> {
    whole(path, |out| match format.kind() {
        Kind::Graph => graph.write(out, format, model),
        _ => Err(no_place(format!("controllers cannot be written in {format}"))),
    })
}

fn whole(path: &Path, write: impl FnMut(&mut dyn Write) -> io::Result<()>) -> Result<(), Error> {
    atomic_write(path, write).map_err(Error::write(path))
}
