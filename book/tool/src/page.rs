//! The text of a page: its expressions and links.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use pulldown_latex::config::{DisplayMode, RenderConfig};
use pulldown_latex::{Storage, mathml};

use crate::stage;

/// A page with expressions as MathML and with links to copies of the repository's files. Adds these files to `linked`.
pub fn converted(text: &str, page: &Path, repository: &Path, linked: &mut BTreeSet<PathBuf>) -> Result<String> {
    let name = || format!("book/{}", page.display());
    let options =
        Options::ENABLE_MATH | Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES | Options::ENABLE_DEFINITION_LIST;
    let (mut changes, mut in_code) = (Vec::<(Range<usize>, String)>::new(), false);
    for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
        match event {
            Event::InlineMath(latex) => changes.push((range, mathml(&latex, DisplayMode::Inline).with_context(name)?)),
            Event::DisplayMath(latex) => changes.push((range, mathml(&latex, DisplayMode::Block).with_context(name)?)),
            Event::Start(Tag::Link { dest_url, .. }) => {
                if let Some(url) = url(&dest_url, page, repository, linked).with_context(name)? {
                    changes.push((place(text, range, &dest_url).with_context(name)?, url));
                }
            }
            Event::Text(_) | Event::Html(_) | Event::InlineHtml(_) if !in_code => {
                let dollar = text[range.clone()].find('$').map(|at| range.start + at);
                if let Some(at) = dollar.filter(|&at| !text[..at].ends_with('\\')) {
                    let line = text[at..].lines().next().unwrap_or_default();
                    bail!("{}: no expression begins at {line}; a dollar is \\$", name());
                }
            }
            Event::Start(Tag::CodeBlock(_)) => in_code = true,
            Event::End(TagEnd::CodeBlock) => in_code = false,
            _ => {}
        }
    }
    Ok(replaced(text, changes))
}

/// An expression as MathML on one line, in which Markdown finds no markup.
fn mathml(latex: &str, display_mode: DisplayMode) -> Result<String> {
    let storage = Storage::new();
    let events: Vec<_> = pulldown_latex::Parser::new(latex, &storage)
        .collect::<Result<_, _>>()
        .map_err(|error| anyhow!("${latex}$ is not an expression: {error}"))?;
    let mut html = String::new();
    let events = events.into_iter().map(Ok::<_, std::convert::Infallible>);
    mathml::push_mathml(&mut html, events, RenderConfig { display_mode, ..RenderConfig::default() })?;
    // For \Big, pulldown-latex leaves out the space between two attributes.
    let html = html.replace("\"minsize=", "\" minsize=");
    // It escapes its own references to spaces.
    let html = html.replace("&amp;nbsp;", "\u{a0}");
    let (mut out, mut in_tag) = (String::new(), false);
    for c in html.replace('\n', " ").chars() {
        in_tag = c == '<' || in_tag && c != '>';
        match c {
            // Also the references of HTML: &lt;
            '<' | '>' | '&' | ';' => out.push(c),
            c if c.is_ascii_punctuation() && !in_tag => out += &format!("&#{};", u32::from(c)),
            c => out.push(c),
        }
    }
    Ok(out)
}

/// The URL in the HTML for a link that leads to a file of the repository or to a README.
fn url(dest: &str, page: &Path, repository: &Path, linked: &mut BTreeSet<PathBuf>) -> Result<Option<String>> {
    if dest.is_empty() || dest.starts_with('#') || dest.contains(':') {
        return Ok(None);
    }
    let (path, anchor) =
        dest.split_once('#').map_or((dest, String::new()), |(path, anchor)| (path, format!("#{anchor}")));
    let target = resolved(page, path)?;
    if target.starts_with("book") && !target.starts_with("book/tool") {
        // mdBook renders README.md as index.html.
        return Ok(path.strip_suffix("README.md").map(|folder| format!("{folder}index.html{anchor}")));
    }
    ensure!(repository.join(&target).exists(), "{dest} leads to {}, which does not exist", target.display());
    let url = stage::file_url(repository, &target)?;
    linked.insert(target);
    Ok(Some(relative(&url, page.parent().unwrap_or(Path::new("")))))
}

/// The path in the repository to which a page refers.
fn resolved(page: &Path, path: &str) -> Result<PathBuf> {
    let mut resolved = Path::new("book").join(page);
    resolved.pop();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(name) => resolved.push(name),
            Component::CurDir => {}
            Component::ParentDir if resolved.pop() => {}
            _ => bail!("{path} leads out of the repository"),
        }
    }
    Ok(resolved)
}

/// A path from the root of the HTML, as seen from a folder of it.
pub fn relative(url: &str, folder: &Path) -> String {
    "../".repeat(folder.components().count()) + url
}

/// The range of the URL in the source of a link.
fn place(text: &str, link: Range<usize>, url: &str) -> Result<Range<usize>> {
    let source = &text[link.clone()];
    let at = source.rfind(url).with_context(|| format!("write {source} with its URL in parentheses"))?;
    Ok(link.start + at..link.start + at + url.len())
}

fn replaced(text: &str, mut changes: Vec<(Range<usize>, String)>) -> String {
    changes.sort_by_key(|(range, _)| range.start);
    let (mut out, mut end) = (String::new(), 0);
    for (range, change) in changes {
        out += &text[end..range.start];
        out += &change;
        end = range.end;
    }
    out + &text[end..]
}

/// Text in HTML.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
