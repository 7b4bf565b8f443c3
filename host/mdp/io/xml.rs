//! The XML of Jóhannsson, *GPU-Based Markov Decision Process Solver* (2009), Appendix A.1.
//!
//! The root `MDP` holds `Actions` and `States`. `Actions` holds `Action`s with an `id` and a `description`. `States`
//! holds one `State` per state, in any order. A `State` has an `id` and `AvailableActions`; an `Action` in these has an
//! `id` and one `ResultingState` per outcome, with the attributes `id`, `probability` and `actionReward`. The reader
//! ignores other elements and attributes. Descriptions that precede the states become action names. The format has no
//! discount factor: γ = 0.9, as in the source.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};

use quick_xml::Reader;
use quick_xml::XmlVersion;
use quick_xml::escape::escape;
use quick_xml::events::{BytesStart, Event};

use super::Error;
use super::rows::without_ends;
use super::text::{Domain, action_ids};
use crate::model::{Mdp, MdpParts};
use warpkov_common::io::BUFFER;
use warpkov_common::io::lines::{self, LONGEST, Put, no_place, quoted};

/// Maximum nesting depth of elements.
const DEEPEST: usize = 64;

/// Role of an element, given by its name and its parent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Element {
    Mdp,
    Actions,
    Description,
    States,
    State,
    AvailableActions,
    Action,
    Outcome,
    Other,
}

impl Element {
    fn parse(name: &[u8], parent: Option<Self>) -> Self {
        match (parent, name) {
            (None, b"MDP") => Self::Mdp,
            (Some(Self::Mdp), b"Actions") => Self::Actions,
            (Some(Self::Actions), b"Action") => Self::Description,
            (Some(Self::Mdp), b"States") => Self::States,
            (Some(Self::States), b"State") => Self::State,
            (Some(Self::State), b"AvailableActions") => Self::AvailableActions,
            (Some(Self::AvailableActions), b"Action") => Self::Action,
            (Some(Self::Action), b"ResultingState") => Self::Outcome,
            _ => Self::Other,
        }
    }
}

/// Reads a model without validation.
pub fn read(reader: impl Read, file: String) -> Result<MdpParts, Error> {
    let counted = Counted { reader: BufReader::with_capacity(BUFFER, reader), line: 1, bytes: 0 };
    let mut reader = Reader::from_reader(counted);
    reader.config_mut().expand_empty_elements = true;
    let mut model = Model::default();
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        let line = reader.get_ref().line;
        reader.get_mut().bytes = 0;
        let read = match reader.read_event_into(&mut buffer) {
            Ok(Event::Start(tag)) => model.start(&tag, line),
            Ok(Event::End(_)) => {
                model.open.pop();
                Ok(())
            }
            Ok(Event::Eof) => break,
            Ok(_) => Ok(()),
            Err(quick_xml::Error::Io(source)) => {
                return Err(Error::read(file)(io::Error::new(source.kind(), source)));
            }
            Err(error) => Err(error.to_string()),
        };
        read.map_err(|message| Error::Line { file: file.clone(), line, message })?;
    }
    let line = reader.get_ref().line;
    let missing = match model.open.last() {
        Some(_) => Some("the end tag of every element"),
        None if !model.begun => Some("<MDP>"),
        None => None,
    };
    if let Some(missing) = missing {
        return Err(Error::Line { file, line, message: format!("the file ends, expected {missing}") });
    }
    model.domain.into_model(&file)
}

#[derive(Default)]
struct Model {
    domain: Domain,
    descriptions: HashMap<u32, String>,
    /// Stack of open elements.
    open: Vec<Element>,
    /// Whether the root element has been seen.
    begun: bool,
}

impl Model {
    fn start(&mut self, tag: &BytesStart<'_>, line: u64) -> Result<(), String> {
        let element = Element::parse(tag.name().as_ref(), self.open.last().copied());
        if self.open.is_empty() && (self.begun || element != Element::Mdp) {
            let expected = if self.begun { "the end of the file" } else { "<MDP>" };
            return Err(format!("found <{}>, expected {expected}", quoted(tag.name().as_ref())));
        }
        if self.open.len() == DEEPEST {
            return Err(format!("found elements nested more than {DEEPEST} deep"));
        }
        self.begun = true;
        self.open.push(element);
        match element {
            Element::State => {
                let [id] = attributes(tag, ["id"])?;
                self.domain.state(integer("id", &id)?);
            }
            Element::Action => {
                let [id] = attributes(tag, ["id"])?;
                let id = integer("id", &id)?;
                self.domain.action(id, self.descriptions.get(&id).map(String::as_str))?;
            }
            Element::Outcome => {
                let [id, prob, reward] = attributes(tag, ["id", "probability", "actionReward"])?;
                let (prob, reward) = (real("probability", &prob)?, real("actionReward", &reward)?);
                self.domain.outcome(integer("id", &id)?, prob, reward, line);
            }
            Element::Description => {
                let [id] = attributes(tag, ["id"])?;
                let description = tag.try_get_attribute("description").map_err(|error| error.to_string())?;
                if let Some(description) = description {
                    let text = description.normalized_value(XmlVersion::Implicit1_0);
                    let text = text.map_err(|error| error.to_string())?.into_owned();
                    self.descriptions.insert(integer("id", &id)?, text);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Values of the named attributes of an element.
///
/// # Errors
/// An attribute is missing or malformed.
fn attributes<'t, const N: usize>(tag: &'t BytesStart<'_>, names: [&str; N]) -> Result<[Cow<'t, [u8]>; N], String> {
    let mut values = [const { None }; N];
    for attribute in tag.attributes().with_checks(false) {
        let attribute = attribute.map_err(|error| error.to_string())?;
        if let Some(i) = names.iter().position(|name| name.as_bytes() == attribute.key.as_ref()) {
            values[i] = Some(attribute.value);
        }
    }
    if let Some(missing) = values.iter().position(Option::is_none) {
        let tag = String::from_utf8_lossy(tag.name().into_inner()).into_owned();
        return Err(format!("<{tag}> has no attribute {}", names[missing]));
    }
    Ok(values.map(Option::unwrap_or_default))
}

fn integer(attribute: &str, text: &[u8]) -> Result<u32, String> {
    let number = lines::integer(text.trim_ascii()).and_then(|number| number.try_into().ok());
    number.ok_or_else(|| format!("{attribute}: found \"{}\", expected a number from 0", quoted(text)))
}

fn real(attribute: &str, text: &[u8]) -> Result<f64, String> {
    let number = lines::real(text.trim_ascii());
    number.ok_or_else(|| format!("{attribute}: found \"{}\", expected a number", quoted(text)))
}

/// A reader that counts lines, and bytes since `bytes` was last reset.
struct Counted<R> {
    reader: R,
    line: u64,
    bytes: usize,
}

impl<R: BufRead> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(buffer)?;
        self.consume(read);
        Ok(read)
    }
}

impl<R: BufRead> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.bytes > LONGEST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("more than {LONGEST} bytes without a tag")));
        }
        self.reader.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        // `consume` follows `fill_buf`, so this returns the buffered bytes without I/O.
        if let Ok(filled) = self.reader.fill_buf() {
            self.line += memchr::memchr_iter(b'\n', &filled[..amount.min(filled.len())]).count() as u64;
        }
        self.bytes += amount;
        self.reader.consume(amount);
    }
}

/// Writes a model.
pub fn write(out: &mut impl Write, mdp: &Mdp) -> io::Result<()> {
    let mdp = &*without_ends(mdp);
    let id = action_ids(mdp);
    out.text("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<MDP>\n<Actions>\n")?;
    match mdp.action_names() {
        Some(names) => {
            let mut described = vec![false; names.names.len()];
            for (row, &name) in names.of_row.iter().enumerate() {
                let name = name as usize;
                if !std::mem::replace(&mut described[name], true) {
                    write_description(out, id(row, 0), &names.names[name])?;
                }
            }
        }
        None => (0..mdp.choices().max()).try_for_each(|action| write_description(out, action, &action.to_string()))?,
    }
    out.text("</Actions>\n<States>\n")?;
    for state in 0..mdp.states() as usize {
        element(out, "State", state as u64, ">\n<AvailableActions>\n")?;
        for (action, row) in mdp.choices().rows(state).enumerate() {
            element(out, "Action", id(row, action).into(), ">\n")?;
            let (successors, probs) = mdp.transitions().row(row);
            for ((&successor, &prob), reward) in successors.iter().zip(probs).zip(mdp.rewards_of(row)) {
                element(out, "ResultingState", successor.into(), " probability=\"")?;
                out.real(prob)?;
                out.text("\" actionReward=\"")?;
                out.real(reward + mdp.action_reward(row))?;
                out.text("\"/>\n")?;
            }
            out.text("</Action>\n")?;
        }
        out.text("</AvailableActions>\n</State>\n")?;
    }
    out.text("</States>\n</MDP>\n")
}

fn element(out: &mut impl Write, name: &str, id: u64, rest: &str) -> io::Result<()> {
    out.text("<")?;
    out.text(name)?;
    out.text(" id=\"")?;
    out.integer(id)?;
    out.text("\"")?;
    out.text(rest)
}

fn write_description(out: &mut impl Write, id: u32, name: &str) -> io::Result<()> {
    if name.contains(char::is_control) {
        return Err(no_place(format!("XML has no place for the action's name {name:?}")));
    }
    writeln!(out, "<Action id=\"{id}\" description=\"{}\"/>", escape(name))
}
