//! Readers of finite-state controllers: pomdp-solve's `.pg`, and DOT as [`PolicyGraph`](super::PolicyGraph) writes it.
//!
//! A line of `.pg` is `N A Z1 … ZΩ`: a node, its action, and the next node after each observation or `-`. In DOT, the
//! label of a node is its action, and that of an edge lists observations, one a line; edges from `start` lead to the
//! nodes to begin in.

use std::collections::HashMap;

use super::fault::{Fault, words};
use super::{Error, Format};
use crate::controller::{Controller, Nodes};
use crate::model::Pomdp;
use warpkov_common::io::lines::{self, quoted};
use warpkov_common::names;

/// Nodes with byte offsets for messages.
#[derive(Default)]
struct Draft {
    /// Offset of each node.
    at: Vec<usize>,
    numbers: Vec<u32>,
    actions: Vec<u32>,
    /// Successors by their numbers in the file, with offsets.
    next: Vec<Option<(usize, u32)>>,
    /// Nodes to begin in by their numbers, with offsets.
    starts: Vec<(usize, u32)>,
}

/// Reads a controller for `model` that begins in node `start`, in the nodes that the file marks, or in any node.
pub fn read(text: &[u8], file: String, format: Format, model: &Pomdp, start: Option<u32>) -> Result<Controller, Error> {
    let draft = if format == Format::Dot { dot(text, model) } else { pg(text, model) };
    let draft = draft.map_err(|fault| fault.error(file.clone(), text))?;
    match start {
        Some(start) if !draft.numbers.contains(&start) => Err(Error::Content {
            file,
            message: format!("there is no node {start}, in which the controller should begin"),
        }),
        start => draft.controller(model, start).map_err(|fault| fault.error(file, text)),
    }
}

impl Draft {
    fn controller(self, model: &Pomdp, start: Option<u32>) -> Result<Controller, Fault> {
        let mut index = HashMap::new();
        for (new, (&number, &at)) in (0..).zip(self.numbers.iter().zip(&self.at)) {
            if index.insert(number, new).is_some() {
                return Err(Fault::new(at, format!("node {number} appears twice")));
            }
        }
        let found = |(at, number): (usize, u32)| {
            let node = index.get(&number).copied();
            node.ok_or_else(|| Fault::new(at, format!("found node {number}, expected a node of this file")))
        };
        let next = self.next.iter().map(|next| next.map(found).transpose()).collect::<Result<_, _>>()?;
        let starts = match start {
            Some(start) => index.get(&start).copied().into_iter().collect(),
            None => self.starts.iter().copied().map(found).collect::<Result<_, _>>()?,
        };
        let Self { at, numbers, actions, .. } = self;
        let nodes = Nodes { numbers, actions, next, starts };
        Controller::new(model, nodes).map_err(|error| {
            let node = error.node().and_then(|node| at.get(node)).copied();
            Fault::new(node.unwrap_or_default(), error.to_string())
        })
    }
}

fn unexpected(at: usize, word: &[u8], expected: &str) -> Fault {
    Fault::new(at, format!("found `{}`, expected {expected}", quoted(word)))
}

fn number(at: usize, word: &[u8], expected: &str) -> Result<u32, Fault> {
    let number = lines::integer(word).and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| unexpected(at, word, expected))
}

fn pg(text: &[u8], model: &Pomdp) -> Result<Draft, Fault> {
    let (mut draft, mut begin) = (Draft::default(), 0);
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        let words: Vec<(usize, &[u8])> = words(line, begin).collect();
        begin += line.len();
        let Some((&(at, node), rest)) = words.split_first() else { continue };
        draft.numbers.push(number(at, node, "the number of a node")?);
        draft.at.push(at);
        let Some((&(at, action), next)) = rest.split_first() else {
            return Err(Fault::new(at, "found a node without an action, expected NODE ACTION NEXT…"));
        };
        let expected = format!("an action below {}", model.actions());
        let action = number(at, action, &expected)
            .ok()
            .filter(|&action| action < model.actions())
            .ok_or_else(|| unexpected(at, action, &expected))?;
        draft.actions.push(action);
        if next.len() != model.observation_count() as usize {
            let (found, expected) = (next.len(), model.observation_count());
            let message = format!("found {found} next nodes, expected {expected}, one for each observation");
            return Err(Fault::new(at, message));
        }
        for &(at, word) in next {
            draft.next.push(match word {
                b"-" => None,
                word => Some((at, number(at, word, "the number of a node or `-`")?)),
            });
        }
    }
    if draft.numbers.is_empty() {
        return Err(Fault::new(text.len(), "the file ends, expected a node"));
    }
    Ok(draft)
}

/// A token of DOT and its offset.
#[derive(Clone, Debug, PartialEq)]
enum Token<'t> {
    /// A name or a number.
    Word(&'t str),
    /// The text between quotation marks, with its escapes.
    Quoted(&'t str),
    /// `->`, or one character.
    Sign(&'t str),
}

/// Splits DOT into tokens.
fn tokens(text: &str) -> Result<Vec<(usize, Token<'_>)>, Fault> {
    let (mut tokens, mut at) = (Vec::new(), 0);
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let length = match first {
            c if c.is_whitespace() => c.len_utf8(),
            '#' => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => {
                rest.find("*/").ok_or_else(|| Fault::new(at, "found a comment without its end"))? + 2
            }
            '"' => {
                let mut escaped = false;
                let end = rest[1..].char_indices().find(|(_, c)| {
                    let is_end = *c == '"' && !escaped;
                    escaped = *c == '\\' && !escaped;
                    is_end
                });
                let (end, _) = end.ok_or_else(|| Fault::new(at, "found a text without its closing quotation mark"))?;
                tokens.push((at, Token::Quoted(&rest[1..=end])));
                end + 2
            }
            c if is_word(c) || (c == '-' && rest[1..].starts_with(|c: char| c.is_ascii_digit())) => {
                let end = rest[c.len_utf8()..].find(|c| !is_word(c)).map_or(rest.len(), |end| end + c.len_utf8());
                tokens.push((at, Token::Word(&rest[..end])));
                end
            }
            c => {
                let length = if rest.starts_with("->") { 2 } else { c.len_utf8() };
                tokens.push((at, Token::Sign(&rest[..length])));
                length
            }
        };
        at += length;
    }
    Ok(tokens)
}

/// The lines of a label without its escapes.
fn label_lines(label: &str) -> Vec<String> {
    let (mut lines, mut chars) = (vec![String::new()], label.chars());
    while let Some(c) = chars.next() {
        let escaped = if c == '\\' { chars.next() } else { None };
        match (escaped, lines.last_mut()) {
            (Some('n'), _) => lines.push(String::new()),
            (Some(c), Some(line)) => line.push(c),
            (None, Some(line)) => line.push(c),
            (_, None) => {}
        }
    }
    lines
}

/// The statements of a graph.
struct Statements<'t> {
    tokens: std::iter::Peekable<std::vec::IntoIter<(usize, Token<'t>)>>,
    end: usize,
}

impl<'t> Statements<'t> {
    fn next(&mut self, expected: &str) -> Result<(usize, Token<'t>), Fault> {
        self.tokens.next().ok_or_else(|| Fault::new(self.end, format!("the file ends, expected {expected}")))
    }

    /// Takes the next token if it is this sign.
    fn takes(&mut self, sign: &str) -> bool {
        self.tokens.next_if(|(_, token)| *token == Token::Sign(sign)).is_some()
    }

    fn sign(&mut self, sign: &str) -> Result<(), Fault> {
        let expected = format!("`{sign}`");
        let (at, token) = self.next(&expected)?;
        if token == Token::Sign(sign) { Ok(()) } else { Err(unexpected(at, token.text().as_bytes(), &expected)) }
    }

    fn word(&mut self, expected: &str) -> Result<(usize, &'t str), Fault> {
        match self.next(expected)? {
            (at, Token::Word(word) | Token::Quoted(word)) => Ok((at, word)),
            (at, Token::Sign(sign)) => Err(unexpected(at, sign.as_bytes(), expected)),
        }
    }

    /// The label among attributes in brackets, if any.
    fn label(&mut self) -> Result<Option<(usize, &'t str)>, Fault> {
        let mut label = None;
        while self.takes("[") {
            while !self.takes("]") {
                let (_, key) = self.word("an attribute or `]`")?;
                self.sign("=")?;
                let value = self.word("the value of the attribute")?;
                if key == "label" {
                    label = Some(value);
                }
                let _ = self.takes(",") || self.takes(";");
            }
        }
        Ok(label)
    }
}

impl<'t> Token<'t> {
    fn text(&self) -> &'t str {
        match self {
            Self::Word(text) | Self::Quoted(text) | Self::Sign(text) => text,
        }
    }
}

/// The index that a label names.
fn named(at: usize, name: &str, names: &[String], count: u32, what: &str) -> Result<u32, Fault> {
    let known = names::index(name, names, count).filter(|&index| names::name(names, index) == name);
    known.ok_or_else(|| unexpected(at, name.as_bytes(), &format!("an {what} of the model")))
}

fn dot(text: &[u8], model: &Pomdp) -> Result<Draft, Fault> {
    let text = str::from_utf8(text).map_err(|error| Fault::new(error.valid_up_to(), "invalid UTF-8"))?;
    let mut statements = Statements { tokens: tokens(text)?.into_iter().peekable(), end: text.len() };
    let (at, kind) = statements.word("digraph")?;
    if kind != "digraph" {
        return Err(unexpected(at, kind.as_bytes(), "digraph"));
    }
    if !statements.takes("{") {
        statements.word("the name of the graph or `{`")?;
        statements.sign("{")?;
    }
    let (mut draft, mut edges) = (Draft::default(), Vec::new());
    let (names, count) = (model.names(), model.observation_count());
    while !statements.takes("}") {
        if statements.takes(";") {
            continue;
        }
        let (at, from) = statements.word("a node or `}`")?;
        if statements.takes("->") {
            let (place, to) = statements.word("the node at the end of the edge")?;
            let to = (place, number(place, to.as_bytes(), "the number of a node")?);
            let label = statements.label()?;
            if from == "start" {
                draft.starts.push(to);
                continue;
            }
            let from = (at, number(at, from.as_bytes(), "`start` or the number of a node")?);
            let (place, label) =
                label.ok_or_else(|| Fault::new(at, "found an edge without a label of observations"))?;
            for name in label_lines(label) {
                edges.push((from, named(place, &name, &names.observations, count, "observation")?, to));
            }
        } else {
            let label = statements.label()?;
            if ["start", "node", "edge", "graph"].contains(&from) {
                continue;
            }
            let node = number(at, from.as_bytes(), "the number of a node")?;
            let (place, label) = label.ok_or_else(|| Fault::new(at, "found a node without a label of its action"))?;
            let action = label_lines(label).join("\n");
            draft.actions.push(named(place, &action, &names.actions, model.actions(), "action")?);
            draft.numbers.push(node);
            draft.at.push(at);
        }
    }
    if draft.numbers.is_empty() {
        return Err(Fault::new(text.len(), "the file ends, expected a node"));
    }
    let index: HashMap<u32, usize> = draft.numbers.iter().copied().zip(0..).collect();
    draft.next = vec![None; draft.numbers.len() * count as usize];
    for ((at, from), observation, to) in edges {
        let Some(&node) = index.get(&from) else {
            return Err(Fault::new(at, format!("found node {from}, expected a node of this file")));
        };
        let next = &mut draft.next[node * count as usize + observation as usize];
        if next.replace(to).is_some() {
            let observation = names::name(&names.observations, observation);
            return Err(Fault::new(at, format!("node {from} has two edges with the observation {observation}")));
        }
    }
    Ok(draft)
}
