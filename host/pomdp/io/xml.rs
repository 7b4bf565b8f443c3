//! XML as a tree of elements with byte offsets.

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use super::fault::Fault;
use warpkov_common::io::lines::{self, quoted};

/// Maximum nesting depth of elements.
const MAX_DEPTH: usize = 64;

/// An element.
pub struct Element<'t> {
    pub name: String,
    /// Byte offset of the start tag.
    pub at: usize,
    attributes: Vec<(String, String)>,
    /// Text directly inside the element, in pieces with byte offsets. Entity references such as `&amp;` are omitted.
    text: Vec<(usize, &'t [u8])>,
    pub children: Vec<Self>,
}

/// A word of a text and its byte offset.
#[derive(Clone, Copy)]
pub struct Word<'t> {
    pub at: usize,
    pub text: &'t str,
}

impl Word<'_> {
    /// Parses a finite number.
    pub fn real(&self) -> Result<f64, Fault> {
        lines::real(self.text.as_bytes()).ok_or_else(|| self.unexpected("a number"))
    }

    /// A fault at this word.
    #[cold]
    pub fn unexpected(&self, expected: &str) -> Fault {
        Fault::new(self.at, format!("found `{}`, expected {expected}", quoted(self.text.as_bytes())))
    }
}

impl<'t> Element<'t> {
    /// All children with this name.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &Self> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// The first child with this name.
    pub fn child(&self, name: &str) -> Option<&Self> {
        self.all(name).next()
    }

    /// The first child with this name; an error if there is none.
    pub fn required(&self, name: &str) -> Result<&Self, Fault> {
        self.child(name).ok_or_else(|| Fault::new(self.at, format!("<{}> has no <{name}>", self.name)))
    }

    /// The value of an attribute.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| &value[..])
    }

    /// The value of an attribute; an error if there is none.
    pub fn required_attribute(&self, name: &str) -> Result<&str, Fault> {
        let missing = || Fault::new(self.at, format!("<{}> has no attribute {name}", self.name));
        self.attribute(name).ok_or_else(missing)
    }

    /// A required attribute as an integer.
    pub fn integer(&self, name: &str) -> Result<u32, Fault> {
        let value = self.required_attribute(name)?;
        value.trim().parse().map_err(|_| {
            Fault::new(self.at, format!("{name}: found \"{}\", expected a whole number", quoted(value.as_bytes())))
        })
    }

    /// The words of the element's text.
    pub fn words(&self) -> Result<Vec<Word<'t>>, Fault> {
        let mut words = Vec::new();
        for &(start, text) in &self.text {
            let text =
                str::from_utf8(text).map_err(|error| Fault::new(start + error.valid_up_to(), "invalid UTF-8"))?;
            let words_of = text.split_ascii_whitespace();
            // Words are slices of the text, so their offset is the difference of addresses.
            words.extend(
                words_of.map(|word| Word { at: start + word.as_ptr().addr() - text.as_ptr().addr(), text: word }),
            );
        }
        Ok(words)
    }

    /// The only word of the element's text.
    pub fn word(&self) -> Result<Word<'t>, Fault> {
        match self.words()?[..] {
            [word] => Ok(word),
            [] => Err(Fault::new(self.at, format!("<{}> is empty, expected a word", self.name))),
            [_, second, ..] => Err(second.unexpected(&format!("</{}>", self.name))),
        }
    }
}

/// Parses a document with one root element.
pub fn parse(text: &[u8]) -> Result<Element<'_>, Fault> {
    let skipped = if text.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    let mut reader = Reader::from_reader(&text[skipped..]);
    reader.config_mut().expand_empty_elements = true;
    let mut open: Vec<Element> = Vec::new();
    let mut root = None;
    loop {
        let at = skipped + reader.buffer_position() as usize;
        let event = reader.read_event();
        let end = skipped + reader.buffer_position() as usize;
        let failed = |error: &dyn std::fmt::Display| Fault::new(at, error.to_string());
        match event.map_err(|error| Fault::new(skipped + reader.error_position() as usize, error.to_string()))? {
            Event::Start(tag) => {
                if root.is_some() {
                    return Err(Fault::new(at, "found a second element, expected the end of the file"));
                }
                if open.len() == MAX_DEPTH {
                    return Err(Fault::new(at, format!("more than {MAX_DEPTH} nested elements")));
                }
                let attributes = attributes(&tag).map_err(|error| failed(&error))?;
                let name = String::from_utf8_lossy(tag.name().as_ref()).into_owned();
                open.push(Element { name, at, attributes, text: Vec::new(), children: Vec::new() });
            }
            Event::End(_) => {
                if let Some(element) = open.pop() {
                    match open.last_mut() {
                        Some(parent) => parent.children.push(element),
                        None => root = Some(element),
                    }
                }
            }
            Event::Text(_) => {
                let text = text.get(at..end).unwrap_or_default();
                match open.last_mut() {
                    Some(element) => element.text.push((at, text)),
                    None if text.trim_ascii().is_empty() => {}
                    None => return Err(Fault::new(at, "found text, expected an element")),
                }
            }
            Event::Eof => break,
            _ => {}
        }
    }
    match (root, open.pop()) {
        (Some(root), None) => Ok(root),
        (_, Some(element)) => Err(Fault::new(element.at, format!("<{}> has no end tag", element.name))),
        (None, None) => Err(Fault::new(text.len(), "the file ends, expected an element")),
    }
}

fn attributes(tag: &BytesStart<'_>) -> Result<Vec<(String, String)>, quick_xml::Error> {
    let mut attributes = Vec::new();
    for attribute in tag.attributes() {
        let attribute = attribute?;
        let value = attribute.normalized_value(XmlVersion::Implicit1_0)?.into_owned();
        attributes.push((String::from_utf8_lossy(attribute.key.as_ref()).into_owned(), value));
    }
    Ok(attributes)
}
