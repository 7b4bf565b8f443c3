//! Parses, links and splits PTX modules.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// A PTX module.
#[derive(Default)]
pub struct Module<'a> {
    /// The operand of `.version`.
    pub version: &'a str,
    /// The operand of `.target`.
    pub target: &'a str,
    /// The kernels, sorted by name.
    pub entries: Vec<Entry<'a>>,
    /// The lines `.version`, `.target` and `.address_size`.
    header: Vec<&'a str>,
    /// The numbers of source files, to which the lines `.loc` of items refer, and their names in quotes.
    files: Vec<(usize, &'a str)>,
    /// Variables, functions and kernels, in the order of the text.
    items: Vec<Item<'a>>,
    /// Indices of the variables and functions of each name: a function may have a declaration and a definition.
    by_name: BTreeMap<&'a str, Vec<usize>>,
}

/// A kernel's entry point.
pub struct Entry<'a> {
    /// Name of the entry point.
    pub name: &'a str,
    /// Size of each parameter in bytes.
    pub params: Vec<usize>,
    /// The parameters that are buffers' addresses, by index.
    pub buffers: Vec<usize>,
    /// Instructions, labels and declarations, each with its line number in the file, from 1.
    pub body: Vec<(usize, &'a str)>,
    /// Index among the items.
    at: usize,
}

/// A variable, function or kernel at the top level of a module.
struct Item<'a> {
    text: &'a str,
    /// Number of the first line, from 1.
    line: usize,
}

/// Parses a module in LLVM's format: one statement per line.
///
/// # Errors
/// An item has no end or no name, or a parameter has no size.
pub fn parse(text: &str) -> Result<Module<'_>, String> {
    let mut module = Module::default();
    // The item being read: its start, its first line, and whether it is a function. `depth` counts its open brackets.
    let mut open: Option<(usize, usize, bool)> = None;
    let (mut depth, mut end) = (0_usize, 0);
    for (index, raw) in text.split_inclusive('\n').enumerate() {
        let (start, line) = (end, code(raw));
        end += raw.len();
        if line.is_empty() {
            continue;
        }
        if open.is_none() {
            match line.split_whitespace().next() {
                Some(".version") => module.version = rest(line),
                Some(".target") => module.target = rest(line).split(',').next().unwrap_or_default(),
                Some(".address_size") => {}
                Some(".file") => {
                    let file = rest(line).split_once(char::is_whitespace);
                    let file = file.and_then(|(number, name)| Some((number.parse().ok()?, name.trim())));
                    module.files.push(file.ok_or_else(|| format!("line {}: no file in `{line}`", index + 1))?);
                    continue;
                }
                // Sections for debuggers, which are empty where only lines are known.
                Some(".section") if line.ends_with('}') => continue,
                _ => open = Some((start, index + 1, false)),
            }
        }
        let Some((start, first, function)) = &mut open else {
            module.header.push(line);
            continue;
        };
        *function |= line.split_whitespace().any(|word| matches!(word, ".entry" | ".func"));
        // Inline assembly has braces of its own.
        depth += line.matches(['{', '(']).count();
        depth -= line.matches(['}', ')']).count().min(depth);
        if depth == 0 && (line.ends_with(';') || *function && line.ends_with('}')) {
            module.add(Item { text: &text[*start..end], line: *first })?;
            open = None;
        }
    }
    if let Some((_, first, _)) = open {
        return Err(format!("line {first}: the item that begins here has no end"));
    }
    module.entries.sort_by_key(|entry| entry.name);
    Ok(module)
}

/// Links `text` with `library`: adds the definitions of `library` that `text` refers to and lacks.
///
/// rustc inlines functions of one crate into another, but the shared arrays that these functions use are declared in
/// the PTX of their own crate only.
///
/// # Errors
/// [`parse`] fails for one of the modules.
pub fn link(text: &str, library: &str) -> Result<String, String> {
    let (module, library) = (parse(text)?, parse(library)?);
    let defines = |items: &[Item<'_>], at: &[usize]| at.iter().any(|&at| items[at].is_definition());
    let here = |name: &str| module.by_name.get(name).is_some_and(|at| defines(&module.items, at));
    let there = |name: &str| library.by_name.get(name).filter(|at| defines(&library.items, at));
    let (mut needed, mut names) = (BTreeSet::new(), BTreeSet::new());
    let mut open: Vec<&str> = module.items.iter().map(|item| item.text).collect();
    while let Some(text) = open.pop() {
        for word in words(text).filter(|word| !here(word)) {
            for &at in there(word).into_iter().flatten() {
                names.insert(word);
                if needed.insert(at) {
                    open.push(library.items[at].text);
                }
            }
        }
    }
    let header = module.header.iter().map(|line| format!("{line}\n"));
    // The library's files follow those of the module.
    let before = module.files.iter().map(|(number, _)| *number).max().unwrap_or(0);
    let linked = needed.iter().map(|&at| renumbered(library.items[at].text, before));
    let files = module.files.iter().copied();
    let files: Vec<_> = match needed.is_empty() {
        true => files.collect(),
        false => files.chain(library.files.iter().map(|&(number, name)| (before + number, name))).collect(),
    };
    // Declarations of the added definitions are dropped.
    let declared: BTreeSet<usize> =
        names.iter().filter_map(|name| module.by_name.get(name)).flatten().copied().collect();
    let own = module.items.iter().enumerate().filter(|(at, _)| !declared.contains(at));
    let own = own.map(|(_, item)| item.text.to_owned());
    Ok(header.chain(linked).chain(own).chain(files_text(&files)).collect())
}

/// The text with `before` added to the number of each file.
fn renumbered(text: &str, before: usize) -> String {
    let line = |line: &str| {
        let loc =
            line.trim_start().strip_prefix(".loc").and_then(|rest| rest.trim_start().split_once(char::is_whitespace));
        match loc.and_then(|(number, rest)| Some((number.parse::<usize>().ok()?, rest))) {
            Some((number, rest)) => format!("\t.loc\t{} {rest}", before + number),
            None => line.to_owned(),
        }
    };
    text.split_inclusive('\n').map(line).collect()
}

/// The lines that declare source files.
fn files_text(files: &[(usize, &str)]) -> impl Iterator<Item = String> {
    files.iter().map(|(number, name)| format!("\t.file\t{number} {name}\n"))
}

impl<'a> Module<'a> {
    fn add(&mut self, item: Item<'a>) -> Result<(), String> {
        let at = self.items.len();
        let first = item.lines().map(|(_, line)| line).find(|line| !line.is_empty()).unwrap_or_default();
        if first.split_whitespace().any(|word| word == ".entry") {
            self.entries.push(item.entry(at)?);
        } else {
            let name = declared(first).ok_or_else(|| format!("line {}: no name in `{first}`", item.line))?;
            self.by_name.entry(name).or_default().push(at);
        }
        self.items.push(item);
        Ok(())
    }

    /// The text of a module with this kernel alone, and the variables and functions that it needs.
    pub fn alone(&self, entry: &Entry<'_>) -> String {
        let header = self.header.iter().map(|line| format!("{line}\n"));
        let items = self.needs(entry).into_iter().map(|at| self.items[at].text.to_owned());
        header.chain(items).chain(files_text(&self.files)).collect()
    }

    /// Indices of the items that a kernel refers to, directly or not, including itself.
    fn needs(&self, entry: &Entry<'_>) -> BTreeSet<usize> {
        let (mut needed, mut open) = (BTreeSet::from([entry.at]), vec![entry.at]);
        while let Some(at) = open.pop() {
            for word in words(self.items[at].text) {
                let named = self.by_name.get(word).into_iter().flatten().copied();
                open.extend(named.filter(|&other| needed.insert(other)));
            }
        }
        needed
    }

    /// The global variables without an initial value that several kernels use, each with two of these kernels. (A
    /// variable with an initial value is a constant table.)
    pub fn shared_variables(&self) -> Vec<(&'a str, [&'a str; 2])> {
        let mut users: BTreeMap<usize, Vec<&'a str>> = BTreeMap::new();
        for entry in &self.entries {
            for at in self.needs(entry) {
                users.entry(at).or_default().push(entry.name);
            }
        }
        let variables = self.by_name.iter().flat_map(|(name, items)| items.iter().map(move |at| (*name, at)));
        let shared = variables.filter_map(|(name, at)| {
            let text = self.items[*at].text;
            let variable = words(text).any(|word| word == ".global") && !text.contains('=') && !text.contains(".func");
            match users.get(at).map(Vec::as_slice) {
                Some([one, other, ..]) if variable => Some((name, [*one, *other])),
                _ => None,
            }
        });
        shared.collect()
    }
}

impl<'a> Item<'a> {
    /// Whether this is a definition. `.extern .shared` counts as one: dynamic shared memory has no other.
    fn is_definition(&self) -> bool {
        let function = words(self.text).any(|word| word == ".func");
        let external =
            words(self.text).any(|word| word == ".extern") && !words(self.text).any(|word| word == ".shared");
        if function { self.text.contains('{') } else { !external }
    }

    /// The lines without comments, each with its number.
    fn lines(&self) -> impl Iterator<Item = (usize, &'a str)> + use<'a> {
        let first = self.line;
        self.text.lines().enumerate().map(move |(index, line)| (first + index, code(line)))
    }

    fn entry(&self, at: usize) -> Result<Entry<'a>, String> {
        let mut lines = self.lines().filter(|(_, line)| !line.is_empty());
        let name = lines.next().and_then(|(_, line)| Some(line.split_once(".entry")?.1.split('(').next()?.trim()));
        let name = name.unwrap_or_default();
        let mut entry = Entry { name, params: Vec::new(), buffers: Vec::new(), body: Vec::new(), at };
        // The signature, up to the opening brace of the body.
        for (number, line) in lines.by_ref().take_while(|(_, line)| !line.starts_with('{')) {
            if line.starts_with(".param") {
                if line.contains(" .ptr ") {
                    entry.buffers.push(entry.params.len());
                }
                entry.params.push(size(line).ok_or_else(|| format!("line {number}: no size in `{line}`"))?);
            }
        }
        entry.body = lines.collect();
        // The closing brace.
        entry.body.pop();
        Ok(entry)
    }
}

/// The operands of a directive.
fn rest(line: &str) -> &str {
    line.split_once(char::is_whitespace).map_or("", |(_, rest)| rest.trim())
}

/// A line without its comment.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or(line).trim()
}

/// The name in the first line of a variable, such as `.shared .align 16 .b8 name[256];`, or of a function, such as
/// `.func (result) name(`.
fn declared(line: &str) -> Option<&str> {
    let text = match line.split_once(".func") {
        Some((_, function)) => match function.trim_start().strip_prefix('(') {
            Some(results) => results.split_once(')')?.1,
            None => function,
        },
        None => line.split(['=', '[', ';']).next()?.split_whitespace().next_back()?,
    };
    let name = text.trim().split(['(', ';', ' ', '\t']).next()?;
    (!name.is_empty() && !name.starts_with('.')).then_some(name)
}

/// The words of a text: names and directives.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || "_$%.".contains(c)))
}

/// The module with tensor maps, parameters of 128 bytes, at multiples of 64 bytes, as the GPU needs them. rustc aligns parameters to 16 at
/// most.
#[must_use]
pub fn align_tensor_maps(text: &str) -> String {
    let line = |line| match str::trim_start(line).strip_prefix(".param .align 16 .b8 ") {
        Some(rest) if rest.contains("[128]") => Cow::from(line.replacen(".align 16", ".align 64", 1)),
        _ => Cow::from(line),
    };
    text.split_inclusive('\n').map(line).collect()
}

/// The module with the launch bounds of its kernels as directives before their bodies. `#[kernel(bounds(…))]` leaves them in a comment of the
/// body, because rustc has no attribute for them.
#[must_use]
pub fn launch_bounds(text: &str) -> String {
    let mut bounded = String::with_capacity(text.len());
    // The place of the opening brace of the last kernel's or function's body.
    let mut body = 0;
    for line in text.split_inclusive('\n') {
        if let Some(bounds) = line.trim().strip_prefix("// launch bounds: ") {
            let directives = bounds.replace(" .", "\n.");
            bounded.insert_str(body, &format!("{directives}\n"));
            continue;
        }
        if line.starts_with('{') {
            body = bounded.len();
        }
        bounded.push_str(line);
    }
    bounded
}

/// The size of a parameter in bytes: 8 for `.param .u64 .ptr .align 1 name`, 12 for `.param .b8 name[12]`.
fn size(line: &str) -> Option<usize> {
    let mut words = line.split_whitespace().skip(1);
    let mut ty = words.next()?;
    if ty == ".align" {
        ty = words.nth(1)?;
    }
    let bits: usize = ty.get(2..)?.parse().ok()?;
    let count = line.split_once('[').map_or(Some(1), |(_, rest)| rest.split(']').next()?.parse().ok())?;
    Some(bits / 8 * count)
}
